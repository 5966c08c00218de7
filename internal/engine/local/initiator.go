// SPDX-License-Identifier: Apache-2.0

package local

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// initiator carries out work requests, one after the other.
type initiator struct {
	off         int // bytes of work request next that are in the ring, or where they belong
	here        int // how many of them this side has put where they belong
	gather      memory.Cursor
	remoteCache remoteLookup

	unsettled bool // this side's writes to the peer's memory may not be visible yet

	named      uint64             // number of revocations when a SEND last named its payload
	uncrossed  bool               // the peer has asked for it
	localCache memory.LookupCache // the local region of the last [QP.Perform] or [QP.SendShort]
}

func (t *initiator) stop() {
	t.off, t.here = 0, 0
	t.gather.Reset()
}

// Advance carries out work requests of the send queue, as far as possible, and answers the peer. It ends when
// it has moved budget bytes, or a piece more, and returns how many.
func (q *QP) Advance(budget int) (moved int) {
	if q.peer != nil && q.Due() {
		q.reap() // and then look for room
	}
	for q.peer != nil && moved < budget {
		n, ok := q.answer()
		if !ok {
			ok = q.askFetch()
		}
		if !ok {
			if n, ok = q.request(); !ok {
				break
			}
		}
		moved += n
	}
	if q.peer != nil && (q.State() == verbs.StateRTS || q.State() == verbs.StateSQD) {
		q.retire(q.peer.requests.seen) // not more: the peer wakes this side for later ones, if this side waits for room
	}
	if q.Held() && q.stalled == q.peer.requests.seen+1 {
		q.drop(DropStalled)
	}
	if q.peer != nil && !q.peer.Await(q.awaits()) {
		q.pending = true
	}
	return moved
}

// request continues work request next. It returns false if nothing of it can be done now.
func (q *QP) request() (moved int, ok bool) {
	if q.next >= q.sq.Len() || q.State() != verbs.StateRTS && q.State() != verbs.StateSQD {
		return 0, false
	}
	w := q.sq.At(q.next)
	if w.Status != verbs.StatusSuccess || !w.begun && !q.mayBegin(w) {
		return 0, false
	}
	if !w.begun && !q.begin(w) {
		return 0, false
	}
	switch {
	case w.Local():
		if !q.DoLocal(&w.SendWQE) {
			return 0, false
		}
		w.done = true
		q.finish()
		return 0, true
	case w.direct:
		return q.act(w)
	}
	return q.ask(w)
}

// mayBegin holds back a work request with a fence until all responses have come (IBTA 10.8.3.3), and
// in SQD all that have not begun before.
func (q *QP) mayBegin(w *sendWQE) bool {
	return q.State() != verbs.StateSQD && (w.Flags&verbs.Fence == 0 || q.reads.Len() == 0)
}

// begin finds the memory of a work request, and chooses the way to carry it out. It returns false if the work request
// fails, or waits.
func (q *QP) begin(w *sendWQE) bool {
	if w.Local() {
		w.begun = true
		return true
	}
	follows := w.needs() != 0 && q.follows(w)
	if follows && w.class() == classRead && w.Length >= waitFrom && q.reaches(w) {
		return false
	}
	if w.Copied {
		q.gather.Reset()
		q.gather.Add(memory.Inline(w.Inline))
	} else if w.class() != classFlush && !q.gather.Set(q.Device.Memory, q.PD, w.SGL, w.Receives()) {
		w.Status = verbs.StatusLocalProtectionError
		return false
	}
	w.begun, w.direct = true, !follows && q.reaches(w)
	return true
}

// finish records that work request next needs nothing more from this side.
func (q *QP) finish() {
	q.next++
	q.off, q.here = 0, 0
}

// ask continues a work request by messages. It returns false if the ring is full, or as many READs and
// atomics are in flight as may be.
func (q *QP) ask(w *sendWQE) (moved int, ok bool) {
	switch w.class() {
	case classWrite:
		return q.askWrite(w)
	case classRead:
		return 0, q.askRead(w)
	case classAtomic:
		return 0, q.askAtomic(w)
	case classStore:
		return q.askStore(w)
	case classFlush:
		return 0, q.askFlush(w)
	}
	return q.send(w)
}

// reserve returns room for a message; nil: there is none now.
func (q *QP) reserve(n int, k kind) []byte {
	b, err := q.peer.requests.Reserve(n, uint32(k))
	if err != nil {
		q.corrupt()
	}
	return b
}

// publish sends the message that was reserved.
func (q *QP) publish() {
	q.rings = q.peer.requests.Publish() || q.rings
	q.Counts.SentPackets++
	q.lane.Counters.SentMessages++
}

// payload copies the next bytes of a work request into a message. It returns false if its memory is
// not there any more: the work request fails, and as the peer may have part of it, the connection too.
func (q *QP) payload(w *sendWQE, b []byte) bool {
	if !q.gather.Read(b) {
		w.Status = verbs.StatusLocalProtectionError
		return false
	}
	q.lane.Counters.SentBytes += uint64(len(b))
	return true
}

// retries returns the flags that say how often a message is tried again without a receive.
func (q *QP) retries() kind { return kind(endless-q.Attr().RNRRetry&endless) << atRetries }

// sendKind returns the flags that a SEND's messages have, and the field that goes with them.
func (q *QP) sendKind(op verbs.SendOp, flags verbs.SendFlags, imm uint32, key verbs.Key) (k kind, field uint32) {
	k = q.retries() | operations[op].flags
	switch {
	case k.has(immediate):
		field = imm
	case k.has(invalidate):
		field = uint32(key)
	}
	if flags&verbs.Solicited != 0 {
		k |= solicited
	}
	return k, field
}

// send puts the next piece of a SEND into the ring, or the place of all of it.
func (q *QP) send(w *sendWQE) (moved int, ok bool) {
	k, field := q.sendKind(w.Op, w.Flags, w.Imm, w.Key)
	if place, ok := q.names(w); ok {
		return 0, q.sendRef(w, opRef|k, field, place)
	}
	n := min(int(w.Length)-q.off, piece)
	k |= opSend
	if q.off == 0 {
		k |= first
	}
	if q.off+n == int(w.Length) {
		k |= last
	}
	b := q.reserve(sendFields+n, k)
	if b == nil || !q.payload(w, b[sendFields:]) {
		return 0, false
	}
	put32(b, 0, field)
	q.publish()
	if q.off += n; k.has(last) {
		w.done, w.end = true, q.known(q.peer.requests.Position())
		q.finish()
	}
	return n, true
}

// names reports whether a SEND or WRITE names its payload: it is in one region, which is in a segment that peers may
// read, or in other memory from which the system lets them copy. Then place is its address. A queue pair that is its
// own peer names nothing: it would ask for the payload behind the message that names it.
func (q *QP) names(w *sendWQE) (place uint64, ok bool) {
	if w.Length < refFrom || w.Copied || len(w.SGL) != 1 || q.off > 0 || q.peer.loops() || q.unreliable() {
		return 0, false
	}
	if q.Device.Memory.Shared(q.PD, &w.SGL[0], verbs.RemoteRead) {
		return 0, true
	}
	if q.uncrossed || !q.peer.memory.Crosses() { // mostly the peer may if this side may
		return 0, false
	}
	return q.Device.Memory.HostAddr(q.PD, &w.SGL[0])
}

// sendRef puts the place of a SEND's payload into the ring. The receiver copies it from there, and the
// SEND is done when it has.
func (q *QP) sendRef(w *sendWQE, k kind, field uint32, place uint64) bool {
	b := q.reserve(refFields, k)
	if b == nil {
		return false
	}
	put32(b, 0, field)
	q.name(w, b, place)
	q.publish()
	w.done, w.end = true, q.peer.requests.Position()
	q.finish()
	return true
}

// name puts the place of a payload into a message.
func (q *QP) name(w *sendWQE, b []byte, place uint64) {
	put32(b, 4, uint32(w.SGL[0].LKey))
	put64(b, 8, w.SGL[0].Addr)
	put64(b, 16, uint64(w.Length))
	put64(b, 24, place)
	q.named = q.peer.named()
	put64(b, 32, q.named)
	q.lane.Counters.SentBytes += uint64(w.Length)
}

// writeRef puts the place of a WRITE's payload into the ring.
func (q *QP) writeRef(w *sendWQE, place uint64) bool {
	b := q.reserve(toFields, opWriteRef)
	if b == nil {
		return false
	}
	put32(b, 0, 0)
	q.name(w, b, place)
	put32(b, refFields, uint32(w.Remote.Key))
	put32(b, refFields+4, 0)
	put64(b, refFields+8, w.Remote.Addr)
	q.publish()
	q.off = int(w.Length)
	q.lane.Counters.Asked++
	return true
}

// askWrite puts the next piece of a WRITE into the ring, or the place of all of it, and after the last one its
// immediate data.
func (q *QP) askWrite(w *sendWQE) (moved int, ok bool) {
	if place, ok := q.names(w); ok {
		if !q.writeRef(w, place) {
			return 0, false
		}
	} else if rest := int(w.Length) - q.off; rest > 0 {
		n, k := min(rest, piece), opWrite
		if n == rest {
			k |= last
		}
		if q.off == q.here {
			k |= first
		}
		b := q.reserve(writeFields+n, k)
		if b == nil || !q.payload(w, b[writeFields:]) {
			return 0, false
		}
		put32(b, 0, uint32(w.Remote.Key))
		put32(b, 4, uint32(rest))
		put64(b, 8, w.Remote.Addr+uint64(q.off))
		q.publish()
		moved = n
		if q.off += n; q.off < int(w.Length) {
			return moved, true
		}
		q.lane.Counters.Asked++
	}
	return moved, q.conclude(w, 0)
}

// conclude ends a WRITE whose bytes are on their way.
func (q *QP) conclude(w *sendWQE, flags kind) bool {
	announces := operations[w.Op].flags.has(immediate)
	if announces {
		if w.Flags&verbs.Solicited != 0 {
			flags |= solicited
		}
		b := q.reserve(immFields, opImm|flags|q.retries())
		if b == nil {
			return false
		}
		put32(b, 0, w.Imm)
		put32(b, 4, w.Length)
		q.publish()
	}
	w.done = true
	if announces || !w.direct {
		w.end = q.known(q.peer.requests.Position())
	}
	q.finish()
	return true
}

// mayAsk reports whether one more READ or atomic may be in flight.
func (q *QP) mayAsk() bool { return q.reads.Len() < min(q.depth, int(q.Attr().MaxRdAtomic)) }

func (q *QP) askRead(w *sendWQE) bool {
	if !q.mayAsk() {
		return false
	}
	if !q.prepareRead(opRead, w.Remote.Key, w.Remote.Addr, w.Length) {
		return false
	}
	q.await(w, readOp{wqe: q.popped + uint64(q.next)})
	return true
}

// prepareRead makes a message that asks for memory of the peer, to be published. It returns false if
// there is no room.
func (q *QP) prepareRead(op kind, key verbs.Key, addr uint64, length uint32) bool {
	b := q.reserve(readFields, op)
	if b == nil {
		return false
	}
	put32(b, 0, uint32(key))
	put32(b, 4, length)
	put64(b, 8, addr)
	return true
}

func (q *QP) askAtomic(w *sendWQE) bool {
	if !q.mayAsk() {
		return false
	}
	b := q.reserve(atomicFields, opAtomic)
	if b == nil {
		return false
	}
	put32(b, 0, uint32(w.Remote.Key))
	put32(b, 4, uint32(w.Op))
	put64(b, 8, w.Remote.Addr)
	put64(b, 16, w.Compare)
	put64(b, 24, w.Swap)
	q.await(w, readOp{wqe: q.popped + uint64(q.next), atomic: true})
	return true
}

// askStore sends an ATOMIC WRITE.
func (q *QP) askStore(w *sendWQE) (moved int, ok bool) {
	b := q.reserve(storeFields, opStore)
	if b == nil || !q.payload(w, b[16:]) {
		return 0, false
	}
	put32(b, 0, uint32(w.Remote.Key))
	put64(b, 8, w.Remote.Addr)
	w.done = true
	q.sentOff(w)
	return int(w.Length), true
}

// await sends a request that the peer answers.
func (q *QP) await(w *sendWQE, op readOp) {
	*q.reads.PushBack() = op
	q.sentOff(w)
}

// sentOff sends the only message of a request for the peer's memory.
func (q *QP) sentOff(w *sendWQE) {
	q.publish()
	q.lane.Counters.Asked++
	w.end = q.peer.requests.Position()
	q.finish()
}
