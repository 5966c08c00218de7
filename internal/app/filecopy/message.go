// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Protocol constants.
const (
	hello = "ramjet-cp\x02" // private data of a request: the protocol and its version

	maxSegment = 4 << 20 // bytes
	maxFile    = math.MaxInt64 - maxSegment
	window     = 8 // segments granted at a time

	maxSegments = 512 // granted by a server; beyond it a client has one at a time

	maxMessage = 8192
	maxName    = 4096
	maxText    = 1024
	maxSums    = (maxMessage - 16) / sha256.Size // in one have
)

// everyFile is the number of no file: a failure of it is why the connection ends.
const everyFile = math.MaxUint32

// digest is a SHA-256.
type digest = [sha256.Size]byte

// kind is the first byte of a message.
type kind uint8

const (
	kindStat kind = iota + 1
	kindMkdir
	kindAttr
	kindOpen
	kindStart
	kindWritten
	kindFinish
	kindAbort
	kindInfo
	kindDone
	kindFailure
	kindHave
	kindGrant
	kindList
	kindFetch
	kindEntries
)

// Modes and times: permission bits, nanoseconds since 1970.
type attr struct {
	Mode  uint32
	MTime int64
}

// Messages of the client.
type (
	stat  struct{ Name string }
	mkdir struct {
		Name string
		attr
	}
	setAttr struct { // of a directory that is complete
		Name string
		attr
	}
	open struct {
		File uint32 // number of the file on this connection
		Size uint64
		attr
		Name string
	}
	start   struct{ File, Segment uint32 } // the first segment that the client will write
	written struct{ File, Segment uint32 }
	finish  struct {
		File uint32
		Sum  digest
	}
	list struct {
		Self bool // not the entries of the directory, but itself
		Name string
	}
	fetch struct { // the server is to copy a file to the client: it answers with open
		File uint32 // number of the file on this connection
		Name string
	}
	abort struct { // no more WRITEs follow
		File    uint32
		Discard bool // the partial file is useless
	}
)

// Messages of the server.
type (
	entries struct { // answer list; several until the last one
		Last bool
		List []Entry
	}
	info    struct{ Kind FileKind } // answers stat
	done    struct{ File uint32 }   // answers mkdir, setAttr and finish
	failure struct {                // answers anything
		File uint32 // everyFile: the connection ends
		Text string
	}
	have struct { // answers open; several until Total sums have been sent
		File, Total uint32
		Sums        []digest
	}
	grant struct {
		File, Segment uint32
		Addr          uint64
		Key           uint32
		Length        uint32
	}
)

// FileKind is the kind of file behind a name at the server.
type FileKind uint8

// Kinds of files.
const (
	None FileKind = iota
	File
	Dir
	Other
)

// message is any of the above.
type message interface{ append(b []byte) []byte }

func (m stat) append(b []byte) []byte { return appendText(append(b, byte(kindStat)), m.Name) }
func (m mkdir) append(b []byte) []byte {
	return appendText(m.attr.append(append(b, byte(kindMkdir))), m.Name)
}
func (m setAttr) append(b []byte) []byte {
	return appendText(m.attr.append(append(b, byte(kindAttr))), m.Name)
}
func (m open) append(b []byte) []byte {
	b = be.AppendUint64(be.AppendUint32(append(b, byte(kindOpen)), m.File), m.Size)
	return appendText(m.attr.append(b), m.Name)
}
func (m start) append(b []byte) []byte {
	return be.AppendUint32(be.AppendUint32(append(b, byte(kindStart)), m.File), m.Segment)
}
func (m written) append(b []byte) []byte {
	return be.AppendUint32(be.AppendUint32(append(b, byte(kindWritten)), m.File), m.Segment)
}
func (m finish) append(b []byte) []byte {
	return append(be.AppendUint32(append(b, byte(kindFinish)), m.File), m.Sum[:]...)
}
func (m list) append(b []byte) []byte {
	return appendText(appendFlag(append(b, byte(kindList)), m.Self), m.Name)
}
func (m fetch) append(b []byte) []byte {
	return appendText(be.AppendUint32(append(b, byte(kindFetch)), m.File), m.Name)
}
func (m entries) append(b []byte) []byte {
	b = appendFlag(append(b, byte(kindEntries)), m.Last)
	for i := range m.List {
		b = m.List[i].append(b)
	}
	return b
}
func (m abort) append(b []byte) []byte {
	return appendFlag(be.AppendUint32(append(b, byte(kindAbort)), m.File), m.Discard)
}
func (m info) append(b []byte) []byte { return append(b, byte(kindInfo), byte(m.Kind)) }
func (m done) append(b []byte) []byte { return be.AppendUint32(append(b, byte(kindDone)), m.File) }
func (m failure) append(b []byte) []byte {
	return appendText(be.AppendUint32(append(b, byte(kindFailure)), m.File), m.Text[:min(len(m.Text), maxText)])
}
func (m have) append(b []byte) []byte {
	b = be.AppendUint32(be.AppendUint32(append(b, byte(kindHave)), m.File), m.Total)
	for _, s := range m.Sums {
		b = append(b, s[:]...)
	}
	return b
}
func (m grant) append(b []byte) []byte {
	b = be.AppendUint32(be.AppendUint32(append(b, byte(kindGrant)), m.File), m.Segment)
	b = be.AppendUint64(b, m.Addr)
	return be.AppendUint32(be.AppendUint32(b, m.Key), m.Length)
}
func (a attr) append(b []byte) []byte {
	return be.AppendUint64(be.AppendUint32(b, a.Mode), uint64(a.MTime))
}

var be = binary.BigEndian

func appendFlag(b []byte, set bool) []byte {
	if set {
		return append(b, 1)
	}
	return append(b, 0)
}

// appendText appends a text, which is the rest of a message.
func appendText(b []byte, s string) []byte { return append(b, s...) }

var errMessage = errors.New(
	"the peer sent something else than a message of this protocol: is it a ramjet of the same version?")

// parse decodes a message. The result does not alias b.
func parse(b []byte) (message, error) {
	r := &reader{b: b}
	var m message
	switch k := kind(r.u8()); k {
	case kindStat:
		m = stat{r.rest(maxName)}
	case kindMkdir:
		m = mkdir{attr: r.attr(), Name: r.rest(maxName)}
	case kindAttr:
		m = setAttr{attr: r.attr(), Name: r.rest(maxName)}
	case kindOpen:
		m = open{File: r.u32(), Size: r.u64(), attr: r.attr(), Name: r.rest(maxName)}
	case kindStart:
		m = start{r.u32(), r.u32()}
	case kindWritten:
		m = written{r.u32(), r.u32()}
	case kindFinish:
		m = finish{r.u32(), r.digest()}
	case kindAbort:
		m = abort{r.u32(), r.flag()}
	case kindInfo:
		m = info{FileKind(r.u8())}
	case kindDone:
		m = done{r.u32()}
	case kindFailure:
		m = failure{r.u32(), r.rest(maxText)}
	case kindHave:
		h := have{File: r.u32(), Total: r.u32()}
		for len(r.b) > 0 && !r.bad && len(h.Sums) < maxSums {
			h.Sums = append(h.Sums, r.digest())
		}
		m = h
	case kindGrant:
		m = grant{r.u32(), r.u32(), r.u64(), r.u32(), r.u32()}
	case kindList:
		m = list{r.flag(), r.rest(maxName)}
	case kindFetch:
		m = fetch{r.u32(), r.rest(maxName)}
	case kindEntries:
		e := entries{Last: r.flag()}
		for len(r.b) > 0 && !r.bad {
			e.List = append(e.List, r.entry())
		}
		m = e
	default:
		return nil, fmt.Errorf("%w: kind %d of %d bytes", errMessage, k, len(b))
	}
	if r.bad || len(r.b) > 0 {
		return nil, fmt.Errorf("%w: kind %d of %d bytes", errMessage, b[0], len(b))
	}
	return m, nil
}

// reader decodes fields of a message; bad is set once it was too short.
type reader struct {
	b   []byte
	bad bool
}

var zeros [sha256.Size]byte

// next returns the next n bytes, at most 32, or zeros if there are fewer.
func (r *reader) next(n int) []byte {
	if len(r.b) < n {
		r.bad, r.b = true, nil
		return zeros[:n]
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) u8() uint8      { return r.next(1)[0] }
func (r *reader) u32() uint32    { return be.Uint32(r.next(4)) }
func (r *reader) u64() uint64    { return be.Uint64(r.next(8)) }
func (r *reader) digest() digest { return digest(r.next(sha256.Size)) }
func (r *reader) attr() attr     { return attr{r.u32(), int64(r.u64())} }

func (r *reader) flag() bool {
	v := r.u8()
	r.bad = r.bad || v > 1
	return v == 1
}

// rest returns the rest of the message as text.
func (r *reader) rest(limit int) string {
	s := string(r.b)
	r.bad = r.bad || len(s) > limit
	r.b = nil
	return s
}

// segmentSize is maxSegment, but in tests, which would copy much otherwise.
var segmentSize int64 = maxSegment

// segments returns the number of segments of a file.
func segments(size int64) int { return int((size + segmentSize - 1) / segmentSize) }

// span returns the offset and length of a segment.
func span(segment int, size int64) (off int64, n int) {
	off = int64(segment) * segmentSize
	return off, int(min(segmentSize, size-off))
}
