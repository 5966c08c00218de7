// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"errors"
	"net/netip"
	"unsafe"
)

const (
	// defaultSegments is UDP_MAX_SEGMENTS of Linux 4.18 to 6.8; later kernels have 128.
	defaultSegments = 64

	// maxPieces is how many pieces of memory one system call takes (UIO_MAXIOV of Linux).
	// maxPiecesEach is how many are reserved for each datagram.
	maxPieces     = 1024
	maxPiecesEach = 64
)

var errUnfilled = errors.New("netio: a datagram of the train has not the size it was begun with")

// Train is one send to one destination: datagrams ("segments") of equal size, of which only the
// last may be shorter. It gathers the bytes where they are and copies none. It can be reset and
// used again, and keeps its own memory.
//
//	t.Reset(to)
//	for more && t.Begin(size) {
//		t.Add(header)
//		t.Add(payload)
//	}
//	err := s.Send(t)
type Train struct {
	to      netip.AddrPort
	pieces  []piece
	limit   int  // maximum number of datagrams; 0: defaultSegments
	count   int  // datagrams begun
	segment int  // size of the first datagram
	total   int  // sum of the sizes begun
	filled  int  // bytes added
	sealed  bool // a shorter datagram has ended the train
	sent    int  // datagrams already sent, by a send that was cut short

	ttl, tos uint8
}

// piece is memory to gather from. It has the layout of struct iovec.
type piece struct {
	base *byte
	len  uint
}

// Reset empties the train and gives it a destination.
func (t *Train) Reset(to netip.AddrPort) {
	clear(t.pieces) // keep no memory alive
	*t = Train{to: to, pieces: t.pieces[:0], limit: t.limit}
}

// Mark sets the time to live and type of service, or hop limit and traffic class, of the train's
// packets; 0 selects the system's default. Systems without batched sends always use their default.
func (t *Train) Mark(ttl, tos uint8) { t.ttl, t.tos = ttl, tos }

// To returns the train's destination.
func (t *Train) To() netip.AddrPort { return t.to }

// Len returns the number of datagrams in the train.
func (t *Train) Len() int { return t.count }

// Size returns the number of bytes in the train.
func (t *Train) Size() int { return t.total }

// Begin opens another datagram of size bytes, 1 to MaxPayload. Its bytes follow by Add, in at most
// 64 pieces. Begin returns false and changes nothing if the datagram cannot join: the train is
// full, the datagram is longer than the earlier ones, or the last one was shorter.
func (t *Train) Begin(size int) bool {
	if size <= 0 || t.total+size > MaxPayload || t.sealed {
		return false
	}
	if t.count == 0 {
		t.segment = size
	} else {
		limit := t.limit
		if limit == 0 {
			limit = defaultSegments
		}
		if size > t.segment || t.count >= limit || len(t.pieces) > maxPieces-maxPiecesEach {
			return false
		}
		t.sealed = size < t.segment
	}
	t.count++
	t.total += size
	return true
}

// Add appends bytes to the open datagram. They are not copied. Memory that directly follows the
// last added piece is merged with it into one piece.
func (t *Train) Add(b []byte) {
	if len(b) == 0 {
		return
	}
	t.filled += len(b)
	base := unsafe.SliceData(b)
	if n := len(t.pieces); n > 0 {
		last := &t.pieces[n-1]
		if uintptr(unsafe.Pointer(last.base))+uintptr(last.len) == uintptr(unsafe.Pointer(base)) {
			last.len += uint(len(b))
			return
		}
	}
	t.pieces = append(t.pieces, piece{base, uint(len(b))})
}

// Fill makes an empty train of the datagrams that lie one behind the other in b. All have segment
// bytes, except the last, which may be shorter. It returns false if they are more or longer than a
// train can be.
func (t *Train) Fill(b []byte, segment int) bool {
	limit := t.limit
	if limit == 0 {
		limit = defaultSegments
	}
	if len(b) == 0 || len(b) > MaxPayload || segment <= 0 || segment > len(b) || (len(b)+segment-1)/segment > limit {
		return false
	}
	t.count, t.segment = (len(b)+segment-1)/segment, segment
	t.total, t.filled, t.sealed = len(b), len(b), len(b)%segment != 0
	t.pieces = append(t.pieces[:0], piece{unsafe.SliceData(b), uint(len(b))})
	return true
}

// check reports whether the train is complete.
func (t *Train) check() error {
	if t.filled != t.total || len(t.pieces) > maxPieces {
		return errUnfilled
	}
	return nil
}

// cut appends the pieces of datagram i to dst. Memory that was merged into one piece may belong to
// several datagrams, and to several Go objects: the pointer check of the race detector's build
// takes that for an error.
//
//go:nocheckptr
func (t *Train) cut(i int, dst []piece) []piece {
	skip := uint(i * t.segment)
	need := uint(t.sizeOf(i))
	for _, p := range t.pieces {
		if skip >= p.len {
			skip -= p.len
			continue
		}
		n := min(p.len-skip, need)
		dst = append(dst, piece{(*byte)(unsafe.Add(unsafe.Pointer(p.base), skip)), n})
		if need -= n; need == 0 {
			break
		}
		skip = 0
	}
	return dst
}

// sizeOf returns the size of datagram i.
func (t *Train) sizeOf(i int) int {
	return min(t.segment, t.total-i*t.segment)
}

// copySegment copies datagram i to dst, which must be long enough, and returns
// its size. See cut for the directive.
//
//go:nocheckptr
func (t *Train) copySegment(i int, dst []byte, scratch []piece) (int, []piece) {
	scratch = t.cut(i, scratch[:0])
	n := 0
	for _, p := range scratch {
		n += copy(dst[n:], unsafe.Slice(p.base, p.len))
	}
	return n, scratch
}
