// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/system/ibverbs"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// qp is a queue pair.
type qp struct {
	driver.UnsupportedQP
	numbered
	dev    *device
	c      uintptr // struct ibv_qp
	typ    verbs.QPType
	num    verbs.QPN
	made   driver.QPInfo // the attributes that it was created with
	events func(verbs.EventType)
	shared bool // its receives come from a shared queue
	closed atomic.Bool
	state  atomic.Uint32 // as attr has it

	send sendQueue
	recv recvQueue

	mu     sync.Mutex
	gone   bool
	attr   verbs.QPAttr // the attributes that were set last, and the state as far as it is known
	cap    verbs.QPCap
	asked  verbs.AHAttr // by the program
	groups map[group]struct{}
}

type group struct {
	gid verbs.GID
	lid uint16
}

// types are the numbers of services in C.
var types = map[verbs.QPType]ibverbs.QPType{verbs.RC: ibverbs.QptRC, verbs.UC: ibverbs.QptUC, verbs.UD: ibverbs.QptUD,
	verbs.XRCIni: ibverbs.QptXRCSend, verbs.XRCTgt: ibverbs.QptXRCRecv}

func limit(what string, n, most int) string {
	return fmt.Sprintf("%d %s, and the device has at most %d", n, what, most)
}

func (p *pd) CreateQP(init *verbs.QPInit, events func(verbs.EventType)) (driver.QP, error) {
	return p.dev.createQP(init, events, p, nil)
}

func (d *device) createQP(init *verbs.QPInit, events func(verbs.EventType), p *pd, x *xrcd) (driver.QP, error) {
	switch has := d.attr.Caps; {
	case init.Type == verbs.UC && has&verbs.CapUC == 0, init.Type == verbs.UD && has&verbs.CapUD == 0,
		(init.Type == verbs.XRCIni || init.Type == verbs.XRCTgt) && has&verbs.CapXRC == 0:
		return nil, fail("create_qp", verbs.ErrNotSupported, fmt.Sprintf("the device has no %v queue pairs", init.Type))
	case init.Congestion != "":
		return nil, fail("create_qp", verbs.ErrNotSupported,
			"congestion control of a queue pair: the hardware has its own")
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	c := &ibverbs.QPInitAttrEx{CapMaxSendWR: uint32(init.Cap.MaxSendWR), CapMaxRecvWR: uint32(init.Cap.MaxRecvWR),
		CapMaxSendSGE: uint32(init.Cap.MaxSendSGE),
		CapMaxRecvSGE: uint32(init.Cap.MaxRecvSGE), CapMaxInlineData: uint32(init.Cap.MaxInline),
		QPType: types[init.Type]}
	if init.SignalAll {
		c.SqSigAll = 1
	}
	var made driver.QPInfo
	if p != nil {
		made.PD = p.id
	}
	if init.SendCQ != nil {
		q := driver.CQOf(init.SendCQ).(*cq)
		c.SendCQ, made.SendCQ = uint64(q.c), q.id
	}
	if init.RecvCQ != nil {
		q := driver.CQOf(init.RecvCQ).(*cq)
		c.RecvCQ, made.RecvCQ = uint64(q.c), q.id
	}
	if init.SRQ != nil {
		s := driver.SRQOf(init.SRQ).(*srq)
		c.SRQ, made.SRQ = uint64(s.c), s.id
	}
	if init.BlockSelfMulticast {
		c.CompMask |= ibverbs.MaskQPInitAttrCreateFlags
		c.CreateFlags |= ibverbs.QPCreateBlockSelfMcastLb
	}
	if x != nil {
		c.CompMask |= ibverbs.MaskQPInitAttrXRCD
		c.XRCD = uint64(x.c)
	}
	h, err := d.makeQP(c, init.Type, p)
	if err != nil {
		return nil, err
	}
	q := &qp{dev: d, c: h, typ: init.Type, made: made, num: verbs.QPN(*ibverbs.Pointer[uint32](h + ibverbs.QPNum)),
		events: events, shared: init.SRQ != nil, groups: map[group]struct{}{}}
	// The device may have made the queues larger than they have to be. Lists of SGEs are as long as the
	// program asked for.
	q.cap = verbs.QPCap{MaxSendWR: int(c.CapMaxSendWR), MaxRecvWR: int(c.CapMaxRecvWR),
		MaxSendSGE: int(c.CapMaxSendSGE), MaxRecvSGE: int(c.CapMaxRecvSGE), MaxInline: int(c.CapMaxInlineData)}
	q.send.init(q)
	q.send.all = init.SignalAll
	q.recv.init(d.ops.postRecv, h, q.cap.MaxRecvSGE)
	d.mu.Lock()
	d.qps[h], d.numbers[q.num] = q, q
	d.mu.Unlock()
	d.made(q)
	return q, nil
}

// makeQP calls the oldest function that takes all of the attributes: ibv_create_qp takes their first part.
func (d *device) makeQP(c *ibverbs.QPInitAttrEx, t verbs.QPType, p *pd) (uintptr, error) {
	if c.CompMask == 0 && t != verbs.XRCIni {
		h, errno := d.lib.CallErrno(d.lib.CreateQP, p.c, uintptr(unsafe.Pointer(c)))
		return h, madeOf(h, errno)
	}
	f := ibverbs.Ext(d.ctx, ibverbs.BackCreateQPEx)
	if f == 0 {
		return 0, lacking("create_qp", verbs.ErrNotSupported, "ibv_create_qp_ex")
	}
	if p != nil {
		c.CompMask |= ibverbs.MaskQPInitAttrPD
		c.PD = uint64(p.c)
	}
	h, errno := d.lib.CallErrno(f, d.ctx, uintptr(unsafe.Pointer(c)))
	return h, madeOf(h, errno)
}

func (q *qp) Num() verbs.QPN { return q.num }

// happened passes an event on, and remembers that the queue pair is in ERR.
func (q *qp) happened(t verbs.EventType) {
	switch t {
	case verbs.EventQPFatal, verbs.EventQPRequestError, verbs.EventQPAccessError, driver.EventQPBroken:
		q.mu.Lock()
		first := q.attr.State != verbs.StateError
		q.setState(verbs.StateError)
		q.mu.Unlock()
		if t == driver.EventQPBroken && !first {
			return
		}
	}
	q.events(t)
}

// known are the attributes that both sides name by the same bits, as a test holds.
const known = verbs.MaskRateLimit - 1

func (q *qp) Modify(a *verbs.QPAttr, mask verbs.QPMask) error {
	d := q.dev
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return verbs.ErrClosed
	}
	q.query()
	next, err := driver.CheckTransition(q.typ, q.attr.State, a, mask)
	if err != nil {
		return err
	}
	if next == verbs.StateRTR && d.attr.Transport == verbs.TransportIWARP {
		return fail("modify_qp", verbs.ErrNotSupported,
			"queue pairs of iWARP have no numbers on the wire: package cm connects them, by address and port")
	}
	c := new(ibverbs.QPAttr)
	*c = ibverbs.QPAttr{QPState: ibverbs.QPState(a.State), CurQPState: ibverbs.QPState(a.CurState),
		PathMTU: ibverbs.MTU(a.PathMTU), Qkey: uint32(a.QKey), RqPSN: uint32(a.RQPSN), SqPSN: uint32(a.SQPSN),
		DestQPNum: uint32(a.DestQPN), QPAccessFlags: accessOf(a.Access), PkeyIndex: a.PKeyIndex,
		MaxRDAtomic: a.MaxRdAtomic, MaxDestRDAtomic: a.MaxDestRdAtomic,
		MinRNRTimer: a.MinRNRTimer, PortNum: uint8(a.Port), Timeout: a.Timeout, RetryCnt: a.RetryCount,
		RNRRetry: a.RNRRetry}
	if a.SQDAsyncNotify {
		c.EnSqdAsyncNotify = 1
	}
	if mask&verbs.MaskAH != 0 {
		port := a.Port
		if mask&verbs.MaskPort == 0 {
			port = q.attr.Port
		}
		fillAH(ahOf(c), &a.AH, port)
	}
	if mask&verbs.MaskMaxRdAtomic != 0 {
		if c.MaxRDAtomic, err = depth("MaxRdAtomic", a.MaxRdAtomic, d.attr.MaxQPInitRdAtomic); err != nil {
			return err
		}
	}
	if mask&verbs.MaskMaxDestRdAtomic != 0 {
		if c.MaxDestRDAtomic, err = depth("MaxDestRdAtomic", a.MaxDestRdAtomic, d.attr.MaxQPRdAtomic); err != nil {
			return err
		}
	}
	r, errno := d.lib.CallErrno(d.lib.ModifyQP, q.c, uintptr(unsafe.Pointer(c)), uintptr(mask&known))
	if err := resultOf(r, errno); err != nil {
		if err == verbs.ErrInvalid {
			return fail("modify_qp", err, d.refused(a, mask,
				fmt.Sprintf("the device refuses %v to %v with %v", q.attr.State, next, mask)))
		}
		return err
	}
	if next == verbs.StateReset {
		q.send.out.reset()
	}
	q.remember(a, mask, next)
	return nil
}

// modifyC sets attributes that the connection manager has laid out.
func (q *qp) modifyC(c *ibverbs.QPAttr, mask verbs.QPMask, next verbs.QPState) error {
	d := q.dev
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return verbs.ErrClosed
	}
	r, errno := d.lib.CallErrno(d.lib.ModifyQP, q.c, uintptr(unsafe.Pointer(c)), uintptr(mask))
	err := resultOf(r, errno)
	if err == nil {
		q.setState(next)
		q.asked = verbs.AHAttr{}
		if mask&verbs.MaskDestQPN != 0 {
			q.attr.DestQPN, q.attr.AH = verbs.QPN(c.DestQPNum), ahFrom(ahOf(c))
		}
	}
	return err
}

// defaultDepth is how many READs and atomics verbs.QP.Connect has in flight if it is not told: where the
// device has fewer, these.
const defaultDepth = 16

func depth(name string, n uint8, most int) (uint8, error) {
	switch {
	case int(n) <= most:
		return n, nil
	case n == defaultDepth:
		return uint8(most), nil
	}
	return 0, fail("modify_qp", verbs.ErrInvalid, fmt.Sprintf("%s is %d, the device has 0 to %d", name, n, most))
}

// refused says which attribute a device has refused, if its tables tell.
func (d *device) refused(a *verbs.QPAttr, mask verbs.QPMask, otherwise string) string {
	port := 1
	if mask&verbs.MaskPort != 0 {
		if a.Port < 1 || a.Port > d.attr.Ports {
			return fmt.Sprintf("Port is %d, the device has 1 to %d", a.Port, d.attr.Ports)
		}
		port = a.Port
	}
	if mask&verbs.MaskAH != 0 && a.AH.Port != 0 {
		if a.AH.Port < 0 || a.AH.Port > d.attr.Ports {
			return fmt.Sprintf("AH.Port is %d, the device has 1 to %d", a.AH.Port, d.attr.Ports)
		}
		port = a.AH.Port
	}
	p, err := d.queryPort(port)
	if err != nil {
		return otherwise
	}
	if mask&verbs.MaskPKeyIndex != 0 && int(a.PKeyIndex) >= p.PKeys {
		return fmt.Sprintf("PKeyIndex is %d, the port has 0 to %d", a.PKeyIndex, p.PKeys-1)
	}
	if mask&verbs.MaskAH == 0 {
		return otherwise
	}
	switch {
	case !a.AH.Global() && p.Link == verbs.LinkEthernet:
		return "AH.DGID is not set: on Ethernet every path has one"
	case !a.AH.Global() && a.AH.DLID == 0:
		return "AH has neither DLID nor DGID"
	case a.AH.Global():
		rows, err := d.gids(port)
		if err == nil && !slices.ContainsFunc(rows, func(g verbs.GIDEntry) bool { return g.Index == a.AH.SGIDIndex }) {
			return fmt.Sprintf("AH.SGIDIndex is %d, and that row of the port's GID table is empty", a.AH.SGIDIndex)
		}
	}
	return otherwise
}

// ahOf returns the address vector within the attributes of a queue pair.
func ahOf(c *ibverbs.QPAttr) *ibverbs.AHAttr {
	return (*ibverbs.AHAttr)(unsafe.Pointer(&c.AHAttrGRHDgid))
}

// ahFrom converts an address vector of C.
func ahFrom(c *ibverbs.AHAttr) verbs.AHAttr {
	a := verbs.AHAttr{DLID: c.Dlid, SL: c.SL, SrcPathBits: c.SrcPathBits, Port: int(c.PortNum)}
	if c.IsGlobal != 0 {
		a.DGID, a.FlowLabel, a.SGIDIndex, a.HopLimit, a.TrafficClass = c.GRHDgid, c.GRHFlowLabel, int(c.GRHSgidIndex),
			c.GRHHopLimit, c.GRHTrafficClass
	}
	return a
}

// remember keeps the attributes that Stats and Query return where the device does not.
func (q *qp) remember(a *verbs.QPAttr, mask verbs.QPMask, next verbs.QPState) {
	to := &q.attr
	if next == verbs.StateReset {
		*to = verbs.QPAttr{}
	}
	q.setState(next)
	for _, f := range []struct {
		mask verbs.QPMask
		set  func()
	}{
		{verbs.MaskPort, func() { to.Port = a.Port }}, {verbs.MaskAH, func() { to.AH, q.asked = a.AH, a.AH }},
		{verbs.MaskDestQPN, func() { to.DestQPN = a.DestQPN }},
		{verbs.MaskAccess, func() { to.Access = a.Access }}, {verbs.MaskQKey, func() { to.QKey = a.QKey }},
		{verbs.MaskPKeyIndex, func() { to.PKeyIndex = a.PKeyIndex }},
		{verbs.MaskPathMTU, func() { to.PathMTU = a.PathMTU }},
	} {
		if mask&f.mask != 0 {
			f.set()
		}
	}
}

// query asks the device for attributes and state. Drivers of software that know of errors only in the
// kernel are asked, too.
func (q *qp) query() {
	c, init := new(ibverbs.QPAttr), new(ibverbs.QPInitAttrEx)
	r, errno := q.dev.lib.CallErrno(q.dev.lib.QueryQP, q.c, uintptr(unsafe.Pointer(c)), uintptr(known),
		uintptr(unsafe.Pointer(init)))
	if resultOf(r, errno) != nil {
		return
	}
	a := verbs.QPAttr{State: verbs.QPState(c.QPState), CurState: verbs.QPState(c.QPState),
		Access: verbs.Access(c.QPAccessFlags & (1<<8 - 1)), PKeyIndex: c.PkeyIndex, Port: int(c.PortNum),
		QKey: verbs.QKey(c.Qkey), PathMTU: verbs.MTU(c.PathMTU), Timeout: c.Timeout, RetryCount: c.RetryCnt,
		RNRRetry: c.RNRRetry, RQPSN: verbs.PSN(c.RqPSN), SQPSN: verbs.PSN(c.SqPSN),
		MaxRdAtomic: c.MaxRDAtomic, MaxDestRdAtomic: c.MaxDestRDAtomic, MinRNRTimer: c.MinRNRTimer,
		DestQPN: verbs.QPN(c.DestQPNum), AH: ahFrom(ahOf(c))}
	if asked := &q.asked; asked.DGID == a.AH.DGID && asked.DLID == a.AH.DLID { // without values for zeros
		a.AH = *asked
	}
	if a.State == verbs.StateReset {
		a = verbs.QPAttr{} // some devices keep the values that were set before
	}
	q.attr = a
	q.setState(a.State)
}

// setState is called with the lock held.
func (q *qp) setState(s verbs.QPState) {
	q.attr.State, q.attr.CurState = s, s
	q.state.Store(uint32(s))
}

func (q *qp) Query() verbs.QPAttr {
	if q.dev.enter() == nil {
		defer q.dev.leave()
		q.mu.Lock()
		defer q.mu.Unlock()
		if !q.gone {
			q.query()
		}
	}
	a := q.attr
	a.Cap = q.cap
	return a
}

// mayPost refuses work requests in a state in which some drivers would take them and do nothing. The kernel
// may have changed the state, as it does for iWARP, so it is asked first.
func (q *qp) mayPost(op string, least verbs.QPState) error {
	if q.closed.Load() {
		return verbs.ErrClosed
	}
	if verbs.QPState(q.state.Load()) >= least {
		return nil
	}
	if a := q.Query(); a.State < least {
		return fail(op, verbs.ErrState, fmt.Sprintf("the queue pair is in %v", a.State))
	}
	return nil
}

// Stats returns the statistics that the driver has without asking the device.
func (q *qp) Stats() (verbs.QPStats, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return verbs.QPStats{QPN: q.num, Type: q.typ, State: q.attr.State, DestQPN: q.attr.DestQPN, DestGID: q.attr.AH.DGID,
		DestLID: q.attr.AH.DLID, SendQueue: q.send.out.count(),
		QPCounts: metric.QPCounts{SentMessages: q.send.out.succeeded()}}, nil
}

func (q *qp) AttachMulticast(gid verbs.GID, lid uint16) error {
	return q.multicast(q.dev.lib.AttachMcast, group{gid, lid}, true)
}

func (q *qp) DetachMulticast(gid verbs.GID, lid uint16) error {
	return q.multicast(q.dev.lib.DetachMcast, group{gid, lid}, false)
}

func (q *qp) multicast(f uintptr, g group, attach bool) error {
	d := q.dev
	if d.attr.Caps&verbs.CapUDMulticast == 0 {
		return lacking("attach_mcast", verbs.ErrNotSupported, "multicast groups")
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return verbs.ErrClosed
	}
	if _, attached := q.groups[g]; !attach && !attached {
		return fail("detach_mcast", verbs.ErrInvalid, "the queue pair is not attached to this group")
	}
	gid := new(verbs.GID)
	*gid = g.gid
	r, errno := d.lib.CallErrno(f, q.c, uintptr(unsafe.Pointer(gid)), uintptr(g.lid))
	if err := resultOf(r, errno); err != nil {
		return err
	}
	if delete(q.groups, g); attach {
		q.groups[g] = struct{}{}
	}
	return nil
}

func (q *qp) Destroy() error {
	q.mu.Lock()
	attached := len(q.groups)
	q.mu.Unlock()
	if attached > 0 {
		return verbs.ErrBusy
	}
	return q.dev.end(q)
}

func (q *qp) destroy() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.gone {
		return nil
	}
	d := q.dev
	for g := range q.groups {
		gid := new(verbs.GID)
		*gid = g.gid
		d.lib.CallErrno(d.lib.DetachMcast, q.c, uintptr(unsafe.Pointer(gid)), uintptr(g.lid))
	}
	q.closed.Store(true)
	q.send.close()
	q.recv.close()
	d.mu.Lock()
	delete(d.qps, q.c)
	delete(d.numbers, q.num)
	d.mu.Unlock()
	r, errno := d.lib.CallErrno(d.lib.DestroyQP, q.c)
	err := destroyed(r, errno)
	q.gone = err == nil
	return err
}

func (q *qp) abandon() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gone = true // destroy has closed its queues
}

// xrcd is an XRC domain.
type xrcd struct {
	dev  *device
	c    uintptr // struct ibv_xrcd
	gone bool
}

func (d *device) OpenXRCD() (driver.XRCD, error) {
	f := ibverbs.Ext(d.ctx, ibverbs.BackOpenXRCD)
	if d.attr.Caps&verbs.CapXRC == 0 || f == 0 {
		return nil, lacking("open_xrcd", verbs.ErrNotSupported, "XRC")
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	init := &ibverbs.XRCDInitAttr{CompMask: ibverbs.MaskXRCDInitAttrFD | ibverbs.MaskXRCDInitAttrOflags, FD: ^uint32(0),
		Oflags: oCreate}
	c, errno := d.lib.CallErrno(f, d.ctx, uintptr(unsafe.Pointer(init)))
	if err := madeOf(c, errno); err != nil {
		return nil, err
	}
	x := &xrcd{dev: d, c: c}
	d.made(x)
	return x, nil
}

// oCreate is O_CREAT of C.
const oCreate = 0o100

func (x *xrcd) CreateTargetQP(init *verbs.QPInit, events func(verbs.EventType)) (driver.QP, error) {
	return x.dev.createQP(init, events, nil, x)
}

func (x *xrcd) Close() error { return x.dev.end(x) }

func (x *xrcd) destroy() error {
	if x.gone {
		return nil
	}
	r, errno := x.dev.lib.CallErrno(ibverbs.Ext(x.dev.ctx, ibverbs.BackCloseXRCD), x.c)
	err := destroyed(r, errno)
	x.gone = err == nil
	return err
}

func (x *xrcd) abandon() { x.gone = true }
