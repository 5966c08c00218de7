// SPDX-License-Identifier: Apache-2.0

package rdmap

import "github.com/ramjet-rdma/ramjet/wire/iwarp"

const (
	// maxULPDU limits ULPDUs so that payloads begin at a multiple of 64 bytes of a message, and
	// an FPDU fits a segment of the loopback interface (65,464 bytes with IPv6): a small excess
	// would cost as much as a full segment.
	maxULPDU = 1022*64 + iwarp.TaggedLen
	// batchBytes is when a batch is full: at 16 long FPDUs, because a write costs about 10 µs
	// besides its bytes while the peer reads. batchRoom is its capacity: all of that, the FPDU that
	// exceeds it, and the short messages that may follow.
	batchBytes = 248 << 10
	batchRoom  = batchBytes + 64<<10 + 4<<10
)

// Batch is FPDUs that leave in one write. All payload in it is a copy: the program may change or
// unmap its memory before the network takes the bytes, and the CRCs still fit.
type Batch struct {
	buf  []byte
	sent int // bytes of buf taken by the network
}

// NewBatch makes an empty batch.
func NewBatch() *Batch { return &Batch{buf: make([]byte, 0, batchRoom)} }

// Reset empties the batch.
func (b *Batch) Reset() { b.buf, b.sent = b.buf[:0], 0 }

// Len returns the number of bytes left to send.
func (b *Batch) Len() int { return len(b.buf) - b.sent }

// Bytes returns the bytes left to send.
func (b *Batch) Bytes() []byte { return b.buf[b.sent:] }

// Sent removes the first n bytes.
func (b *Batch) Sent(n int) { b.sent += n }

// full reports whether nothing more may be appended. Otherwise there is room for any FPDU.
func (b *Batch) full() bool { return len(b.buf) >= batchBytes }

// extend appends n bytes, to be filled by the caller.
func (b *Batch) extend(n int) []byte {
	from := len(b.buf)
	b.buf = b.buf[:from+n]
	return b.buf[from:]
}
