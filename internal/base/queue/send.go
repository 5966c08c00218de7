// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// SendWQE is a send work request until it completes. An engine embeds it in its own record of one,
// in a [Ring] of its own.
type SendWQE struct {
	ID     uint64
	Op     verbs.SendOp
	Flags  verbs.SendFlags
	Status verbs.Status // not Success: it fails when it becomes the oldest
	Copied bool         // the message is in Inline
	Length uint32       // bytes of the message
	Posted clock.Time   // 0: how long it takes is not measured

	SGL    []verbs.SGE
	Inline []byte

	Imm     uint32
	Key     verbs.Key // key to invalidate
	Remote  verbs.Remote
	Compare uint64
	Swap    uint64 // or the addend
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

// sendOp describes an operation, whatever its transport.
type sendOp struct {
	wc       verbs.WCOp
	types    typeSet      // queue pairs that have it
	local    bool         // nothing is sent
	response bool         // completes with a response, and counts towards MaxRdAtomic
	receives bool         // its SGL is written to
	fixed    uint32       // required length of the message, whose remote address is a multiple of it; 0: any
	need     verbs.Access // to the peer's memory (IBTA 9.7.5.1.3); of a FLUSH its level says which
}

// typeSet is a set of types of queue pairs.
type typeSet uint8

const (
	rc        typeSet = 1 << verbs.RC
	acked             = rc | 1<<verbs.XRCIni
	connected         = acked | 1<<verbs.UC
	all               = connected | 1<<verbs.UD
)

func (s typeSet) has(t verbs.QPType) bool { return s>>t&1 != 0 }

var sendOps = [...]sendOp{
	verbs.OpSend:     {wc: verbs.WCSend, types: all},
	verbs.OpSendImm:  {wc: verbs.WCSend, types: all},
	verbs.OpSendInv:  {wc: verbs.WCSend, types: acked},
	verbs.OpWrite:    {wc: verbs.WCWrite, types: connected, need: verbs.RemoteWrite},
	verbs.OpWriteImm: {wc: verbs.WCWrite, types: connected, need: verbs.RemoteWrite},
	verbs.OpRead:     {wc: verbs.WCRead, types: acked, response: true, receives: true, need: verbs.RemoteRead},
	verbs.OpCompareSwap: {wc: verbs.WCCompareSwap, types: acked, response: true, receives: true, fixed: 8,
		need: verbs.RemoteAtomic},
	verbs.OpFetchAdd: {wc: verbs.WCFetchAdd, types: acked, response: true, receives: true, fixed: 8,
		need: verbs.RemoteAtomic},
	verbs.OpAtomicWrite: {wc: verbs.WCAtomicWrite, types: rc, response: true, fixed: 8, need: verbs.RemoteWrite},
	verbs.OpFlush:       {wc: verbs.WCFlush, types: rc, response: true},
	verbs.OpLocalInv:    {wc: verbs.WCLocalInv, types: connected, local: true},
	verbs.OpBindMW:      {wc: verbs.WCBindMW, types: connected, local: true},
}

// Local reports whether the work request sends nothing.
func (w *SendWQE) Local() bool { return sendOps[w.Op].local }

// Responds reports whether the work request completes with a response rather than an
// acknowledgement.
func (w *SendWQE) Responds() bool { return sendOps[w.Op].response }

// Receives reports whether the memory of the work request is written to.
func (w *SendWQE) Receives() bool { return sendOps[w.Op].receives }

// Needs returns the right to the peer's memory that an operation needs (IBTA 9.7.5.1.3); 0: none. See FlushAccess.
func Needs(op verbs.SendOp) verbs.Access { return sendOps[op].need }

// FlushAccess returns the rights that a FLUSH needs (IBTA annex A19).
func FlushAccess(l verbs.FlushLevel) (need verbs.Access) {
	if l&verbs.FlushToGlobal != 0 {
		need |= verbs.FlushGlobal
	}
	if l&verbs.FlushToPersistent != 0 {
		need |= verbs.FlushPersistent
	}
	return need
}

// Aligned reports whether an operation needs an aligned word at the peer (IBTA 9.4.5, annex A19).
func Aligned(op verbs.SendOp) bool { return sendOps[op].fixed != 0 }

// CheckSends returns how many of the work requests can be posted, in order, to a send queue that
// holds so many already, and why no more. With a NIC's queues, those whose places are not free yet count, too. With
// all, one that cannot be posted holds back the others. The transport function refuses what it has no message for;
// nil: nothing.
func (p *Pair) CheckSends(wrs []verbs.SendWR, held int, all bool, transport func(*verbs.SendWR) error) (int, error) {
	if p.state < verbs.StateRTS {
		return 0, &verbs.OpError{Op: "post_send", Err: verbs.ErrState, Detail: p.state.String() + ": RTS is needed"}
	}
	if p.slots != nil {
		held = p.slots.Taken()
	}
	for i := range wrs {
		err := p.checkSend(&wrs[i], transport)
		if err == nil && held+i >= p.Caps.MaxSendWR {
			err = verbs.ErrQueueFull
		}
		if err == nil {
			continue
		}
		if all {
			i = 0
		}
		return i, err
	}
	return len(wrs), nil
}

// InvalidSend is the error for a work request that can never be carried out.
func InvalidSend(format string, a ...any) error {
	return &verbs.OpError{Op: "post_send", Err: verbs.ErrInvalid, Detail: fmt.Sprintf(format, a...)}
}

// UnsupportedOps has, for each operation that a transport has no message for, the reason.
type UnsupportedOps [verbs.OpBindMW + 1]string

// Check returns why there is no message for a work request; see [Pair.CheckSends].
func (l *UnsupportedOps) Check(wr *verbs.SendWR) error {
	if why := l[wr.Op]; why != "" {
		return &verbs.OpError{Op: "post_send", Err: verbs.ErrNotSupported, Detail: fmt.Sprintf("%v: %s", wr.Op, why)}
	}
	return nil
}

// checkSend returns why a work request can never be posted.
func (p *Pair) checkSend(wr *verbs.SendWR, transport func(*verbs.SendWR) error) error {
	if wr.Op == 0 || int(wr.Op) >= len(sendOps) {
		return InvalidSend("operation %d does not exist", wr.Op)
	}
	op := &sendOps[wr.Op]
	if !op.types.has(p.Type) {
		return InvalidSend("%v is no operation of %v", wr.Op, p.Type)
	}
	if transport != nil {
		if err := transport(wr); err != nil {
			return err
		}
	}
	switch {
	case len(wr.SGL) > p.Caps.MaxSendSGE:
		return InvalidSend("%d scatter/gather entries, the queue has %d", len(wr.SGL), p.Caps.MaxSendSGE)
	case len(wr.Inline) > max(p.Caps.MaxInline, int(op.fixed)): // the 8 bytes of an ATOMIC_WRITE need no room
		return InvalidSend("%d bytes inline, the queue takes %d", len(wr.Inline), p.Caps.MaxInline)
	case wr.Inline != nil && op.receives:
		return InvalidSend("%v cannot be inline", wr.Op)
	case op.response && p.attr.MaxRdAtomic == 0:
		return InvalidSend("%v with MaxRdAtomic 0", wr.Op)
	case wr.Op == verbs.OpBindMW && (wr.Bind == nil || wr.Bind.MW == nil || wr.Bind.MR == nil && wr.Bind.Length > 0):
		return InvalidSend("BIND_MW needs Bind with MW and MR")
	case wr.Op == verbs.OpFlush && (wr.FlushLevel == 0 ||
		wr.FlushLevel&^(verbs.FlushToGlobal|verbs.FlushToPersistent) != 0):
		return InvalidSend("FLUSH needs a FlushLevel of FlushToGlobal, FlushToPersistent or both")
	case wr.Op == verbs.OpFlush && wr.FlushScope > verbs.FlushRegion:
		return InvalidSend("FlushScope %d: FlushRange or FlushRegion", wr.FlushScope)
	}
	return nil
}

// ReadsInto reports whether a READ may put its data into memory that may be written to.
func (p *Pair) ReadsInto(sge *verbs.SGE) bool {
	if p.dev.SinkAccess == 0 {
		return true
	}
	_, _, allows := p.dev.Memory.Describe(sge.LKey)
	return allows&p.dev.SinkAccess == p.dev.SinkAccess
}

// Foreign reports whether a NIC would not send by an address handle: it is of another protection domain than the
// queue pair (IBTA 10.2.3).
func (p *Pair) Foreign(ah *verbs.AH) bool {
	if !p.dev.NIC {
		return false
	}
	h, ok := driver.AHOf(ah).(interface{ Domain() memory.PD })
	return ok && h.Domain() != p.PD
}

// SetSend makes w the work request wr, which has passed [Pair.CheckSends]. If its length is still
// invalid, it completes with LocalLengthError.
func (p *Pair) SetSend(w *SendWQE, wr *verbs.SendWR) {
	w.ID, w.Op, w.Flags, w.Status = wr.ID, wr.Op, wr.Flags, verbs.StatusSuccess
	w.Posted, p.sample = p.sample, 0
	p.slots.add(1)
	w.SGL = append(w.SGL[:0], wr.SGL...)
	w.Inline, w.Copied = append(w.Inline[:0], wr.Inline...), wr.Inline != nil
	w.Imm, w.Key, w.Remote, w.Compare, w.Swap = wr.Imm, wr.InvKey, wr.Remote, wr.Compare, Operand(wr)
	length := w.given()
	limit := uint64(p.dev.MaxMsgSize)
	if p.Type == verbs.UD {
		limit = uint64(p.port.MTU)
	}
	op := &sendOps[wr.Op]
	switch {
	case wr.Op == verbs.OpFlush: // its length is that of memory at the peer
		length = uint64(wr.FlushLen)
	case op.local:
		length = 0
	case length > limit || op.fixed != 0 && length != uint64(op.fixed):
		w.Status, length = verbs.StatusLocalLengthError, 0
	}
	w.Length = uint32(length)
	switch {
	case wr.Op == verbs.OpBindMW:
		w.bind = bindOf(wr.Bind)
	case w.bind.window != nil: // of a work request that was flushed
		w.bind = bindArgs{}
	}
}

// Atomic carries out a compare-and-swap or fetch-and-add on a word (IBTA 9.4.5). It returns its former value, and
// whether it has changed it. ok is false if the word is not there any more.
func Atomic(word memory.Span, op verbs.SendOp, compare, operand uint64) (old uint64, changed, ok bool) {
	if op == verbs.OpCompareSwap {
		old, ok = word.CompareSwap(compare, operand)
		return old, old == compare, ok
	}
	old, ok = word.FetchAdd(operand)
	return old, true, ok
}

// Operand returns the operand that an atomic operation swaps in, or adds.
func Operand(wr *verbs.SendWR) uint64 {
	if wr.Op == verbs.OpFetchAdd {
		return wr.Add
	}
	return wr.Swap
}

// given returns how many bytes the program gave.
func (w *SendWQE) given() uint64 {
	n := uint64(len(w.Inline))
	if !w.Copied {
		for i := range w.SGL {
			n += uint64(w.SGL[i].Length)
		}
	}
	return n
}

func bindOf(b *verbs.MWBindInfo) bindArgs {
	a := bindArgs{window: driver.MWOf(b.MW).(MemoryWindow).Window(), rkey: b.RKey, addr: b.Addr, length: b.Length,
		access: b.Access}
	if b.MR != nil {
		a.region = driver.MROf(b.MR).(MemoryRegion).Region()
	}
	return a
}

// DoLocal executes a work request that sends nothing. It returns false if it fails with Status.
func (p *Pair) DoLocal(w *SendWQE) bool {
	ok := false
	switch t, b := p.dev.Memory, &w.bind; w.Op {
	case verbs.OpLocalInv:
		ok = t.Invalidate(p.PD, p.Num, w.Key)
	case verbs.OpBindMW:
		ok = t.Bind(p.PD, p.Num, b.window, b.region, b.rkey, b.addr, b.length, b.access)
		*b = bindArgs{}
	}
	if !ok {
		w.Status = verbs.StatusMWBindError
	}
	return ok
}

// CompleteSend completes a send work request, if it is signaled or failed.
func (p *Pair) CompleteSend(w *SendWQE, s verbs.Status) {
	reason := verbs.ReasonUnknown
	switch {
	case s == verbs.StatusWRFlushError:
	case s != verbs.StatusSuccess:
		reason = p.sendFailed(w, s)
	case w.Op <= verbs.OpWriteImm:
		p.Counts.SentMessages++
		p.Counts.SentBytes += uint64(w.Length)
	default:
		p.countSend(w)
	}
	if w.Posted != 0 && s == verbs.StatusSuccess {
		p.out.Samples = append(p.out.Samples, Sample{sendOps[w.Op].wc, w.Posted})
	}
	if s == verbs.StatusSuccess && !p.SignalAll && w.Flags&verbs.Signaled == 0 {
		p.silent++
		return
	}
	op := &sendOps[w.Op]
	c := p.out.Complete(p.SendCQ)
	if p.slots != nil {
		c.Frees = Frees{p.slots, p.silent + 1}
	}
	p.silent = 0
	c.WC.ID, c.WC.Status, c.WC.Op, c.WC.QPN, c.WC.VendorErr = w.ID, s, op.wc, p.Num, uint32(reason)
	if s == verbs.StatusSuccess && op.receives {
		c.WC.ByteLen = w.Length
	}
}

// Sample has the time of the next work request measured, from at; 0: of none.
func (p *Pair) Sample(at clock.Time) { p.sample = at }

// CompletesAs returns the operation in the completion of a work request.
func CompletesAs(op verbs.SendOp) verbs.WCOp { return sendOps[op].wc }

// Signals reports whether a work request completes when it succeeds.
func (p *Pair) Signals(wr *verbs.SendWR) bool { return p.SignalAll || wr.Flags&verbs.Signaled != 0 }

// Performed counts a work request of n bytes that was carried out without a place in the send queue, and
// fills its completion. It sends something.
func (p *Pair) Performed(wr *verbs.SendWR, n int, wc *verbs.WC) {
	op := &sendOps[wr.Op]
	p.Counts.SentMessages++
	got := uint32(0)
	if op.receives {
		p.Counts.RecvBytes += uint64(n)
		got = uint32(n)
	} else {
		p.Counts.SentBytes += uint64(n)
	}
	*wc = verbs.WC{ID: wr.ID, Op: op.wc, QPN: p.Num, ByteLen: got}
}

// countSend counts a work request that has been carried out, neither SEND nor WRITE. The length of a
// FLUSH is no payload.
func (p *Pair) countSend(w *SendWQE) {
	switch op := &sendOps[w.Op]; {
	case op.local:
		return
	case op.receives:
		p.Counts.RecvBytes += uint64(w.Length)
	case w.Op != verbs.OpFlush:
		p.Counts.SentBytes += uint64(w.Length)
	}
	p.Counts.SentMessages++
}

// CountRequest counts payload of a peer's request that was carried out; last says that it was the
// end of the request.
func (p *Pair) CountRequest(payload int, last bool) {
	p.Counts.RecvBytes += uint64(payload)
	if last {
		p.Counts.RecvMessages++
	}
}
