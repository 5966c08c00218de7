// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Entry is a file or directory at the server. It is an [fs.FileInfo].
type Entry struct {
	Kind FileKind // not None
	Base string   // its name in its directory
	Len  uint64   // bytes
	attr
}

// Name returns the name within the directory.
func (e *Entry) Name() string { return e.Base }

// Size returns the length in bytes.
func (e *Entry) Size() int64 { return int64(e.Len) }

// ModTime returns when the contents changed last.
func (e *Entry) ModTime() time.Time { return time.Unix(0, e.MTime) }

// IsDir reports whether it is a directory.
func (e *Entry) IsDir() bool { return e.Kind == Dir }

// Sys returns nil.
func (e *Entry) Sys() any { return nil }

// Mode returns the permissions, with fs.ModeDir or, if the entry is neither file nor directory,
// fs.ModeIrregular.
func (e *Entry) Mode() fs.FileMode {
	m := fs.FileMode(e.attr.Mode) & fs.ModePerm
	switch e.Kind {
	case Dir:
		m |= fs.ModeDir
	case Other:
		m |= fs.ModeIrregular
	}
	return m
}

// entryOf describes a file or directory of the server.
func entryOf(info fs.FileInfo) Entry {
	e := Entry{Kind: Other, Base: info.Name(), attr: attrOf(info)}
	switch {
	case info.IsDir():
		e.Kind = Dir
	case info.Mode().IsRegular():
		e.Kind, e.Len = File, uint64(info.Size())
	}
	return e
}

// maxBase is the longest name of an entry.
const maxBase = 1024

// entryHeader is the length of an entry without its name.
const entryHeader = 1 + 8 + 4 + 8 + 2

func (e *Entry) append(b []byte) []byte {
	b = e.attr.append(be.AppendUint64(append(b, byte(e.Kind)), e.Len))
	return append(be.AppendUint16(b, uint16(len(e.Base))), e.Base...)
}

// entry decodes an entry whose name is one, and of a file that can be.
func (r *reader) entry() (e Entry) {
	e.Kind, e.Len, e.attr = FileKind(r.u8()), r.u64(), r.attr()
	n := int(be.Uint16(r.next(2)))
	if n > maxBase || n > len(r.b) {
		r.bad, r.b = true, nil
		return e
	}
	e.Base, r.b = string(r.b[:n]), r.b[n:]
	r.bad = r.bad || checkBase(e.Base) != nil || e.Kind < File || e.Kind > Other || e.Len > maxFile ||
		e.Kind != File && e.Len != 0
	return e
}

// checkBase makes sure that a name is one below a directory, and no way out of it.
func checkBase(name string) error {
	if len(name) > maxBase || name == "." || strings.ContainsAny(name, "/\x00") || path.Base(name) != name ||
		!filepath.IsLocal(name) {
		return fmt.Errorf("%q is not a name of a file", name)
	}
	return nil
}
