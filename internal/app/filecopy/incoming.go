// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// incoming is a file that a client writes.
type incoming struct {
	root    *os.Root
	pd      *verbs.PD
	file    uint32
	name    string
	partial string // its name until it is complete
	size    int64
	attr    attr

	basis    *os.File // existing contents: the partial file, or the file itself; nil: none
	complete bool     // the basis is the file itself
	offered  int      // segments of it
	states   []*chain // at the beginning of each, and at the end
	kept     int64    // bytes of it that the client keeps

	f        *os.File // the partial file
	begun    bool
	mapped   bool
	chain    *chain
	granted  int              // segments
	window   int              // how many may be granted at a time: more when the client writes them
	segments map[int]*segment // granted and not yet added to the chain
	arrived  map[int]bool     // the written ones among them
	failure  error            // told to the client
	keep     bool             // keep the partial file for another attempt
}

// newIncoming finds the existing contents.
func newIncoming(root *os.Root, pd *verbs.PD, name string, m open) (*incoming, error) {
	in := &incoming{root: root, pd: pd, file: m.File, name: name, partial: partialName(name), size: int64(m.Size),
		attr: m.attr, chain: newChain(), segments: map[int]*segment{}, arrived: map[int]bool{}, window: 1, keep: true}
	there, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case there.IsDir():
		return nil, errors.New("there is a directory of this name")
	case !there.Mode().IsRegular() && there.Mode()&fs.ModeSymlink == 0:
		return nil, errors.New("there is something of this name that is not a regular file")
	}
	if begun, err := root.Lstat(in.partial); err == nil {
		if !begun.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is in the way: it is not a regular file", filepath.Base(in.partial))
		}
		if err := in.hold(0); err != nil {
			return nil, err
		}
		if begun, err = in.f.Stat(); err != nil {
			in.f.Close()
			return nil, err
		}
		if in.offer(begun.Size()) {
			in.basis = in.f
		}
		return in, nil
	}
	if there != nil && there.Mode().IsRegular() && there.Size() == in.size && there.ModTime().UnixNano() == m.MTime {
		in.complete = in.size > 0
		if in.offer(there.Size()) {
			if in.basis, err = root.Open(name); err != nil {
				return nil, err
			}
		}
	}
	return in, nil
}

// hold opens the partial file, and keeps others from writing it, until it is closed: another client, which may name the
// file in another way, through a symbolic link, or the client of another server in the same directory.
func (in *incoming) hold(flags int) error {
	f, err := in.root.OpenFile(in.partial, os.O_RDWR|flags, 0o600)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) && flags&os.O_CREATE == 0 {
		return errTaken // it has just been created, or completed
	}
	if err != nil {
		return err
	}
	if err = lockFile(f); err == nil && !in.named(f) {
		err = errTaken
	}
	if err != nil {
		f.Close()
		return err
	}
	in.f = f
	return nil
}

// named reports whether a file has the name of the partial file, still.
func (in *incoming) named(f *os.File) bool {
	there, err := in.root.Lstat(in.partial)
	is, err2 := f.Stat()
	return err == nil && err2 == nil && os.SameFile(there, is)
}

// errTaken says that another client writes the file.
var errTaken = errors.New("another client is writing it")

// partialSuffix ends the names of incomplete files.
const partialSuffix = ".ramjet-partial"

// partialName returns the name of an incomplete file.
func partialName(name string) string {
	dir, base := filepath.Split(name)
	if len(base) > 255-len("."+partialSuffix) {
		base = fmt.Sprintf("%x", sha256.Sum256([]byte(base)))
	}
	return filepath.Join(dir, "."+base+partialSuffix)
}

// IsPartial reports whether a name is an incomplete file's. No file is copied to or from such a name.
func IsPartial(name string) bool { return strings.HasSuffix(name, partialSuffix) }

// offer sets how many segments of existing contents are offered, of so many bytes. It reports whether there are any.
func (in *incoming) offer(size int64) bool {
	if in.offered = int(size / segmentSize); size >= in.size {
		in.offered = segments(in.size)
	}
	return in.offered > 0
}

// begin opens the partial file, with the segments that the client keeps of the basis, and allocates the rest.
func (in *incoming) begin(first int) (err error) {
	in.begun, in.granted = true, first
	in.kept = min(int64(first)*segmentSize, in.size)
	if in.states != nil {
		in.chain, in.states = in.states[first], nil
	}
	if in.basis != nil && in.basis != in.f {
		defer in.basis.Close()
	}
	if in.complete && first == in.offered {
		return nil
	}
	if in.f == nil {
		if err := in.hold(os.O_CREATE | os.O_EXCL); err != nil {
			return err
		}
	}
	if in.complete {
		if _, err := io.CopyN(in.f, in.basis, in.kept); err != nil {
			return err
		}
		in.complete = false
	}
	if err := in.f.Truncate(in.kept); err != nil || in.kept == in.size {
		return err
	}
	err = reserve(in.f, in.kept, in.size)
	in.mapped = err == nil
	if unsupported(err) {
		return nil
	}
	return err
}

// grant returns memory for segment n, the next one to be granted.
func (in *incoming) grant(n int) (*segment, error) {
	off, length := span(n, in.size)
	const access = verbs.LocalWrite | verbs.RemoteWrite
	var seg *segment
	err := errors.ErrUnsupported
	if in.mapped {
		if err := in.f.Truncate(off + int64(length)); err != nil {
			return nil, err
		}
		seg, err = mapSegment(in.pd, in.f, off, length, access)
	}
	if unsupported(err) {
		in.mapped = false
		seg, err = newBuffer(in.pd, length, access)
	}
	if err != nil {
		return nil, err
	}
	in.segments[n] = seg
	in.granted++
	return seg, nil
}

// written adds segment n to the chain, or keeps it until the earlier ones have arrived. ok reports
// whether it was granted.
func (in *incoming) written(n int) (ok bool, err error) {
	if in.segments[n] == nil || in.arrived[n] {
		return false, nil
	}
	in.arrived[n] = true
	in.window = min(2*in.window, window)
	for in.arrived[in.chain.next] {
		n := in.chain.next
		seg := in.segments[n]
		if seg.mapped == nil {
			off, _ := span(n, in.size)
			if _, err := in.f.WriteAt(seg.mr.Bytes(), off); err != nil {
				return true, err
			}
		}
		in.chain.add(seg.mr.Bytes())
		delete(in.segments, n)
		delete(in.arrived, n)
		if err := seg.close(); err != nil {
			return true, err
		}
	}
	return true, nil
}

// finish gives the file its name, if its contents match the client's.
func (in *incoming) finish(sum digest) error {
	if !in.begun || in.chain.next != segments(in.size) {
		return fmt.Errorf("%d of %d segments have arrived", in.chain.next, segments(in.size))
	}
	if in.chain.sum() != sum {
		in.keep = false
		return errors.New("the SHA-256 of what arrived is not that of the file: copy it again")
	}
	mode, t := fs.FileMode(in.attr.Mode)&fs.ModePerm, time.Unix(0, in.attr.MTime)
	if in.complete {
		if err := in.root.Chtimes(in.name, t, t); err != nil {
			return err
		}
		return in.root.Chmod(in.name, mode)
	}
	if err := in.f.Chmod(mode); err != nil {
		return err
	}
	if err := in.root.Chtimes(in.partial, t, t); err != nil {
		return err
	}
	if !in.named(in.f) {
		return fmt.Errorf("somebody has removed or replaced %s: copy it again", filepath.Base(in.partial))
	}
	if err := in.root.Rename(in.partial, in.name); err != nil { // before it is closed: others may write it then
		return err
	}
	return in.f.Close()
}

// interrupted keeps the verified part of an incomplete file.
func (in *incoming) interrupted() {
	for _, seg := range in.segments {
		seg.close()
	}
	if !in.begun && in.basis != nil && in.basis != in.f {
		in.basis.Close()
	}
	if in.f == nil {
		return
	}
	defer in.f.Close()
	if !in.begun { // nothing was changed
		return
	}
	good := min(int64(in.chain.next)*segmentSize, in.size)
	in.f.Truncate(good) // fails after finish, which had nothing more to cut
	if (!in.keep || good == 0) && in.named(in.f) {
		in.root.Remove(in.partial)
	}
}
