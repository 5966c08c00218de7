// SPDX-License-Identifier: Apache-2.0

package local

import (
	"fmt"
	"math"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// target is the state of the peer's messages.
type target struct {
	land      memory.Cursor      // where a SEND goes
	inMessage bool               // a SEND has begun
	skips     bool               // UC: the rest of a message is dropped
	got       int                // bytes of it
	paused    bool               // the next message has no receive
	patience  uint8              // how often it would be tried again
	pauses    uint64             // messages that have found no receive
	counted   bool               // the next message is among them
	spurned   bool               // it finds none by a fault: Retry looks again
	denied    bool               // it has failed, and with it the connection
	heard     bool               // a message came before RTS
	last      memory.LookupCache // the region of the last WRITE
	into      memory.LookupCache // where the last short SEND went
	ref       reference
	flush     *Flush // that is under way, or done and still in the ring; nil: none

	resp    resps
	refusal verbs.Status // the peer's oldest request fails with this, once earlier ones are answered; 0: none

	back    memory.Cursor // where the data of the oldest READ go
	backing bool          // some have come
}

func (t *target) stop() {
	t.paused, t.counted, t.spurned, t.denied, t.inMessage, t.skips, t.backing = false, false, false, false, false,
		false, false
	t.ref, t.flush = reference{}, nil
	t.land.Reset()
	t.back.Reset()
	if t.refusal == 0 {
		t.resp.Clear()
	}
}

// Receive handles the peer's messages, and completes work requests that it has carried out. [QP.Advance] follows if
// [QP.Due] says so. It ends when budget bytes have come, or a piece more. It returns how many messages it
// handled, and their bytes with headers.
func (q *QP) Receive(budget int) (count, moved int) {
	count, moved = q.take(budget)
	if q.peer != nil && q.signaled > 0 {
		q.reap()
	}
	if q.peer != nil && !q.Due() && !q.peer.Await(q.awaits()) {
		q.pending = true
	}
	if q.peer != nil {
		q.giveBack()
		q.peer.look() // messages that have to wait do not keep this side awake
	}
	return count, moved
}

func (q *QP) take(budget int) (count, moved int) {
	for q.peer != nil && moved < budget && q.answers() {
		body, k, ok, err := q.peer.inResponses.Peek()
		if err != nil {
			q.corrupt()
		}
		if !ok {
			break
		}
		good := q.response(kind(k), body)
		q.release(q.peer.inResponses)
		if count++; !good {
			return count, moved
		}
		moved += recordHeader + len(body) // a message without a body takes time too
	}
	for q.peer != nil && moved < budget && q.handles() {
		body, k, ok, err := q.peer.inRequests.Peek()
		if err != nil {
			q.corrupt()
		}
		if !ok {
			break
		}
		// The peer had done with a SEND before it could answer: that completes before the answer does.
		if q.signaled > 0 && q.peer.requests.Acknowledged() {
			if q.reap(); q.peer == nil || !q.handles() {
				return count, moved
			}
		}
		if !q.handle(kind(k), body) {
			if q.peer == nil || q.ref.phase != copying {
				return count, moved
			}
			moved += stride // and it goes on
			count++
			continue
		}
		q.release(q.peer.inRequests)
		moved += recordHeader + len(body)
		count++
	}
	return count, moved
}

// answers reports whether the queue pair is in a state in which it receives.
func (q *QP) answers() bool { return q.State() >= verbs.StateRTR && q.State() <= verbs.StateSQE }

// handles reports whether the peer's requests are handled now.
func (q *QP) handles() bool {
	return !q.paused && !q.denied && q.answers() && !q.resp.full(q) && !q.ref.fetches() && !q.Flushing()
}

// More reports whether there are messages that [QP.Receive] has seen and not handled, though it could, or
// an event for which the peer does not wake this side.
func (q *QP) More() bool {
	if q.pending {
		q.pending = false
		return q.peer != nil
	}
	return q.peer != nil && (q.peer.inResponses.left() && q.State() <= verbs.StateSQE ||
		q.peer.inRequests.left() && q.handles())
}

func (q *QP) release(r *Receiver) {
	q.rings = r.Release() || q.rings
	q.Counts.RecvPackets++
	q.lane.Counters.RecvMessages++
}

// Due reports whether there may be something for [QP.Advance] to do.
func (q *QP) Due() bool {
	return q.next < q.sq.Len() || q.resp.Len() > 0 || q.refusal != 0 || q.ref.phase == wanted ||
		q.State() != verbs.StateRTS
}

// giveBack tells the peer which messages are done with: once for all that a call of Receive has taken, as
// the peer waits for that in memory.
func (q *QP) giveBack() {
	q.rings = q.peer.inResponses.Return() || q.rings
	q.rings = q.peer.inRequests.Return() || q.rings
}

// Paused reports whether a message waits for a receive to be posted.
func (q *QP) Paused() bool { return q.paused }

// Resume has [QP.Receive] look again if there is a receive now.
func (q *QP) Resume() {
	if q.paused && !q.spurned && q.Recv.Len() > 0 {
		q.paused = false
	}
}

// Refused reports whether the message that waits finds no receive by a fault: [QP.Retry] looks again.
func (q *QP) Refused() bool { return q.paused && q.spurned }

// Retry has [QP.Receive] look again for a receive, as a sender does MinRNRTimer after an RNR NAK.
func (q *QP) Retry() { q.paused, q.spurned = false, false }

// Pauses returns how many messages of this connection have waited for a receive: it changes with each of them.
func (q *QP) Pauses() uint64 { return q.pauses }

// CountNotReady counts RNR NAKs that the message that waits would have met by now.
func (q *QP) CountNotReady(n uint64) {
	q.Counts.SentRNRs += n
	q.peer.inRequests.CountNotReady(n)
}

// Patience reports whether a message waits for a receive that fails if none comes, and after how many
// retries, between which MinRNRTimer passes (IBTA 9.7.5.2.8). Then [QP.Deny] is to be called.
func (q *QP) Patience() (retries uint8, ok bool) {
	return q.patience, q.paused && q.peer != nil && q.patience < endless
}

// Deny fails the message that waits for a receive. As on InfiniBand this queue pair stays as it is, and the
// peer's is in ERR.
func (q *QP) Deny() {
	if _, ok := q.Patience(); ok {
		q.paused, q.denied, q.refusal = false, true, verbs.StatusRNRRetryExceeded
	}
}

// response handles an answer of the peer. It returns false if the connection has ended.
func (q *QP) response(k kind, body []byte) bool {
	op := k.op()
	if op < opData || op > opRefused || len(body) < fieldsOf[op] || q.unreliable() {
		q.corrupt()
		return false
	}
	if op == opRefused {
		why := uint32(0)
		if len(body) >= statusFields+4 {
			why = get32(body, statusFields)
		}
		q.refused(verbs.Status(get32(body, 0)), verbs.Reason(min(why, math.MaxUint8)))
		return false
	}
	if q.reads.Len() == 0 || q.reads.Front().atomic != (op == opResult) {
		q.corrupt()
		return false
	}
	read := q.reads.Front()
	if read.fetch {
		return q.fetched(k, body)
	}
	w := q.sq.At(int(read.wqe - q.popped))
	if op == opResult {
		body = body[:resultFields]
	}
	if len(body) > int(w.Length)-read.got || k.has(last) != (read.got+len(body) == int(w.Length)) {
		q.corrupt()
		return false
	}
	if !q.backing {
		q.backing = true
		if !q.back.Set(q.Device.Memory, q.PD, w.SGL, true) {
			q.failRead(verbs.StatusLocalProtectionError)
			return false
		}
	}
	if !q.back.Write(q.Device.Memory, body) {
		q.failRead(verbs.StatusLocalProtectionError)
		return false
	}
	q.lane.Counters.RecvBytes += uint64(len(body))
	read.got += len(body)
	if k.has(last) {
		w.done, q.backing = true, false
		q.reads.PopFront()
	}
	return true
}

// refused handles the peer's refusal of the oldest request that it has not done.
func (q *QP) refused(s verbs.Status, why verbs.Reason) {
	if !statuses[s] {
		q.corrupt()
		return
	}
	q.reap()
	if q.State() != verbs.StateError && q.begun() {
		q.fail(s)
		q.detail(s, why)
		return
	}
	q.StreamFailed(verbs.Failure{Side: verbs.FailedStream, Status: s, Reason: verbs.ReasonPeerRefused})
	q.detail(s, why)
	q.enterError()
	q.Raise(verbs.EventQPFatal)
}

// detail adds the peer's reason for its refusal to the failure, before programs see it.
func (q *QP) detail(s verbs.Status, why verbs.Reason) {
	switch f := q.Failure(); {
	case f.Reason == verbs.ReasonNotReady:
		f.Detail = fmt.Sprintf("rnr_retry %d", q.Attr().RNRRetry)
	case f.Reason == verbs.ReasonPeerRefused && f.Status == s && why != verbs.ReasonUnknown:
		f.Detail = why.String()
	}
}

// failRead fails the work request of the oldest READ, and with it the queue pair.
func (q *QP) failRead(s verbs.Status) {
	for oldest := q.reads.Front().wqe; q.popped < oldest; {
		q.CompleteSend(&q.sq.Front().SendWQE, verbs.StatusWRFlushError)
		q.popFront()
	}
	q.fail(s)
}
