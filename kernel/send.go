// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/system/ibverbs"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Work requests that are laid out at once, at first and at most: longer lists are several calls.
const (
	firstPost = 8
	mostPost  = 256
)

// sendQueue is memory with work requests of a queue pair in the layout of C, linked beforehand. C has done
// with them when it returns.
type sendQueue struct {
	q *qp

	mu     sync.Mutex
	gone   bool
	wrs    []ibverbs.SendWR
	sges   []ibverbs.SGE // of each work request sgesOf
	sgesOf int
	inline []byte // of each work request inlineOf
	room   int    // bytes of it
	all    bool   // every work request is signaled
	bad    *uint64
	args   ibverbs.Args
	pin    runtime.Pinner
	out    outstanding
}

func (s *sendQueue) init(q *qp) {
	s.q, s.sgesOf, s.room = q, max(q.cap.MaxSendSGE, 1), q.cap.MaxInline
	s.bad = new(uint64)
	s.out.init(q.cap.MaxSendWR)
}

// grow makes room for lists of n work requests.
func (s *sendQueue) grow(n int) {
	size := firstPost
	for size < n {
		size *= 2
	}
	s.pin.Unpin()
	s.wrs, s.sges, s.inline = make([]ibverbs.SendWR, size), make([]ibverbs.SGE, size*s.sgesOf),
		make([]byte, size*s.room)
	s.pin.Pin(&s.wrs[0])
	s.pin.Pin(&s.sges[0])
	if s.room > 0 {
		s.pin.Pin(&s.inline[0])
	}
	for i := range s.wrs {
		s.wrs[i].SGList = s.list(i)
		if i+1 < size {
			s.wrs[i].Next = addressOf(&s.wrs[i+1])
		}
	}
}

func addressOf[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

func (s *sendQueue) list(i int) uint64 { return addressOf(&s.sges[i*s.sgesOf]) }

// post posts work requests in order, up to the first that cannot be posted.
func (s *sendQueue) post(wrs []verbs.SendWR) (done int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.postLocked(wrs)
}

func (s *sendQueue) postLocked(wrs []verbs.SendWR) (done int, err error) {
	for len(wrs) > 0 && err == nil {
		if s.gone {
			return done, verbs.ErrClosed
		}
		part := wrs[:min(len(wrs), mostPost)]
		if len(part) > len(s.wrs) {
			s.grow(len(part))
		}
		n := 0
		for n < len(part) {
			if err = s.fill(n, &part[n]); err != nil {
				break
			}
			s.out.post(s.all || part[n].Flags&verbs.Signaled != 0)
			if n++; s.wrs[n-1].Opcode == bindType1 { // has a function of its own
				break
			}
		}
		if n > 0 {
			posted, failed := s.call(n)
			done += posted
			if failed != nil {
				for i := n - 1; i >= posted; i-- {
					s.out.undo(s.all || part[i].Flags&verbs.Signaled != 0)
				}
				if failed == verbs.ErrInvalid && part[posted].Op == verbs.OpWriteImm &&
					s.q.dev.attr.Transport == verbs.TransportIWARP {
					failed = lacking("post_send", verbs.ErrNotSupported, verbs.OpWriteImm.String()) // some NICs have it
				}
				return done, failed
			}
			s.bound(part[:n])
		}
		wrs = wrs[n:]
	}
	return done, err
}

// bindType1 stands for the bind of a window of type 1, which is no work request in C.
const bindType1 = 1 << 16

// call posts the first n work requests.
func (s *sendQueue) call(n int) (posted int, err error) {
	d := s.q.dev
	last := &s.wrs[n-1]
	if last.Opcode == bindType1 {
		if n > 1 {
			if posted, err = s.call(n - 1); err != nil {
				return posted, err
			}
		}
		return s.bindType1(posted, last)
	}
	next := last.Next
	last.Next = 0
	s.args = ibverbs.Args{A: s.q.c, B: uintptr(unsafe.Pointer(&s.wrs[0])), C: uintptr(unsafe.Pointer(s.bad))}
	r := s.args.Call(d.ops.postSend)
	last.Next = next
	runtime.KeepAlive(s.sges)
	runtime.KeepAlive(s.inline)
	if r == 0 {
		return n, nil
	}
	return postedBefore(*s.bad, addressOf(&s.wrs[0]), unsafe.Sizeof(s.wrs[0]), n), postError(r)
}

// postedBefore returns how many of n work requests were posted, by the address of the one that was not. Drivers
// that refuse all of a list may leave it out.
func postedBefore(bad, first uint64, size uintptr, n int) int {
	if i := (bad - first) / uint64(size); bad >= first && i < uint64(n) {
		return int(i)
	}
	return 0
}

// postError returns the error of a work request that was not posted. Some drivers return minus an errno.
func postError(r int) error {
	if r < -1 {
		r = -r
	}
	err := resultOf(uintptr(r), 0)
	if err == verbs.ErrNoMemory {
		return verbs.ErrQueueFull
	}
	return err
}

// operations are the numbers of operations in C, and the services that have them.
var operations = [...]struct {
	c   ibverbs.WROpcode
	has bool
	uc  bool
	ud  bool
	xrc bool
}{
	verbs.OpSend:        {ibverbs.WRSend, true, true, true, true},
	verbs.OpSendImm:     {ibverbs.WRSendWithImm, true, true, true, true},
	verbs.OpSendInv:     {ibverbs.WRSendWithInv, true, false, false, true},
	verbs.OpWrite:       {ibverbs.WRRdmaWrite, true, true, false, true},
	verbs.OpWriteImm:    {ibverbs.WRRdmaWriteWithImm, true, true, false, true},
	verbs.OpRead:        {ibverbs.WRRdmaRead, true, false, false, true},
	verbs.OpCompareSwap: {ibverbs.WRAtomicCmpAndSwp, true, false, false, true},
	verbs.OpFetchAdd:    {ibverbs.WRAtomicFetchAndAdd, true, false, false, true},
	verbs.OpLocalInv:    {ibverbs.WRLocalInv, true, true, false, true},
	verbs.OpBindMW:      {ibverbs.WRBindMW, true, true, false, true},
	verbs.OpAtomicWrite: {},
	verbs.OpFlush:       {},
}

// has reports whether a device may have an operation, as far as its attributes tell.
func (d *device) has(op verbs.SendOp) bool {
	switch op {
	case verbs.OpCompareSwap, verbs.OpFetchAdd:
		return d.attr.Atomic != verbs.AtomicNone
	case verbs.OpSendImm: // RFC 5040 has none, and RFC 7306 has immediate data as a message of its own
		return d.attr.Transport != verbs.TransportIWARP
	}
	return true
}

// sendFlags are C's flags of a work request, by the flags of package verbs.
var sendFlags = [...]ibverbs.SendFlags{
	verbs.Signaled: ibverbs.SendSignaled, verbs.Solicited: ibverbs.SendSolicited,
	verbs.Signaled | verbs.Solicited:               ibverbs.SendSignaled | ibverbs.SendSolicited,
	verbs.Fence:                                    ibverbs.SendFence,
	verbs.Fence | verbs.Signaled:                   ibverbs.SendFence | ibverbs.SendSignaled,
	verbs.Fence | verbs.Solicited:                  ibverbs.SendFence | ibverbs.SendSolicited,
	verbs.Fence | verbs.Solicited | verbs.Signaled: ibverbs.SendFence | ibverbs.SendSolicited | ibverbs.SendSignaled,
}

// fill lays out a work request.
func (s *sendQueue) fill(i int, wr *verbs.SendWR) error {
	q := s.q
	if int(wr.Op) >= len(operations) || wr.Op == 0 {
		return fail("post_send", verbs.ErrInvalid, fmt.Sprintf("there is no operation %d", wr.Op))
	}
	op := &operations[wr.Op]
	switch {
	case q.typ == verbs.UC && !op.uc, q.typ == verbs.UD && !op.ud, q.typ == verbs.XRCTgt:
		return fail("post_send", verbs.ErrInvalid, fmt.Sprintf("%v queue pairs have no %v", q.typ, wr.Op))
	case !op.has:
		return fail("post_send", verbs.ErrNotSupported, fmt.Sprintf("ibv_post_send has no %v", wr.Op))
	case !q.dev.has(wr.Op):
		return lacking("post_send", verbs.ErrNotSupported, wr.Op.String())
	}
	c := &s.wrs[i]
	c.WRID, c.Opcode, c.NumSGE = wr.ID, op.c, uint32(len(wr.SGL))
	c.SendFlags = sendFlags[wr.Flags&(verbs.Signaled|verbs.Solicited|verbs.Fence)]
	if err := s.data(i, wr); err != nil {
		return err
	}
	switch wr.Op {
	case verbs.OpSendImm, verbs.OpWriteImm:
		c.ImmData = fromBE32(wr.Imm)
	case verbs.OpSendInv, verbs.OpLocalInv:
		c.ImmData = uint32(wr.InvKey)
	default:
		c.ImmData = 0 // of the work request that was here before: rxe's driver refuses binds that have it
	}
	switch wr.Op {
	case verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead:
		c.WRRdmaRemoteAddr, c.WRRdmaRkey = wr.Remote.Addr, uint32(wr.Remote.Key)
	case verbs.OpCompareSwap, verbs.OpFetchAdd:
		a := (*ibverbs.SendWRAtomic)(unsafe.Pointer(c))
		a.WRAtomicRemoteAddr, a.WRAtomicRkey, a.WRAtomicCompareAdd, a.WRAtomicSwap = wr.Remote.Addr,
			uint32(wr.Remote.Key), wr.Add, 0
		if wr.Op == verbs.OpCompareSwap {
			a.WRAtomicCompareAdd, a.WRAtomicSwap = wr.Compare, wr.Swap
		}
	case verbs.OpBindMW:
		return s.bind(c, wr)
	}
	switch q.typ {
	case verbs.UD:
		if wr.AH == nil {
			return fail("post_send", verbs.ErrInvalid, "AH is not set: a datagram needs to know where to")
		}
		if driver.AHOf(wr.AH).(*ah).gone.Load() {
			return fail("post_send", verbs.ErrInvalid, "AH is closed")
		}
		u := (*ibverbs.SendWRUD)(unsafe.Pointer(c))
		u.WRUDAH, u.WRUDRemoteQpn, u.WRUDRemoteQkey = uint64(driver.AHOf(wr.AH).(*ah).c), uint32(wr.RemoteQPN),
			uint32(wr.RemoteQKey)
	case verbs.XRCIni:
		c.QPTypeXRCRemoteSrqn = wr.SRQN
	}
	return nil
}

// data lays out the SGEs of a work request, or its inline data.
func (s *sendQueue) data(i int, wr *verbs.SendWR) error {
	c, sges := &s.wrs[i], s.sges[i*s.sgesOf:][:s.sgesOf]
	if wr.Inline != nil {
		switch {
		case len(wr.Inline) > s.room:
			return fail("post_send", verbs.ErrInvalid, limit("inline bytes", len(wr.Inline), s.room))
		case len(wr.SGL) > 0:
			return fail("post_send", verbs.ErrInvalid, "both SGL and Inline are set")
		}
		c.SendFlags |= ibverbs.SendInline
		if c.NumSGE = 0; len(wr.Inline) > 0 {
			at := s.inline[i*s.room:]
			copy(at, wr.Inline)
			c.NumSGE, sges[0] = 1, ibverbs.SGE{Addr: addressOf(&at[0]), Length: uint32(len(wr.Inline))}
		}
		return nil
	}
	if len(wr.SGL) > len(sges) {
		return fail("post_send", verbs.ErrInvalid, limit("SGEs", len(wr.SGL), len(sges)))
	}
	for j := range wr.SGL {
		e := &wr.SGL[j]
		sges[j] = ibverbs.SGE{Addr: e.Addr, Length: e.Length, Lkey: uint32(e.LKey)}
	}
	return nil
}

// bind lays out the bind of a window.
func (s *sendQueue) bind(c *ibverbs.SendWR, wr *verbs.SendWR) error {
	b := wr.Bind
	if b == nil || b.MW == nil {
		return fail("post_send", verbs.ErrInvalid, "Bind is not set, or has no window")
	}
	w := driver.MWOf(b.MW).(*mw)
	if w.closed() {
		return fail("post_send", verbs.ErrInvalid, "the window is closed")
	}
	to := (*ibverbs.SendWRBind)(unsafe.Pointer(c))
	to.BindMWMW, to.BindMWBindInfoMR = uint64(w.c), 0
	if b.MR != nil {
		m := driver.MROf(b.MR).(*mr)
		m.mu.Lock()
		to.BindMWBindInfoMR = uint64(m.c)
		m.mu.Unlock()
		if to.BindMWBindInfoMR == 0 { // C would read through it
			return fail("post_send", verbs.ErrInvalid, "the region is closed")
		}
	}
	to.BindMWBindInfoAddr, to.BindMWBindInfoLength, to.BindMWBindInfoMWAccessFlags = b.Addr, b.Length,
		accessOf(b.Access)
	if w.typ == verbs.MWType1 {
		c.Opcode = bindType1
		return nil
	}
	if b.MR == nil {
		return fail("post_send", verbs.ErrInvalid, "Bind has no region")
	}
	to.BindMWRkey = uint32(w.RKey()&^0xff | b.RKey&0xff)
	return nil
}

// bindType1 binds a window of type 1 (ibv_bind_mw).
func (s *sendQueue) bindType1(before int, c *ibverbs.SendWR) (int, error) {
	from := (*ibverbs.SendWRBind)(unsafe.Pointer(c))
	b := &ibverbs.MWBind{WRID: c.WRID, SendFlags: c.SendFlags, BindInfoMR: from.BindMWBindInfoMR,
		BindInfoAddr: from.BindMWBindInfoAddr, BindInfoLength: from.BindMWBindInfoLength,
		BindInfoMWAccessFlags: from.BindMWBindInfoMWAccessFlags}
	if s.q.dev.ops.bindMW == 0 {
		return before, lacking("bind_mw", verbs.ErrNotSupported, "ibv_bind_mw")
	}
	r, errno := s.q.dev.lib.CallErrno(s.q.dev.ops.bindMW, s.q.c, uintptr(from.BindMWMW), uintptr(unsafe.Pointer(b)))
	if err := resultOf(r, errno); err != nil {
		if err == verbs.ErrNoMemory {
			err = verbs.ErrQueueFull
		}
		return before, err
	}
	return before + 1, nil
}

// bound gives windows of type 2 that are being bound the keys that the program chose.
func (s *sendQueue) bound(wrs []verbs.SendWR) {
	for i := range wrs {
		if wrs[i].Op != verbs.OpBindMW {
			continue
		}
		w := driver.MWOf(wrs[i].Bind.MW).(*mw)
		if w.typ == verbs.MWType2 {
			w.mu.Lock()
			w.rkey = w.rkey&^0xff | wrs[i].Bind.RKey&0xff
			ibverbs.Pointer[ibverbs.MW](w.c).Rkey = uint32(w.rkey) // by which the next bind finds the window
			w.mu.Unlock()
		}
	}
}

func (s *sendQueue) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.wrs, s.sges, s.inline = nil, nil, nil
	s.pin.Unpin()
}

func (q *qp) PostSend(wrs []verbs.SendWR) (int, error) {
	if err := q.mayPost("post_send", verbs.StateRTS); err != nil {
		return 0, err
	}
	return q.send.post(wrs)
}

// PostSendAll posts a list that is checked first, if there is room for all of it.
func (q *qp) PostSendAll(wrs []verbs.SendWR) error {
	if err := q.mayPost("post_send", verbs.StateRTS); err != nil {
		return err
	}
	s := &q.send
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return verbs.ErrClosed
	}
	if len(s.wrs) == 0 {
		s.grow(1)
	}
	for i := range wrs {
		if err := s.fill(0, &wrs[i]); err != nil {
			return err
		}
	}
	if len(wrs) > q.cap.MaxSendWR-s.out.count() {
		return verbs.ErrQueueFull
	}
	_, err := s.postLocked(wrs)
	return err
}
