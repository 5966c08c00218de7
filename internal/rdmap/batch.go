// SPDX-License-Identifier: Apache-2.0

package rdmap

import "github.com/ramjet-rdma/ramjet/wire/iwarp"

const (
	// maxSegment bounds ULPDUs so that payloads begin at a multiple of 64 bytes of a message, and
	// an FPDU fits a segment of the loopback interface (65,464 bytes with IPv6): what is over
	// would cost as much as a segment that is full.
	maxSegment = 1022*64 + iwarp.TaggedLen
	// batchBytes is when a batch is full: at 16 long FPDUs, as a write costs some 10 µs beside
	// its bytes while the peer reads. batchRoom is what it can hold: all of that, the FPDU that
	// goes beyond, and the short messages that may follow it.
	batchBytes = 248 << 10
	batchRoom  = batchBytes + 64<<10 + 4<<10
)

// Batch is FPDUs that leave in one write. All payload in it is a copy: the program may change
// or give up its memory before the network takes the bytes, and the CRCs still fit.
type Batch struct {
	buf  []byte
	sent int // bytes of buf that the network took
}

// NewBatch makes an empty batch.
func NewBatch() *Batch { return &Batch{buf: make([]byte, 0, batchRoom)} }

// Reset empties the batch.
func (b *Batch) Reset() { b.buf, b.sent = b.buf[:0], 0 }

// Len returns the bytes that are left to be sent.
func (b *Batch) Len() int { return len(b.buf) - b.sent }

// Bytes returns what is left to be sent.
func (b *Batch) Bytes() []byte { return b.buf[b.sent:] }

// Sent takes away the first n bytes.
func (b *Batch) Sent(n int) { b.sent += n }

// full reports whether nothing more is to be appended: else there is room for any FPDU.
func (b *Batch) full() bool { return len(b.buf) >= batchBytes }

// grab appends n bytes, which the caller fills.
func (b *Batch) grab(n int) []byte {
	from := len(b.buf)
	b.buf = b.buf[:from+n]
	return b.buf[from:]
}
