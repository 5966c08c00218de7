// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/system/ibverbs"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// recvQueue is memory with receives in the layout of C, as sendQueue is with sends.
type recvQueue struct {
	fn uintptr // of the context's table
	c  uintptr // struct ibv_qp or ibv_srq

	mu     sync.Mutex
	gone   bool
	wrs    []ibverbs.RecvWR
	sges   []ibverbs.SGE
	sgesOf int
	bad    *uint64
	args   ibverbs.Args
	pin    runtime.Pinner
}

func (s *recvQueue) init(fn, c uintptr, sges int) {
	s.fn, s.c, s.sgesOf, s.bad = fn, c, max(sges, 1), new(uint64)
}

func (s *recvQueue) grow(n int) {
	size := firstPost
	for size < n {
		size *= 2
	}
	s.pin.Unpin()
	s.wrs, s.sges = make([]ibverbs.RecvWR, size), make([]ibverbs.SGE, size*s.sgesOf)
	s.pin.Pin(&s.wrs[0])
	s.pin.Pin(&s.sges[0])
	for i := range s.wrs {
		s.wrs[i].SGList = addressOf(&s.sges[i*s.sgesOf])
		if i+1 < size {
			s.wrs[i].Next = addressOf(&s.wrs[i+1])
		}
	}
}

// post posts receives in order, up to the first that cannot be posted.
func (s *recvQueue) post(wrs []verbs.RecvWR) (done int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(wrs) > 0 && err == nil {
		if s.gone {
			return done, verbs.ErrClosed
		}
		part := wrs[:min(len(wrs), mostPost)]
		if len(part) > len(s.wrs) {
			s.grow(len(part))
		}
		n := 0
		for ; n < len(part); n++ {
			sgl := part[n].SGL
			if len(sgl) > s.sgesOf {
				err = fail("post_recv", verbs.ErrInvalid, limit("SGEs", len(sgl), s.sgesOf))
				break
			}
			s.wrs[n].WRID, s.wrs[n].NumSGE = part[n].ID, uint32(len(sgl))
			for j := range sgl {
				s.sges[n*s.sgesOf+j] = ibverbs.SGE{Addr: sgl[j].Addr, Length: sgl[j].Length, Lkey: uint32(sgl[j].LKey)}
			}
		}
		if n > 0 {
			posted, failed := s.call(n)
			done += posted
			if failed != nil {
				return done, failed
			}
		}
		wrs = wrs[n:]
	}
	return done, err
}

func (s *recvQueue) call(n int) (posted int, err error) {
	last := &s.wrs[n-1]
	next := last.Next
	last.Next = 0
	s.args = ibverbs.Args{A: s.c, B: uintptr(unsafe.Pointer(&s.wrs[0])), C: uintptr(unsafe.Pointer(s.bad))}
	r := s.args.Call(s.fn)
	last.Next = next
	runtime.KeepAlive(s.sges)
	if r == 0 {
		return n, nil
	}
	return postedBefore(*s.bad, addressOf(&s.wrs[0]), unsafe.Sizeof(s.wrs[0]), n), postError(r)
}

func (s *recvQueue) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.wrs, s.sges = nil, nil
	s.pin.Unpin()
}

func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if q.shared || q.cap.MaxRecvWR == 0 && len(wrs) > 0 {
		return 0, fail("post_recv", verbs.ErrInvalid, "the queue pair has no receive queue of its own")
	}
	if err := q.mayPost("post_recv", verbs.StateInit); err != nil {
		return 0, err
	}
	return q.recv.post(wrs)
}

// srq is a shared receive queue.
type srq struct {
	driver.UnsupportedSRQ
	numbered
	dev    *device
	info   driver.SRQInfo // covered by the device's mu
	c      uintptr        // struct ibv_srq
	events func(verbs.EventType)
	recv   recvQueue
	num    uint32 // XRC

	mu   sync.Mutex
	gone bool
}

func (p *pd) CreateSRQ(init *verbs.SRQInit, events func(verbs.EventType)) (driver.SRQ, error) {
	d := p.dev
	switch {
	case d.attr.Caps&verbs.CapSRQ == 0:
		return nil, lacking("create_srq", verbs.ErrNotSupported, "shared receive queues")
	case init.XRCD != nil && d.attr.Caps&verbs.CapXRC == 0:
		return nil, lacking("create_srq", verbs.ErrNotSupported, "XRC")
	case init.MaxWR > d.attr.MaxSRQWR:
		return nil, fail("create_srq", verbs.ErrInvalid, limit("work requests", init.MaxWR, d.attr.MaxSRQWR))
	case init.MaxSGE > d.attr.MaxSRQSGE:
		return nil, fail("create_srq", verbs.ErrInvalid, limit("SGEs", init.MaxSGE, d.attr.MaxSRQSGE))
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	a := &ibverbs.SRQInitAttrEx{AttrMaxWR: uint32(init.MaxWR), AttrMaxSGE: uint32(init.MaxSGE)}
	f, owner := d.lib.CreateSRQ, p.c
	if init.XRCD != nil {
		a.CompMask = ibverbs.MaskSRQInitAttrType | ibverbs.MaskSRQInitAttrPD | ibverbs.MaskSRQInitAttrXRCD |
			ibverbs.MaskSRQInitAttrCQ
		a.SRQType, a.PD, a.XRCD, a.CQ = ibverbs.SrqtXRC, uint64(p.c), uint64(driver.XRCDOf(init.XRCD).(*xrcd).c),
			uint64(driver.CQOf(init.CQ).(*cq).c)
		if f, owner = ibverbs.Ext(d.ctx, ibverbs.BackCreateSRQEx), d.ctx; f == 0 {
			return nil, lacking("create_srq", verbs.ErrNotSupported, "ibv_create_srq_ex")
		}
	}
	c, errno := d.lib.CallErrno(f, owner, uintptr(unsafe.Pointer(a)))
	if err := madeOf(c, errno); err != nil {
		return nil, err
	}
	s := &srq{dev: d, c: c, events: events, info: driver.SRQInfo{PD: p.id,
		Capacity: int(max(a.AttrMaxWR, uint32(init.MaxWR)))}}
	s.recv.init(d.ops.postSRQRecv, c, max(int(a.AttrMaxSGE), init.MaxSGE))
	if init.XRCD != nil {
		num := new(uint32)
		if f := ibverbs.Ext(d.ctx, ibverbs.BackGetSRQNum); f != 0 &&
			ibverbs.Call(f, c, uintptr(unsafe.Pointer(num)), 0) == 0 {
			s.num, s.info.XRC = *num, *num
		}
	}
	d.mu.Lock()
	d.srqs[c] = s
	d.mu.Unlock()
	d.made(s)
	return s, nil
}

func (s *srq) PostRecv(wrs []verbs.RecvWR) (int, error) { return s.recv.post(wrs) }
func (s *srq) Num() uint32                              { return s.num }

func (s *srq) Modify(a verbs.SRQAttr, mask verbs.SRQMask) error {
	d := s.dev
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return verbs.ErrClosed
	}
	if mask&verbs.SRQMaxWR != 0 && d.attr.Caps&verbs.CapSRQResize == 0 {
		return lacking("modify_srq", verbs.ErrNotSupported, "way to resize shared receive queues")
	}
	c := &ibverbs.SRQAttr{MaxWR: uint32(a.MaxWR), MaxSGE: uint32(a.MaxSGE), SRQLimit: uint32(a.Limit)}
	r, errno := d.lib.CallErrno(d.lib.ModifySRQ, s.c, uintptr(unsafe.Pointer(c)), uintptr(mask))
	if err := resultOf(r, errno); err != nil {
		return lacking("modify_srq", err, "ibv_modify_srq")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if mask&verbs.SRQMaxWR != 0 {
		s.info.Capacity = a.MaxWR
	}
	if mask&verbs.SRQLimit != 0 {
		s.info.Limit = a.Limit
	}
	return nil
}

func (s *srq) Query() (a verbs.SRQAttr) {
	d := s.dev
	if d.enter() != nil {
		return a
	}
	defer d.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := new(ibverbs.SRQAttr)
	if s.gone {
		return a
	}
	if r, errno := d.lib.CallErrno(d.lib.QuerySRQ, s.c, uintptr(unsafe.Pointer(c))); resultOf(r, errno) != nil {
		return a
	}
	return verbs.SRQAttr{MaxWR: int(c.MaxWR), MaxSGE: int(c.MaxSGE), Limit: int(c.SRQLimit)}
}

func (s *srq) Destroy() error { return s.dev.end(s) }

func (s *srq) destroy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return nil
	}
	d := s.dev
	s.recv.close()
	d.mu.Lock()
	delete(d.srqs, s.c)
	d.mu.Unlock()
	r, errno := d.lib.CallErrno(d.lib.DestroySRQ, s.c)
	err := destroyed(r, errno)
	s.gone = err == nil
	return err
}

func (s *srq) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
}
