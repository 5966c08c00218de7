// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// fpdu is an FPDU that is being put together.
type fpdu struct {
	q     *QP
	b     *Batch
	crc   uint32
	ulen  int
	start uint64 // of its ULPDU_Length in the stream, for markers
}

// open begins an FPDU of a segment with n bytes of payload.
func (q *QP) open(b *Batch, h *iwarp.Header, n int) fpdu {
	f := fpdu{q: q, b: b, ulen: h.Len() + n}
	h.DDP, h.RDMAP = iwarp.DDPVersion, iwarp.RDMAPVersion
	if q.MarkersOut && q.tx.queued%iwarp.MarkerInterval == 0 {
		f.raw(iwarp.Marker(0).Append(b.grab(iwarp.MarkerLen)[:0]))
	}
	f.start = q.tx.queued
	if q.MarkersOut {
		var head [iwarp.LengthLen + iwarp.UntaggedLen]byte
		binary.BigEndian.PutUint16(head[:], uint16(f.ulen))
		f.put(h.Append(head[:iwarp.LengthLen]))
	} else {
		head := b.grab(iwarp.LengthLen + h.Len())
		binary.BigEndian.PutUint16(head, uint16(f.ulen))
		h.Append(head[:iwarp.LengthLen])
		f.raw(head)
	}
	return f
}

// raw counts bytes of the batch into the stream and the CRC.
func (f *fpdu) raw(s []byte) {
	f.q.tx.queued += uint64(len(s))
	if f.q.CRC {
		f.crc = iwarp.UpdateCRC(f.crc, s)
	}
}

// put copies bytes into the FPDU, with markers between them.
func (f *fpdu) put(s []byte) {
	for f.q.MarkersOut && len(s) > 0 {
		at := int(f.q.tx.queued % iwarp.MarkerInterval)
		if at == 0 {
			f.raw(iwarp.Marker(f.q.tx.queued - f.start).Append(f.b.grab(iwarp.MarkerLen)[:0]))
			at = iwarp.MarkerLen
		}
		n := min(len(s), iwarp.MarkerInterval-at)
		f.copy(s[:n])
		s = s[n:]
	}
	if len(s) > 0 {
		f.copy(s)
	}
}

func (f *fpdu) copy(s []byte) {
	to := f.b.grab(len(s))
	f.q.tx.queued += uint64(len(s))
	f.crc = f.q.copy(f.crc, to, s)
}

// refer takes memory into the FPDU without a copy.
func (f *fpdu) refer(s memory.Span) {
	b, _ := s.Part(0, s.Len())
	f.b.refer(s, b)
	f.raw(b)
}

// close ends the FPDU with its pad and CRC.
func (f *fpdu) close() {
	var zero [3]byte
	f.put(zero[:iwarp.PadLen(f.ulen)])
	if f.q.MarkersOut && f.q.tx.queued%iwarp.MarkerInterval == 0 {
		f.raw(iwarp.Marker(f.q.tx.queued - f.start).Append(f.b.grab(iwarp.MarkerLen)[:0]))
	}
	sum := f.b.grab(iwarp.CRCLen)
	f.q.tx.queued += iwarp.CRCLen
	iwarp.PutCRC(sum, f.crc) // zero without CRCs
	f.q.Device.Counters.SentFPDUs++
}

// copy copies bytes and continues a CRC over the copy.
func (q *QP) copy(crc uint32, to, from []byte) uint32 {
	if q.CRC {
		return iwarp.CopyCRC(crc, to, from)
	}
	copy(to, from)
	return 0
}

// segment appends an FPDU with the next n bytes of a gathering. False: a region of it has
// ended, and nothing was appended.
func (q *QP) segment(b *Batch, h iwarp.Header, from *memory.Cursor, n int) bool {
	return q.segmentOf(b, &h, from, n, n <= copyLimit)
}

// segmentOf is segment that copies the payload, or has it leave from where it is.
func (q *QP) segmentOf(b *Batch, h *iwarp.Header, from *memory.Cursor, n int, copied bool) bool {
	if n > 0 && !from.Ready(n) {
		return false
	}
	if copied && !q.MarkersOut {
		q.compact(b, h, from, n)
		return true
	}
	f := q.open(b, h, n)
	for n > 0 {
		s := from.NextSpan(n)
		if q.MarkersOut {
			b, _ := s.Part(0, s.Len())
			f.put(b)
		} else {
			f.refer(s)
		}
		n -= s.Len()
	}
	f.close()
	return true
}

// compact appends an FPDU without markers in one piece, with a copy of the next n bytes.
func (q *QP) compact(b *Batch, h *iwarp.Header, from *memory.Cursor, n int) {
	ulen := h.Len() + n
	s := b.grab(iwarp.FPDULen(ulen))
	q.tx.queued += uint64(len(s))
	q.Device.Counters.SentFPDUs++
	h.DDP, h.RDMAP = iwarp.DDPVersion, iwarp.RDMAPVersion
	binary.BigEndian.PutUint16(s, uint16(ulen))
	at := iwarp.LengthLen + h.Len()
	h.Append(s[:iwarp.LengthLen])
	var crc uint32
	if q.CRC {
		crc = iwarp.UpdateCRC(0, s[:at])
	}
	for n > 0 {
		p, _ := from.Next(n) // it is Ready
		crc = q.copy(crc, s[at:at+len(p)], p)
		at += len(p)
		n -= len(p)
	}
	if pad := s[at : len(s)-iwarp.CRCLen]; len(pad) > 0 {
		clear(pad)
		if q.CRC {
			crc = iwarp.UpdateCRC(crc, pad)
		}
	}
	iwarp.PutCRC(s[len(s)-iwarp.CRCLen:], crc) // zero without CRCs
}
