// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"errors"
	"os"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// segment is registered memory that holds a segment of a file: the file's own pages, or a
// buffer.
type segment struct {
	mr     *verbs.MR
	mapped []byte // nil: a buffer
}

// mapSegment registers the pages of a part of a file. It returns errors.ErrUnsupported if that
// cannot be done.
func mapSegment(pd *verbs.PD, f *os.File, off int64, n int, access verbs.Access) (*segment, error) {
	if noMaps {
		return nil, errors.ErrUnsupported
	}
	b, err := mapFile(f, off, n, access&verbs.LocalWrite != 0)
	if err != nil {
		return nil, err
	}
	mr, err := pd.RegMR(b, access)
	if err != nil {
		unmapFile(b)
		return nil, err
	}
	return &segment{mr, b}, nil
}

// noMaps makes tests behave as other systems.
var noMaps bool

// newBuffer registers a buffer of n bytes.
func newBuffer(pd *verbs.PD, n int, access verbs.Access) (*segment, error) {
	mr, err := pd.AllocMR(n, access)
	if err != nil {
		return nil, err
	}
	return &segment{mr: mr}, nil
}

// close releases the memory. Data that peers wrote stays in the file, if it is mapped.
func (s *segment) close() error {
	err := s.mr.Close()
	if err == nil && s.mapped != nil {
		err = unmapFile(s.mapped)
	}
	return err
}

// unsupported reports whether files have to be read and written instead of mapped.
func unsupported(err error) bool { return errors.Is(err, errors.ErrUnsupported) }
