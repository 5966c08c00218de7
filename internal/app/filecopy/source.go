// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// source is the file that is copied.
type source struct {
	f      *os.File
	info   fs.FileInfo // when the copy began
	mapped bool        // under a lease
}

func openSource(path string) (*source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return newSource(f, path, true)
}

// newSource takes an open file. With maps its pages are sent as they are, where they can be mapped.
func newSource(f *os.File, path string, maps bool) (*source, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "copy", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	s := &source{f: f, info: info, mapped: maps && !noMaps && lease(f)}
	if now, err := f.Stat(); err != nil || s.differs(now) { // it changed just before the lease
		f.Close()
		return nil, ErrChanged
	}
	return s, nil
}

func (s *source) size() int64 { return s.info.Size() }

func (s *source) differs(now fs.FileInfo) bool {
	return now.Size() != s.info.Size() || !now.ModTime().Equal(s.info.ModTime())
}

// unchanged returns ErrChanged if the file has changed, or is about to change.
func (s *source) unchanged() error {
	now, err := s.f.Stat()
	switch {
	case err != nil:
		return err
	case s.differs(now):
		return ErrChanged
	case s.mapped && !leased(s.f):
		return fmt.Errorf("%w: another process opened it for writing", ErrChanged)
	}
	return nil
}

// load returns a segment of the file in registered memory.
func (s *source) load(pd *verbs.PD, off int64, n int) (*segment, error) {
	if s.mapped {
		seg, err := mapSegment(pd, s.f, off, n, 0)
		if !unsupported(err) {
			return seg, err
		}
	}
	seg, err := newBuffer(pd, n, 0)
	if err != nil {
		return nil, err
	}
	if _, err := s.f.ReadAt(seg.mr.Bytes(), off); err != nil {
		seg.close()
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: it has become shorter than %d bytes", ErrChanged, s.size())
		}
		return nil, err
	}
	return seg, nil
}

func (s *source) close() { s.f.Close() }
