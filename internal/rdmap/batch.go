// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

const (
	// maxSegment bounds ULPDUs so that payloads begin at a multiple of 64 bytes of a message, and
	// an FPDU fits a segment of the loopback interface (65,464 bytes with IPv6): what is over
	// would cost as much as a segment that is full.
	maxSegment = 1022*64 + iwarp.TaggedLen
	// copyLimit is the longest payload that is copied beside its header: a piece of its own
	// in the gathering send costs more than that.
	copyLimit = 2 << 10
	// batchBytes is when a batch is full: at 16 long FPDUs, as a write costs some 10 µs beside
	// its bytes while the peer reads. arenaBytes is what a batch can hold of its own: all of that,
	// and the FPDU that goes beyond.
	batchBytes = 992 << 10
	arenaBytes = batchBytes + 64<<10 + 4<<10
	maxPieces  = 256
	// overhead is more than an FPDU has beside its payload, without markers.
	overhead = 64 + iwarp.AtomicRequestLen
)

// Batch is FPDUs for one gathering send.
type Batch struct {
	// Pieces are the bytes in order. Sent takes away what TCP took.
	Pieces [][]byte

	arena []byte
	used  int
	last  bool // the last piece ends where the arena is free
	total int
	refs  []memory.Span // whose memory is among the pieces
}

// NewBatch makes an empty batch.
func NewBatch() *Batch {
	return &Batch{arena: make([]byte, arenaBytes), Pieces: make([][]byte, 0, maxPieces+8), refs: make([]memory.Span, 0, maxPieces)}
}

// Reset empties the batch.
func (b *Batch) Reset() {
	clear(b.Pieces)
	clear(b.refs)
	b.Pieces, b.refs = b.Pieces[:0], b.refs[:0]
	b.used, b.total, b.last = 0, 0, false
}

// Len returns the bytes that are left to be sent.
func (b *Batch) Len() int { return b.total }

// Valid says whether all memory in it still stands for what it was.
func (b *Batch) Valid() bool {
	for i := range b.refs {
		if !b.refs[i].Valid() {
			return false
		}
	}
	return true
}

// Sent takes away the first n bytes.
func (b *Batch) Sent(n int) {
	b.total -= n
	i := 0
	for ; n > 0 && n >= len(b.Pieces[i]); i++ {
		n -= len(b.Pieces[i])
	}
	if i > 0 {
		b.Pieces = append(b.Pieces[:0], b.Pieces[i:]...)
	}
	if n > 0 {
		b.Pieces[0] = b.Pieces[0][n:]
	}
}

// room says whether an FPDU with that many bytes copied fits.
func (b *Batch) room(copied int) bool {
	return b.total < batchBytes && len(b.arena)-b.used >= copied+overhead && len(b.Pieces) < maxPieces-34
}

// grab returns the next n bytes of the arena, as a part of the batch.
func (b *Batch) grab(n int) []byte {
	s := b.arena[b.used : b.used+n : b.used+n]
	if b.last {
		p := &b.Pieces[len(b.Pieces)-1]
		*p = b.arena[b.used-len(*p) : b.used+n]
	} else {
		b.Pieces = append(b.Pieces, s)
	}
	b.used += n
	b.total += n
	b.last = true
	return s
}

// refer makes the memory of a span a part of the batch.
func (b *Batch) refer(s memory.Span, piece []byte) {
	b.Pieces = append(b.Pieces, piece)
	b.refs = append(b.refs, s)
	b.total += s.Len()
	b.last = false
}
