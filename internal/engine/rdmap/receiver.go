// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// scratchBytes is how much is received at once. It stays in the processor's second-level cache, so
// that the copy from there to the payload's destination is cheap.
const scratchBytes = 256 << 10

// receiver parses the peer's stream.
//
// Received bytes go to the device's own memory first. An FPDU is handled when all of it has
// arrived. Its CRC is checked over bytes that only the network wrote, and nothing of it is placed
// before that (RFC 5044 section 8). The program may store to the payload's destination at any time,
// or unmap it.
type receiver struct {
	part   []byte // an FPDU that is incomplete, or not handled yet: the end of held
	held   []byte
	pos    uint64 // position of part's first byte in the stream, including markers
	paused bool   // the next message has no receive
	heard  bool   // something arrived before RTS
	began  bool   // something arrived

	// The current segment.
	h    iwarp.Header
	land memory.Cursor      // the destination of its payload
	n    int                // bytes of that payload
	last memory.LookupCache // the memory that the last WRITE named

	// The current message.
	inMessage bool
	op        iwarp.Opcode
	mo        uint32
	written   uint32 // bytes of the last WRITE
	wrote     bool   // the last message was a WRITE
	imm       uint32

	sendMSN, readMSN, atomicMSN uint32 // expected next

	marked []byte // an FPDU without its markers
}

func (r *receiver) stop() {
	r.part, r.paused, r.inMessage = nil, false, false
	r.land.Reset()
}

// Into returns where the next bytes of the stream go; nil: nothing can be received now. The caller
// receives into that and calls Received before anything else happens on the device.
func (q *QP) Into() []byte {
	r := &q.rx
	if !q.up || r.paused || q.State() < verbs.StateRTR || q.State() == verbs.StateError {
		return nil
	}
	s := q.lane.buffer()
	return s[copy(s, r.part):]
}

func (l *Lane) buffer() []byte {
	if l.scratch == nil {
		l.scratch = make([]byte, scratchBytes)
	}
	return l.scratch
}

// Received handles n bytes that were read into the memory of Into.
func (q *QP) Received(n int) {
	q.lane.Counters.RecvBytes += uint64(n)
	q.take(q.lane.scratch[:len(q.rx.part)+n])
}

// Resume continues with bytes that were received before there was a receive for them.
func (q *QP) Resume() {
	r := &q.rx
	if !r.paused || q.Recv.Len() == 0 {
		return
	}
	r.paused = false
	b := r.part
	r.part = q.consumed(b)
	r.pos += uint64(len(b) - len(r.part))
}

// Paused reports whether a message waits for a receive to be posted.
func (q *QP) Paused() bool { return q.rx.paused }

// Partial reports whether a part of an FPDU has been received, and waits for the rest.
func (q *QP) Partial() bool { return len(q.rx.part) > 0 }

// take handles bytes that follow the previous ones, and keeps an incomplete FPDU.
func (q *QP) take(b []byte) {
	r := &q.rx
	rest := q.consumed(b)
	r.pos += uint64(len(b) - len(rest))
	r.held = append(r.held[:0], rest...)
	r.part = r.held
}

// consumed is consume that drops bytes behind the end of the stream.
func (q *QP) consumed(b []byte) []byte {
	rest := q.consume(b)
	if q.terminateMsg != nil || q.State() == verbs.StateError {
		return nil
	}
	return rest
}

// consume handles FPDUs from b and returns the bytes that are left.
func (q *QP) consume(b []byte) []byte {
	r := &q.rx
	begin := r.pos
	size := len(b)
	for q.terminateMsg == nil && q.State() != verbs.StateError {
		var more bool
		if q.MarkersIn {
			b, more = q.consumeMarked(b, begin+uint64(size-len(b)))
		} else {
			b, more = q.consumePlain(b)
		}
		if !more {
			return b
		}
	}
	return nil
}

// consumePlain handles one FPDU of a stream without markers.
func (q *QP) consumePlain(b []byte) (rest []byte, more bool) {
	if len(b) < 2*iwarp.LengthLen {
		return b, false
	}
	ulen := int(binary.BigEndian.Uint16(b))
	if ulen == 0 && !q.rx.began {
		return q.consumeEmpty(b)
	}
	if ulen < iwarp.HeaderLen(b[iwarp.LengthLen]) {
		q.terminate(iwarp.MPAMarker, nil, nil, 0) // no segment is that short
		return nil, false
	}
	all := iwarp.FPDULen(ulen)
	if len(b) < all {
		return b, false
	}
	if end := all - iwarp.CRCLen; q.CRC && iwarp.UpdateCRC(0, b[:end]) != iwarp.GetCRC(b[end:]) {
		q.badCRC()
		return nil, false
	}
	if !q.handleSegment(b[iwarp.LengthLen:][:ulen]) {
		return b, false
	}
	return b[all:], true
}

// consumeEmpty handles an empty FPDU, by which a peer can say that it is ready.
func (q *QP) consumeEmpty(b []byte) (rest []byte, more bool) {
	all := iwarp.FPDULen(0)
	if len(b) < all {
		return b, false
	}
	if end := all - iwarp.CRCLen; q.CRC && iwarp.UpdateCRC(0, b[:end]) != iwarp.GetCRC(b[end:]) {
		q.badCRC()
		return nil, false
	}
	q.countReceived()
	return b[all:], true
}

func (q *QP) countReceived() {
	q.Counts.RecvPackets++
	q.lane.Counters.RecvFPDUs++
	q.tx.await, q.rx.began = false, true
}

// handleSegment handles a whole segment. It returns false if that waits for a receive, or the stream has
// ended.
func (q *QP) handleSegment(b []byte) bool {
	r := &q.rx
	r.h.Decode(b)
	head := r.h.Len()
	good := q.begin(&r.h, b[:head], b[head:]) && q.place(b[head:])
	if q.Trace != nil && !r.paused { // else it comes again
		q.Trace(false, r.h, b[head:], len(b)-head)
	}
	if !good {
		return false
	}
	q.endSegment()
	return true
}

// consumeMarked handles one FPDU of a stream with markers, as a whole. pos is the position of b in
// the stream.
func (q *QP) consumeMarked(b []byte, pos uint64) (rest []byte, more bool) {
	r := &q.rx
	at := func(i int) bool { return (pos+uint64(i))%iwarp.MarkerInterval == 0 }
	i, start := 0, 0
	if at(0) {
		if rest, ok := q.checkMarker(b, 0, 0); !ok {
			return rest, false
		}
		i, start = iwarp.MarkerLen, iwarp.MarkerLen
	}
	length := -1
	r.marked = r.marked[:0]
	for want := iwarp.LengthLen; len(r.marked) < want; {
		if at(i) && i != start {
			if rest, ok := q.checkMarker(b, i, start); !ok {
				return rest, false
			}
			i += iwarp.MarkerLen
		}
		n := want - len(r.marked)
		if toMarker := iwarp.MarkerInterval - int((pos+uint64(i))%iwarp.MarkerInterval); n > toMarker {
			n = toMarker
		}
		if len(b) < i+n {
			return b, false
		}
		r.marked = append(r.marked, b[i:i+n]...)
		i += n
		if length < 0 && len(r.marked) == iwarp.LengthLen {
			length = int(binary.BigEndian.Uint16(r.marked))
			if length < iwarp.TaggedLen && (length > 0 || r.began) {
				q.terminate(iwarp.MPAMarker, nil, nil, 0)
				return nil, false
			}
			want = iwarp.LengthLen + length + iwarp.PadLen(length)
		}
	}
	if at(i) && i != start {
		if rest, ok := q.checkMarker(b, i, start); !ok {
			return rest, false
		}
		i += iwarp.MarkerLen
	}
	if len(b) < i+iwarp.CRCLen {
		return b, false
	}
	if q.CRC && iwarp.UpdateCRC(0, b[:i]) != iwarp.GetCRC(b[i:]) {
		q.badCRC()
		return nil, false
	}
	if length == 0 {
		q.countReceived()
		return b[i+iwarp.CRCLen:], true
	}
	seg := r.marked[iwarp.LengthLen:][:length]
	if len(seg) < iwarp.HeaderLen(seg[0]) {
		q.terminate(iwarp.MPAMarker, nil, nil, 0)
		return nil, false
	}
	if !q.handleSegment(seg) {
		return b, false
	}
	return b[i+iwarp.CRCLen:], true
}

// checkMarker checks the marker at i of b, whose FPDU begins at start; the marker before an FPDU
// stands for its begin. Its two lowest bits do not count (RFC 5044 section 4.3). If it is wrong or
// not there yet, consumeMarked returns checkMarker's result.
func (q *QP) checkMarker(b []byte, i, start int) (rest []byte, ok bool) {
	var m iwarp.Marker
	switch {
	case !m.Decode(b[i:]):
		return b, false
	case int(m&^3) != i-start:
		q.terminate(iwarp.MPAMarker, nil, nil, 0)
		return nil, false
	}
	return b, true
}

func (q *QP) badCRC() {
	q.lane.Counters.CRCErrors++
	q.terminate(iwarp.MPACRC, nil, nil, 0)
}
