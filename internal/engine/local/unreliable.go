// SPDX-License-Identifier: Apache-2.0

package local

import "github.com/ramjet-rdma/ramjet/verbs"

// A message of a UC queue pair (IBTA 9.8.2) is complete when it is in the ring, or in the target's memory. A message
// that cannot be carried out is dropped and counted, by the side that finds out, and its sender gets no error: neither
// if the peer does not exist, nor if its process does not run.

// ucPeer is the state of a UC queue pair's peer.
type ucPeer struct {
	absent  bool   // it has ended, or none has come for long: posted messages are dropped
	stalled uint64 // it took nothing for long after this position of its ring, less 1; 0: it takes messages
}

func (q *QP) unreliable() bool { return q.Type == verbs.UC }

// known returns the position in the ring that has to be reached for a work request to complete.
func (q *QP) known(position uint64) uint64 {
	if q.unreliable() {
		return 0
	}
	return position
}

// Held reports whether messages of a UC queue pair wait for room. Where they wait for too long, [QP.Stall] is to be
// called.
func (q *QP) Held() bool { return q.unreliable() && q.peer != nil && q.holds() }

// holds reports whether the oldest work request can be dropped: in SQD, work requests that have not begun wait.
func (q *QP) holds() bool {
	return q.next < q.sq.Len() && (q.State() == verbs.StateRTS || q.State() == verbs.StateSQD && q.sq.At(q.next).begun)
}

// Stall drops the messages that wait for room, and from then on messages that find none, until the peer has taken
// something.
func (q *QP) Stall() {
	if q.Held() {
		q.stalled = q.peer.requests.seen + 1
		q.drop(DropStalled)
	}
}

// miss notes that there is no peer.
func (q *QP) miss() {
	q.absent = true
	q.drop(DropNobody)
}

// drop drops the messages in the send queue. Local operations are carried out.
func (q *QP) drop(r Reason) {
	q.retire(0)
	for q.holds() {
		w := q.sq.Front()
		if w.Status != verbs.StatusSuccess || w.Local() && !q.DoLocal(&w.SendWQE) {
			q.fail(w.Status)
			return
		}
		if !w.Local() {
			q.lane.Counters.Dropped[r]++
		}
		q.CompleteSend(&w.SendWQE, verbs.StatusSuccess)
		q.popFront()
		q.initiator.stop()
	}
	q.CheckDrained(q.begun())
}

// handleUnreliable is handle for UC. A message may be cut short by the next one.
func (q *QP) handleUnreliable(k kind, body []byte) bool {
	op := k.op()
	begins := k.has(first)
	if op != opSend && op != opWrite && op != opImm || len(body) < fieldsOf[op] ||
		op == opSend && !begins && !q.inMessage && !q.skips {
		q.corrupt()
		return false
	}
	q.hear()
	if begins {
		q.inMessage, q.skips = false, false
	} else if q.skips {
		return true
	}
	var r Reason
	switch op {
	case opSend:
		r = q.putSend(k, get32(body, 0), body[sendFields:])
	case opWrite:
		r = q.putWrite(k, verbs.Key(get32(body, 0)), get64(body, 8), uint64(get32(body, 4)), body[writeFields:])
	case opImm:
		r = q.putImm(k, get32(body, 0), get32(body, 4))
	}
	if r != taken {
		q.lane.Counters.Dropped[r]++
		q.inMessage, q.skips = false, true
	}
	return q.State() != verbs.StateError
}

// takes makes sure that there is a receive for a message.
func (q *QP) takes() bool {
	return q.HasReceive() || // left over from a message that was dropped
		q.TakeReceive(q.Recv)
}

// spoil fails a receive that cannot be used, and with it the queue pair (IBTA 9.9.3, class D).
func (q *QP) spoil(s verbs.Status) {
	q.CompleteReceive(s)
	q.enterError()
}

func (q *QP) putSend(k kind, field uint32, b []byte) Reason {
	if k.has(first) {
		if !q.takes() {
			return dropNoReceive
		}
		if !q.Scatter(&q.land) {
			q.spoil(verbs.StatusLocalProtectionError)
			return dropAccess
		}
		q.got, q.inMessage = 0, true
	}
	if len(b) > q.land.Len()-q.got {
		if q.Recv.Shared { // others want the receive
			q.spoil(verbs.StatusLocalLengthError)
		}
		return dropTooLong
	}
	if !q.land.Write(q.Device.Memory, b) {
		q.spoil(verbs.StatusLocalProtectionError)
		return dropAccess
	}
	q.got += len(b)
	q.lane.Counters.RecvBytes += uint64(len(b))
	q.CountRequest(len(b), k.has(last))
	if k.has(last) {
		q.endSend(k&^invalidate, field)
	}
	return taken
}

func (q *QP) putWrite(k kind, key verbs.Key, addr, rest uint64, b []byte) Reason {
	if q.Attr().Access&verbs.RemoteWrite == 0 || rest < uint64(len(b)) {
		return dropAccess
	}
	s, ok := q.Device.Memory.RemoteCached(&q.last, q.PD, q.Num, key, addr, rest, verbs.RemoteWrite)
	if !ok || !q.place(s.Sub(0, len(b)), k, b) {
		return dropAccess
	}
	return taken
}

func (q *QP) putImm(k kind, imm, length uint32) Reason {
	if !q.takes() {
		return dropNoReceive
	}
	q.endImm(k, imm, length)
	return taken
}
