// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// sendWQE is a send work request as the requester keeps it until it has completed.
type sendWQE struct {
	id      uint64
	op      verbs.SendOp
	flags   verbs.SendFlags
	status  verbs.Status // not Success: fails when it is the oldest
	done    bool         // a local operation that was carried out
	again   bool         // sent an odd number of times
	divided bool         // a WRITE whose packets are messages of their own
	length  uint32       // bytes of the message
	packets int          // PSNs that it takes; 0: a local operation
	chunk   int          // READ: responses that one request asks for; what is asked for again must be part of one
	first   ib.PSN

	sgl     []verbs.SGE
	inline  []byte
	useCopy bool // the message is in inline

	imm     uint32
	key     verbs.Key // to be invalidated
	remote  verbs.Remote
	compare uint64
	swap    uint64
	to      *Vector // UD
	qpn     verbs.QPN
	qkey    verbs.QKey
	srqn    uint32
	flush   flushArgs
	bind    bindArgs
}

type flushArgs struct {
	level verbs.FlushLevel
	scope verbs.FlushScope
}

type bindArgs struct {
	window *memory.Window
	region *memory.Region
	rkey   verbs.Key
	addr   uint64
	length uint64
	access verbs.Access
}

// opRow says how a work request's operation goes on the wire.
type opRow struct {
	first, middle, last, only ib.Operation
	wc                        verbs.WCOp
	response                  bool   // completes with a response, not with an acknowledgement
	depth                     bool   // counts against MaxRdAtomic
	writesLocal               bool   // its SGL receives
	local                     bool   // no packet at all
	fixed                     uint32 // length that the SGL must have; 0: any
	types                     []verbs.QPType
}

var (
	connected = []verbs.QPType{verbs.RC, verbs.UC, verbs.XRCIni}
	acked     = []verbs.QPType{verbs.RC, verbs.XRCIni}
	rcOnly    = []verbs.QPType{verbs.RC}
	all       = []verbs.QPType{verbs.RC, verbs.UC, verbs.UD, verbs.XRCIni}
)

// opRows has one row an operation (IBTA 9.2.1, 11.4.1.1).
var opRows = [...]opRow{
	verbs.Send:    {first: ib.OpSendFirst, middle: ib.OpSendMiddle, last: ib.OpSendLast, only: ib.OpSendOnly, wc: verbs.WCSend, types: all},
	verbs.SendImm: {first: ib.OpSendFirst, middle: ib.OpSendMiddle, last: ib.OpSendLastImm, only: ib.OpSendOnlyImm, wc: verbs.WCSend, types: all},
	verbs.SendInv: {first: ib.OpSendFirst, middle: ib.OpSendMiddle, last: ib.OpSendLastInv, only: ib.OpSendOnlyInv, wc: verbs.WCSend, types: acked},
	verbs.Write:   {first: ib.OpWriteFirst, middle: ib.OpWriteMiddle, last: ib.OpWriteLast, only: ib.OpWriteOnly, wc: verbs.WCWrite, types: connected},
	verbs.WriteImm: {first: ib.OpWriteFirst, middle: ib.OpWriteMiddle, last: ib.OpWriteLastImm, only: ib.OpWriteOnlyImm,
		wc: verbs.WCWrite, types: connected},
	verbs.Read:        {only: ib.OpReadRequest, wc: verbs.WCRead, response: true, depth: true, writesLocal: true, types: acked},
	verbs.CompareSwap: {only: ib.OpCompareSwap, wc: verbs.WCCompareSwap, response: true, depth: true, writesLocal: true, fixed: 8, types: acked},
	verbs.FetchAdd:    {only: ib.OpFetchAdd, wc: verbs.WCFetchAdd, response: true, depth: true, writesLocal: true, fixed: 8, types: acked},
	verbs.AtomicWrite: {only: ib.OpAtomicWrite, wc: verbs.WCAtomicWrite, response: true, depth: true, fixed: 8, types: rcOnly},
	verbs.Flush:       {only: ib.OpFlush, wc: verbs.WCFlush, response: true, depth: true, types: rcOnly},
	verbs.LocalInv:    {wc: verbs.WCLocalInv, local: true, types: connected},
	verbs.BindMW:      {wc: verbs.WCBindMW, local: true, types: connected},
}

func (w *sendWQE) row() *opRow { return &opRows[w.op] }

// bytesBefore returns the payload of the first n packets.
func (w *sendWQE) bytesBefore(n, mtu int) int { return min(n*mtu, int(w.length)) }

// cost returns what packets from to to (exclusive) take of the flow's window. A READ takes
// what its request does, however many PSNs its responses have.
func (w *sendWQE) cost(from, to, mtu int) int {
	if w.row().response {
		return packetOverhead
	}
	return w.bytesBefore(to, mtu) - w.bytesBefore(from, mtu) + (to-from)*packetOverhead
}

// PostSend adds work requests in order and returns how many.
func (q *QP) PostSend(wrs []verbs.SendWR) (int, error) { return q.Post(wrs, false) }

// Post is PostSend; with all, none is added if one of them cannot be.
func (q *QP) Post(wrs []verbs.SendWR, all bool) (int, error) {
	if q.state < verbs.RTS {
		return 0, stateError(q.state)
	}
	n, err := 0, error(nil)
	for n < len(wrs) {
		if err = q.postOne(&wrs[n]); err != nil {
			break
		}
		n++
	}
	for ; all && err != nil && n > 0; n-- {
		q.req.nextPSN = q.req.sq.At(q.req.sq.Len() - 1).first
		q.req.sq.PopBack()
	}
	if q.state >= verbs.SQE {
		q.flushSends()
	}
	return n, err
}

func stateError(s verbs.QPState) error {
	return &verbs.OpError{Op: "post_send", Err: verbs.ErrState, Detail: s.String() + ": RTS is needed"}
}

// refuse is the error for a work request that can never be carried out.
func refuse(format string, a ...any) error {
	return &verbs.OpError{Op: "post_send", Err: verbs.ErrInvalid, Detail: fmt.Sprintf(format, a...)}
}

var errSendQueueFull = &verbs.OpError{Op: "post_send", Err: verbs.ErrQueueFull}

// handled says whether a driver's object is of this engine's devices.
func handled[T any](driver any) bool {
	_, ok := driver.(T)
	return ok
}

// allowed says why a work request cannot be posted to q at all.
func (q *QP) allowed(wr *verbs.SendWR) error {
	if wr.Op == 0 || int(wr.Op) >= len(opRows) {
		return refuse("operation %d does not exist", wr.Op)
	}
	ok := false
	for _, t := range opRows[wr.Op].types {
		ok = ok || t == q.Type
	}
	switch {
	case !ok:
		return refuse("%v is no operation of %v", wr.Op, q.Type)
	case len(wr.SGL) > q.Caps.MaxSendSGE:
		return refuse("%d scatter/gather entries, the queue has %d", len(wr.SGL), q.Caps.MaxSendSGE)
	case len(wr.Inline) > q.Caps.MaxInline:
		return refuse("%d bytes inline, the queue takes %d", len(wr.Inline), q.Caps.MaxInline)
	case wr.Inline != nil && opRows[wr.Op].writesLocal:
		return refuse("%v cannot be inline", wr.Op)
	case q.Type == verbs.UD && wr.AH == nil:
		return refuse("a datagram needs an address handle (AH)")
	case q.Type == verbs.UD && !handled[AddressHandle](wr.AH.Driver()):
		return refuse("the address handle (AH) is of another kind of device")
	case wr.Op == verbs.BindMW && (wr.Bind == nil || wr.Bind.MW == nil || wr.Bind.MR == nil && wr.Bind.Length > 0):
		return refuse("BIND_MW needs Bind with MW and MR")
	case opRows[wr.Op].depth && q.attr.MaxRdAtomic == 0:
		return refuse("%v with MaxRdAtomic 0", wr.Op)
	case wr.Op == verbs.Flush && wr.FlushLevel == 0:
		return refuse("FLUSH needs FlushLevel")
	}
	return nil
}

func (q *QP) postOne(wr *verbs.SendWR) error {
	if err := q.allowed(wr); err != nil {
		return err
	}
	if q.req.sq.Len() >= q.Caps.MaxSendWR {
		return errSendQueueFull
	}
	w := q.req.sq.PushBack()
	*w = sendWQE{id: wr.ID, op: wr.Op, flags: wr.Flags, sgl: append(w.sgl[:0], wr.SGL...), inline: append(w.inline[:0], wr.Inline...),
		useCopy: wr.Inline != nil, imm: wr.Imm, key: wr.InvKey, remote: wr.Remote, compare: wr.Compare, swap: wr.Swap,
		qpn: wr.RemoteQPN, qkey: wr.RemoteQKey, srqn: wr.SRQN, flush: flushArgs{wr.FlushLevel, wr.FlushScope}}
	length := uint64(len(w.inline))
	if !w.useCopy {
		for i := range w.sgl {
			length += uint64(w.sgl[i].Length)
		}
	}
	switch {
	case wr.Op == verbs.Flush:
		length = uint64(wr.FlushLen)
	case wr.Op == verbs.BindMW:
		w.bind = bindOf(wr.Bind)
	case q.Type == verbs.UD:
		w.to = wr.AH.Driver().(AddressHandle).Vector()
	}
	q.number(w, length)
	return nil
}

func bindOf(b *verbs.MWBindInfo) bindArgs {
	a := bindArgs{window: b.MW.Driver().(MemoryWindow).Window(), rkey: b.RKey, addr: b.Addr, length: b.Length, access: b.Access}
	if b.MR != nil {
		a.region = b.MR.Driver().(MemoryRegion).Region()
	}
	return a
}

// number gives a work request its PSNs, and a status if its length cannot be.
func (q *QP) number(w *sendWQE, length uint64) {
	row := w.row()
	limit := uint64(q.Device.MaxMsgSize)
	mtu := q.mtu()
	if q.Type == verbs.UD {
		mtu = q.Device.MTU
		limit = uint64(mtu)
	}
	if length > limit && !row.local && w.op != verbs.Flush || row.fixed != 0 && length != uint64(row.fixed) {
		w.status = verbs.LocalLengthError
		length = 0
	}
	w.length = uint32(length)
	switch {
	case row.local:
	case row.response && w.op != verbs.Read:
		w.packets = 1
	default:
		w.packets = max(1, (int(length)+mtu-1)/mtu)
	}
	w.divided = w.flags&verbs.Divisible != 0 && w.packets > 1 && (w.op == verbs.Write || w.op == verbs.WriteImm) && q.Type == verbs.RC
	w.first = q.req.nextPSN
	q.req.nextPSN = w.first.Add(w.packets)
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
	for q.req.sq.Len() > 0 {
		q.completeSend(q.req.sq.Front(), verbs.WRFlushError)
		q.req.sq.PopFront()
	}
	q.req.next, q.req.sent, q.req.acked = 0, 0, 0
}
