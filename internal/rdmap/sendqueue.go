// SPDX-License-Identifier: Apache-2.0

package rdmap

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/internal/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// sendQueue holds the work requests that have not completed, oldest first. What comes
// before next has been put into FPDUs as a whole.
type sendQueue struct {
	sq       queue.Ring[sendWQE]
	popped   uint64 // work requests that have left the queue, ever
	next     int
	reads    queue.Ring[readOp] // requests whose responses are outstanding
	draining bool               // raise SQDrained
}

// sendWQE is a send work request as the sender keeps it until it has completed.
type sendWQE struct {
	id     uint64
	op     verbs.SendOp
	flags  verbs.SendFlags
	status verbs.Status // not Success: fails when it is the oldest
	begun  bool
	length uint32 // bytes of the message
	end    uint64 // where in the stream it ends, once it is in FPDUs as a whole

	sgl     []verbs.SGE
	inline  []byte
	useCopy bool // the message is in inline

	asked    int // requests sent: one for each piece of a READ's memory
	answered int

	imm     uint32
	key     verbs.Key // to be invalidated
	remote  verbs.Remote
	compare uint64
	swap    uint64
	bind    bindArgs
}

type bindArgs struct {
	window *memory.Window
	region *memory.Region
	rkey   verbs.Key
	addr   uint64
	length uint64
	access verbs.Access
}

// readOp is a READ or atomic request whose response is outstanding.
type readOp struct {
	wqe    uint64 // its work request: how many had left the queue when it was the oldest
	ready  bool   // of no work request: it said that we are ready
	atomic bool
	id     uint32      // atomic
	stag   iwarp.STag  // READ: the sink
	to     uint64      //
	size   uint32      //
	got    uint32      //
	span   memory.Span // where the data go
}

// opRow says what a work request's operation is.
type opRow struct {
	wc          verbs.WCOp
	known       bool
	local       bool   // nothing is sent
	response    bool   // completes with a response
	writesLocal bool   // its SGL receives
	fixed       uint32 // length that the SGL must have; 0: any
}

var opRows = [...]opRow{
	verbs.Send:        {known: true, wc: verbs.WCSend},
	verbs.SendInv:     {known: true, wc: verbs.WCSend},
	verbs.Write:       {known: true, wc: verbs.WCWrite},
	verbs.WriteImm:    {known: true, wc: verbs.WCWrite},
	verbs.Read:        {known: true, wc: verbs.WCRead, response: true, writesLocal: true},
	verbs.CompareSwap: {known: true, wc: verbs.WCCompareSwap, response: true, writesLocal: true, fixed: 8},
	verbs.FetchAdd:    {known: true, wc: verbs.WCFetchAdd, response: true, writesLocal: true, fixed: 8},
	verbs.LocalInv:    {known: true, wc: verbs.WCLocalInv, local: true},
	verbs.BindMW:      {known: true, wc: verbs.WCBindMW, local: true},
}

// lacking has the reason for each operation that iWARP has no message for.
var lacking = map[verbs.SendOp]string{
	verbs.SendImm:     "iWARP's immediate data are a message of their own: use RDMA_WRITE_WITH_IMM, or put them into the message",
	verbs.AtomicWrite: "iWARP has no atomic write",
	verbs.Flush:       "iWARP has no flush: a READ of what was written makes sure that it has arrived",
}

func (w *sendWQE) row() *opRow { return &opRows[w.op] }

// PostSend adds work requests in order and returns how many.
func (q *QP) PostSend(wrs []verbs.SendWR) (int, error) { return q.Post(wrs, false) }

// Post is PostSend; with all, none is added if one of them cannot be.
func (q *QP) Post(wrs []verbs.SendWR, all bool) (int, error) {
	if q.state < verbs.RTS {
		return 0, &verbs.OpError{Op: "post_send", Err: verbs.ErrState, Detail: q.state.String() + ": RTS is needed"}
	}
	n, err := 0, error(nil)
	for n < len(wrs) {
		if err = q.postOne(&wrs[n]); err != nil {
			break
		}
		n++
	}
	for ; all && err != nil && n > 0; n-- {
		q.sq.PopBack()
	}
	if q.state == verbs.Err {
		q.flushSends()
	}
	return n, err
}

// refuse is the error for a work request that can never be carried out.
func refuse(format string, a ...any) error {
	return &verbs.OpError{Op: "post_send", Err: verbs.ErrInvalid, Detail: fmt.Sprintf(format, a...)}
}

var errSendQueueFull = &verbs.OpError{Op: "post_send", Err: verbs.ErrQueueFull}

// allowed says why a work request cannot be posted at all.
func (q *QP) allowed(wr *verbs.SendWR) error {
	if why := lacking[wr.Op]; why != "" {
		return &verbs.OpError{Op: "post_send", Err: verbs.ErrNotSupported, Detail: fmt.Sprintf("%v: %s", wr.Op, why)}
	}
	if int(wr.Op) >= len(opRows) || !opRows[wr.Op].known {
		return refuse("operation %d does not exist", wr.Op)
	}
	row := &opRows[wr.Op]
	switch {
	case len(wr.SGL) > q.Caps.MaxSendSGE:
		return refuse("%d scatter/gather entries, the queue has %d", len(wr.SGL), q.Caps.MaxSendSGE)
	case len(wr.Inline) > q.Caps.MaxInline:
		return refuse("%d bytes inline, the queue takes %d", len(wr.Inline), q.Caps.MaxInline)
	case wr.Inline != nil && row.writesLocal:
		return refuse("%v cannot be inline", wr.Op)
	case wr.Op == verbs.BindMW && (wr.Bind == nil || wr.Bind.MW == nil || wr.Bind.MR == nil && wr.Bind.Length > 0):
		return refuse("BIND_MW needs Bind with MW and MR")
	case row.response && q.attr.MaxRdAtomic == 0:
		return refuse("%v with MaxRdAtomic 0", wr.Op)
	}
	return nil
}

func (q *QP) postOne(wr *verbs.SendWR) error {
	if wr.Op != verbs.Send && wr.Op != verbs.Write || len(wr.SGL) > q.Caps.MaxSendSGE || len(wr.Inline) > q.Caps.MaxInline {
		if err := q.allowed(wr); err != nil {
			return err
		}
	}
	if q.sq.Len() >= q.Caps.MaxSendWR {
		return errSendQueueFull
	}
	w := q.sq.PushBack()
	*w = sendWQE{id: wr.ID, op: wr.Op, flags: wr.Flags, sgl: append(w.sgl[:0], wr.SGL...), inline: append(w.inline[:0], wr.Inline...),
		useCopy: wr.Inline != nil, imm: wr.Imm, key: wr.InvKey, remote: wr.Remote, compare: wr.Compare, swap: wr.Swap}
	if wr.Op == verbs.BindMW {
		w.bind = bindOf(wr.Bind)
	}
	length := uint64(len(w.inline))
	if !w.useCopy {
		for i := range w.sgl {
			length += uint64(w.sgl[i].Length)
		}
	}
	row := w.row()
	if length > uint64(q.Device.MaxMsgSize) && !row.local || row.fixed != 0 && length != uint64(row.fixed) {
		w.status = verbs.LocalLengthError
		length = 0
	}
	w.length = uint32(length)
	return nil
}

func bindOf(b *verbs.MWBindInfo) bindArgs {
	a := bindArgs{window: b.MW.Driver().(MemoryWindow).Window(), rkey: b.RKey, addr: b.Addr, length: b.Length, access: b.Access}
	if b.MR != nil {
		a.region = b.MR.Driver().(MemoryRegion).Region()
	}
	return a
}

// popFront drops the oldest work request.
func (q *QP) popFront() {
	q.sq.PopFront()
	q.popped++
	q.next = max(0, q.next-1)
}

// retire completes what is done, in order, and then fails what cannot be done.
func (q *QP) retire() {
	for q.sq.Len() > 0 {
		w := q.sq.Front()
		if q.next == 0 || w.row().response && w.answered < w.asked || w.end > q.tx.sent {
			break
		}
		q.completeSend(w, verbs.Success)
		q.popFront()
	}
	if q.next == 0 && q.sq.Len() > 0 {
		if w := q.sq.Front(); w.status != verbs.Success && q.state != verbs.SQD {
			status := w.status
			q.terminateLocal()
			q.fail(status)
			return
		}
	}
	q.checkDrained()
}

// completeSend reports the end of a send work request, if it is to be reported.
func (q *QP) completeSend(w *sendWQE, status verbs.Status) {
	if status == verbs.Success && !q.SignalAll && w.flags&verbs.Signaled == 0 {
		return
	}
	c := q.Device.Outbox.Complete(q.SendCQ)
	c.WC = verbs.WC{ID: w.id, Status: status, Op: w.row().wc, QPN: q.Num}
	if status == verbs.Success && w.row().writesLocal {
		c.WC.ByteLen = w.length
	}
}

// flushSends completes all send work requests with WRFlushError.
func (q *QP) flushSends() {
	for q.sq.Len() > 0 {
		q.completeSend(q.sq.Front(), verbs.WRFlushError)
		q.popFront()
	}
	q.next = 0
	q.reads.Clear()
}

// PostRecv posts receives to the queue pair's own queue.
func (q *QP) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if q.Shared {
		return 0, &verbs.OpError{Op: "post_recv", Err: verbs.ErrInvalid, Detail: "the queue pair has no receive queue of its own"}
	}
	if q.state == verbs.Reset {
		return 0, &verbs.OpError{Op: "post_recv", Err: verbs.ErrState, Detail: "RESET"}
	}
	n, err := q.Recv.Post(wrs)
	if q.state == verbs.Err {
		q.flushReceives()
	}
	return n, err
}

// flushReceives completes all receives with WRFlushError, the one under way first. A
// shared receive queue keeps its receives and reports that q took its last one
// (IBTA 10.2.9.5).
func (q *QP) flushReceives() {
	if q.rx.hasRecv {
		q.completeRecv(verbs.WRFlushError)
	}
	if q.Shared {
		q.Device.Outbox.Raise(verbs.EventQPLastWQEReached, q.Owner)
		return
	}
	for q.Recv.Len() > 0 {
		q.Recv.Take(&q.rx.recv)
		q.rx.hasRecv = true
		q.completeRecv(verbs.WRFlushError)
	}
}
