// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// sendWQE is the requester's record of a send work request until it completes.
type sendWQE struct {
	queue.SendWQE
	done    bool // a local operation that was executed
	divided bool // a WRITE whose packets are messages of their own
	first   ib.PSN
	packets int // PSNs that it takes; 0: a local operation
	chunk   int // READ: responses requested by one request; a repeated request must be part of one

	to    *Vector // UD
	qpn   verbs.QPN
	qkey  verbs.QKey
	srqn  uint32
	flush flushArgs
}

type flushArgs struct {
	level verbs.FlushLevel
	scope verbs.FlushScope
}

// opRow describes the packets of an operation.
type opRow struct {
	first, middle, last, only ib.Operation
	payload                   bool // they carry the memory of the work request
	responses                 bool // its PSNs are those of the packets of its response
}

var opRows = [...]opRow{
	verbs.OpSend: {first: ib.OpSendFirst, middle: ib.OpSendMiddle, last: ib.OpSendLast, only: ib.OpSendOnly,
		payload: true},
	verbs.OpSendImm: {first: ib.OpSendFirst, middle: ib.OpSendMiddle, last: ib.OpSendLastImm,
		only: ib.OpSendOnlyImm, payload: true},
	verbs.OpSendInv: {first: ib.OpSendFirst, middle: ib.OpSendMiddle, last: ib.OpSendLastInv,
		only: ib.OpSendOnlyInv, payload: true},
	verbs.OpWrite: {first: ib.OpWriteFirst, middle: ib.OpWriteMiddle, last: ib.OpWriteLast, only: ib.OpWriteOnly,
		payload: true},
	verbs.OpWriteImm: {first: ib.OpWriteFirst, middle: ib.OpWriteMiddle, last: ib.OpWriteLastImm,
		only: ib.OpWriteOnlyImm, payload: true},
	verbs.OpRead:        {only: ib.OpReadRequest, responses: true},
	verbs.OpCompareSwap: {only: ib.OpCompareSwap},
	verbs.OpFetchAdd:    {only: ib.OpFetchAdd},
	verbs.OpAtomicWrite: {only: ib.OpAtomicWrite, payload: true},
	verbs.OpFlush:       {only: ib.OpFlush},
	verbs.OpBindMW:      {}, // as LOCAL_INV, it sends nothing
}

func (w *sendWQE) row() *opRow { return &opRows[w.Op] }

// bytesBefore returns the payload of the first n packets.
func (w *sendWQE) bytesBefore(n, mtu int) int { return min(n*mtu, int(w.Length)) }

// cost returns the bytes of the flow's window that packets from to to (exclusive) of w take. A READ takes the
// size of its request, however many PSNs its responses have.
func (q *QP) cost(w *sendWQE, from, to int) int {
	if w.Responds() {
		return q.overhead()
	}
	mtu := q.mtu()
	return w.bytesBefore(to, mtu) - w.bytesBefore(from, mtu) + (to-from)*q.overhead()
}

// PostSend adds work requests in order and returns how many.
func (q *QP) PostSend(wrs []verbs.SendWR) (int, error) { return q.Post(wrs, false) }

// Post is PostSend; with all, none is added if one of them cannot be.
func (q *QP) Post(wrs []verbs.SendWR, all bool) (int, error) {
	n, err := q.CheckSends(wrs, q.req.sq.Len(), all, q.checkOp)
	for i := range n {
		q.push(&wrs[i])
	}
	if n > 0 && q.State() >= verbs.StateSQE {
		q.flushSends()
	}
	return n, err
}

// checkOp returns why there is no message for a work request: it lacks the address of a datagram.
func (q *QP) checkOp(wr *verbs.SendWR) error {
	if q.Type != verbs.UD {
		return nil
	}
	if wr.AH == nil {
		return queue.InvalidSend("a datagram needs an address handle (AH)")
	}
	if _, ours := driver.AHOf(wr.AH).(AddressHandle); !ours {
		return queue.InvalidSend("the address handle (AH) is of another kind of device")
	}
	return nil
}

// push adds a work request and assigns its PSNs.
func (q *QP) push(wr *verbs.SendWR) {
	r := &q.req
	w := r.sq.PushBack()
	q.SetSend(&w.SendWQE, wr)
	w.done, w.divided, w.packets, w.chunk = false, false, 0, 0
	w.srqn, w.flush = wr.SRQN, flushArgs{wr.FlushLevel, wr.FlushScope}
	mtu := q.mtu()
	if q.Type == verbs.UD {
		mtu = q.Port().MTU
		w.to, w.qpn, w.qkey = driver.AHOf(wr.AH).(AddressHandle).Vector(), wr.RemoteQPN, wr.RemoteQKey
		// a queue pair sends from its own port only (IBTA 10.2.2.2)
		if int(w.to.Key.Port) != q.Port().Num || q.Foreign(wr.AH) {
			w.Status = verbs.StatusLocalQPOperationError
		}
	}
	switch {
	case w.Local():
	case w.Responds() && !w.row().responses:
		w.packets = 1
	default:
		w.packets = max(1, (int(w.Length)+mtu-1)/mtu)
	}
	w.divided = w.Flags&verbs.Divisible != 0 && w.packets > 1 && w.row().first == ib.OpWriteFirst && q.Type == verbs.RC
	w.first = r.nextPSN
	r.nextPSN = w.first.Add(w.packets)
}

// flushSends completes all send work requests with WRFlushError.
func (q *QP) flushSends() {
	for q.req.sq.Len() > 0 {
		q.CompleteSend(&q.req.sq.Front().SendWQE, verbs.StatusWRFlushError)
		q.req.sq.PopFront()
	}
	q.req.next, q.req.sent, q.req.acked = 0, 0, 0
}
