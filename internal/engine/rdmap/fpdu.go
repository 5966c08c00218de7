// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"bytes"
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// fpdu is an FPDU under construction.
type fpdu struct {
	q     *QP
	b     *Batch
	crc   uint32
	ulen  int
	start uint64 // of its ULPDU_Length in the stream, for markers
}

// open begins an FPDU of a segment with n bytes of payload.
func (q *QP) open(b *Batch, h *iwarp.Header, n int) fpdu {
	f := fpdu{q: q, b: b, ulen: h.Len() + n, start: q.tx.queued}
	if f.atMarker() {
		f.start += iwarp.MarkerLen // the one before an FPDU points to its begin
	}
	h.DDP, h.RDMAP = iwarp.DDPVersion, iwarp.RDMAPVersion
	var head [iwarp.LengthLen + iwarp.UntaggedLen]byte
	binary.BigEndian.PutUint16(head[:], uint16(f.ulen))
	f.put(h.Append(head[:iwarp.LengthLen]))
	return f
}

// atMarker reports whether the next position in the stream is a marker's (RFC 5044 section 4.3).
func (f *fpdu) atMarker() bool {
	return f.q.MarkersOut && f.q.tx.queued%iwarp.MarkerInterval == 0
}

// marker appends a marker.
func (f *fpdu) marker() {
	at := f.q.tx.queued
	m := iwarp.Marker(0)
	if at > f.start {
		m = iwarp.Marker(at - f.start)
	}
	s := f.b.extend(iwarp.MarkerLen)
	m.Append(s[:0])
	f.q.tx.queued += iwarp.MarkerLen
	if f.q.CRC {
		f.crc = iwarp.UpdateCRC(f.crc, s)
	}
}

// room appends up to n bytes, as many as there are before the next marker, to be filled by the
// caller.
func (f *fpdu) room(n int) []byte {
	if f.atMarker() {
		f.marker()
	}
	if f.q.MarkersOut {
		n = min(n, iwarp.MarkerInterval-int(f.q.tx.queued%iwarp.MarkerInterval))
	}
	f.q.tx.queued += uint64(n)
	return f.b.extend(n)
}

// put appends bytes of the engine's own.
func (f *fpdu) put(s []byte) {
	for len(s) > 0 {
		to := f.room(len(s))
		copy(to, s)
		if f.q.CRC {
			f.crc = iwarp.UpdateCRC(f.crc, to)
		}
		s = s[len(to):]
	}
}

// gather appends the next n bytes of registered memory. The CRC is computed over the copy, in the
// same pass. It returns false if some of the memory is no longer mapped.
func (f *fpdu) gather(from *memory.Cursor, n int) (ok bool) {
	for n > 0 {
		to := f.room(n)
		if f.q.CRC {
			f.crc, ok = from.ReadCRC(to, f.crc)
		} else {
			ok = from.Read(to)
		}
		if !ok {
			return false
		}
		n -= len(to)
	}
	return true
}

// close completes the FPDU with its pad and CRC.
func (f *fpdu) close() {
	var zero [3]byte
	f.put(zero[:iwarp.PadLen(f.ulen)])
	if f.atMarker() {
		f.marker()
	}
	f.q.tx.queued += iwarp.CRCLen
	iwarp.PutCRC(f.b.extend(iwarp.CRCLen), f.crc) // zero without CRCs
	f.q.Counts.SentPackets++
	f.q.lane.Counters.SentFPDUs++
}

// segment appends an FPDU with the next n bytes of registered memory. It returns false, without
// appending anything, if some of the memory is no longer mapped.
func (q *QP) segment(b *Batch, h iwarp.Header, from *memory.Cursor, n int) bool {
	size, queued := len(b.buf), q.tx.queued
	f := q.open(b, &h, n)
	if !f.gather(from, n) {
		b.buf, q.tx.queued = b.buf[:size], queued
		return false
	}
	f.close()
	if q.Trace != nil {
		q.Trace(true, h, nil, n)
	}
	return true
}

// message appends a message of one short untagged segment.
func (q *QP) message(b *Batch, h iwarp.Header, data []byte) {
	f := q.open(b, &h, len(data))
	f.put(data)
	f.close()
	if q.Trace != nil {
		q.Trace(true, h, bytes.Clone(data), len(data)) // a copy: data would escape to the heap, without a trace too
	}
}
