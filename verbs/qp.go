// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/ramjet-rdma/ramjet/verbs/internal/hook"
)

// Defaults of the fields of [QPCap] that are zero in a [QPInit].
const (
	DefaultMaxSendWR = 64
	DefaultMaxRecvWR = 64
	DefaultMaxSGE    = 4
)

// QPCap are the sizes of a queue pair's queues.
type QPCap struct {
	MaxSendWR  int // outstanding send work requests
	MaxRecvWR  int // outstanding receives; none with an SRQ
	MaxSendSGE int
	MaxRecvSGE int
	MaxInline  int // bytes
}

// QPInit has the parameters of a new queue pair. Sizes that are zero stand for the defaults, unless Exact is set.
type QPInit struct {
	Type      QPType
	SendCQ    *CQ
	RecvCQ    *CQ
	SRQ       *SRQ
	Cap       QPCap
	SignalAll bool // every send work request completes with a WC
	// Exact has sizes of zero taken as zero, as ibv_create_qp takes them, and not as the defaults.
	Exact bool
	// BlockSelfMulticast keeps the queue pair from receiving its own multicasts.
	BlockSelfMulticast bool
	// Congestion is the congestion control of an RC or XRC queue pair in software, with parameters, such as
	// "dcqcn,rpg_ai_rate=20"; empty: the device's. See docs/congestion.md.
	Congestion string
}

// QP is a queue pair (IBTA 10.2.4).
type QP struct {
	object
	dev   *Device
	drv   qpDriver
	init  QPInit
	watch *atomic.Pointer[func(EventType)]
}

// CreateQP creates a queue pair in the RESET state.
func (pd *PD) CreateQP(init QPInit) (*QP, error) {
	create := pd.drv.CreateQP
	if init.Type == XRCTgt {
		create = func(*QPInit, func(EventType)) (qpDriver, error) {
			return nil, opErr("create_qp", ErrInvalid, "an XRC target is created from its XRCD")
		}
	}
	return newQP(pd.dev, init, create, &pd.object, callArg{"pd", pd})
}

// newQP creates a queue pair of an owner, a protection domain or an XRC domain, which parent names for the log.
func newQP(dev *Device, init QPInit, create func(*QPInit, func(EventType)) (qpDriver, error), owner *object,
	parent callArg) (*QP, error) {
	if dev.calls == nil {
		return makeQP(dev, init, create, owner)
	}
	end := dev.calls.Begin("ibv_create_qp", parent, callArg{"attr", init})
	qp, err := makeQP(dev, init, create, owner)
	if err != nil {
		end(nil, err)
		return nil, err
	}
	end(qp, nil, append([]callArg{{"qp_num", qp.Num()}}, dev.whose()...)...)
	return qp, nil
}

func makeQP(dev *Device, init QPInit, create func(*QPInit, func(EventType)) (qpDriver, error),
	owner *object) (*QP, error) {
	const op = "create_qp"
	if err := checkQPInit(op, dev, &init); err != nil {
		return nil, err
	}
	watch := &atomic.Pointer[func(EventType)]{}
	qp := &QP{dev: dev, init: init, watch: watch}
	deps := []*object{owner}
	if init.SendCQ != nil {
		deps = append(deps, &init.SendCQ.object)
	}
	if init.RecvCQ != nil {
		deps = append(deps, &init.RecvCQ.object)
	}
	if init.SRQ != nil {
		deps = append(deps, &init.SRQ.object)
	}
	if err := qp.use(op, deps...); err != nil {
		return nil, err
	}
	self, queue := weak.Make(qp), dev.events
	events := func(t EventType) {
		if t != hook.EventQPBroken {
			queue.put(queuedEvent{typ: t, qp: self})
		}
		if f := watch.Load(); f != nil {
			(*f)(t)
		}
	}
	var err error
	if qp.drv, err = create(&init, events); err != nil {
		qp.unuse()
		return nil, wrap(op, err)
	}
	return qp, nil
}

func checkQPInit(op string, dev *Device, q *QPInit) error {
	if q.Type < RC || q.Type > XRCTgt {
		return opErr(op, ErrInvalid, "Type is not set: RC, UC, UD or XRC")
	}
	sends, recvs := q.Type != XRCTgt, q.Type <= UD
	if sends && q.SendCQ == nil {
		return opErr(op, ErrInvalid, "SendCQ is not set")
	}
	if recvs && q.RecvCQ == nil {
		return opErr(op, ErrInvalid, "RecvCQ is not set")
	}
	if !recvs && q.SRQ != nil {
		return opErr(op, ErrInvalid, "an XRC queue pair has no SRQ of its own: senders name one")
	}
	for _, cq := range []*CQ{q.SendCQ, q.RecvCQ} {
		if cq != nil && cq.dev != dev {
			return opErr(op, ErrInvalid, "a completion queue of another device")
		}
	}
	if q.SRQ != nil && q.SRQ.dev != dev {
		return opErr(op, ErrInvalid, "a shared receive queue of another device")
	}
	for _, f := range []struct {
		name string
		v    *int
		def  int
		max  int
		used bool
	}{
		{"MaxSendWR", &q.Cap.MaxSendWR, DefaultMaxSendWR, dev.Query().MaxQPWR, sends},
		{"MaxRecvWR", &q.Cap.MaxRecvWR, DefaultMaxRecvWR, dev.Query().MaxQPWR, recvs && q.SRQ == nil},
		{"MaxSendSGE", &q.Cap.MaxSendSGE, DefaultMaxSGE, dev.Query().MaxSGE, sends},
		{"MaxRecvSGE", &q.Cap.MaxRecvSGE, DefaultMaxSGE, dev.Query().MaxSGE, recvs && q.SRQ == nil},
		{"MaxInline", &q.Cap.MaxInline, min(256, dev.Query().MaxInline), dev.Query().MaxInline, sends},
	} {
		switch {
		case !f.used:
			*f.v = 0
		case *f.v < 0 || *f.v > f.max:
			return opErr(op, ErrInvalid, fmt.Sprintf("%s is %d, the device has 0 to %d", f.name, *f.v, f.max))
		case *f.v == 0 && !q.Exact:
			*f.v = f.def
		}
	}
	return nil
}

// Num returns the queue pair number.
func (qp *QP) Num() QPN { return qp.drv.Num() }

// Type returns the transport service.
func (qp *QP) Type() QPType { return qp.init.Type }

// Device returns the device of the queue pair.
func (qp *QP) Device() *Device { return qp.dev }

// Modify changes the attributes that mask names, usually including the state (IBTA 10.3.1,
// 11.2.5.2). If mask lacks an attribute that the transition requires, or has one that it does not
// allow, the error names it and nothing is changed.
func (qp *QP) Modify(attr QPAttr, mask QPMask) error {
	if qp.dev.calls == nil {
		return wrap("modify_qp", qp.drv.Modify(&attr, mask))
	}
	end := qp.dev.calls.Begin("ibv_modify_qp", callArg{"qp", qp}, callArg{"attr", attr}, callArg{"attr_mask", mask})
	err := wrap("modify_qp", qp.drv.Modify(&attr, mask))
	end(nil, err)
	return err
}

// Query returns the current attributes, with the sizes of the queues in Cap.
func (qp *QP) Query() QPAttr { return qp.drv.Query() }

// Stats returns the state of the queue pair and its measurements. Like [Device.Metrics] it waits for
// nothing that the device does.
func (qp *QP) Stats() (QPStats, error) {
	s, err := qp.drv.Stats()
	return s, wrap("qp_stats", err)
}

// State returns the current state.
func (qp *QP) State() QPState { return qp.drv.Query().State }

// PostSend posts one send work request. A lone message is sent at once.
func (qp *QP) PostSend(wr *SendWR) error {
	if qp.dev.calls != nil {
		_, err := qp.postSend("ibv_post_send", one(wr), false)
		return err
	}
	_, err := qp.drv.PostSend(one(wr))
	return postSendError(err)
}

// PostSendList posts work requests in order, in one step; it returns how many were posted
// and the error of the first that was not.
func (qp *QP) PostSendList(wrs []SendWR) (int, error) {
	if qp.dev.calls != nil {
		return qp.postSend("ibv_post_send", wrs, false)
	}
	n, err := qp.drv.PostSend(wrs)
	return n, postSendError(err)
}

// PostSendAll posts work requests in order, in one step; if one of them cannot be posted,
// none is (ibv_wr_start to ibv_wr_complete).
func (qp *QP) PostSendAll(wrs []SendWR) error {
	if qp.dev.calls != nil {
		_, err := qp.postSend("ibv_wr_complete", wrs, true)
		return err
	}
	return postSendError(qp.drv.PostSendAll(wrs))
}

// errSendQueueFull is one value, as programs that keep a queue full meet it often.
var errSendQueueFull error = &OpError{Op: "post_send", Err: ErrQueueFull,
	Detail: "poll a completion, then post again; signal at least one work request in each queue length, or no completion comes"}

// postSendError is wrap, and adds the remedy for a full queue.
func postSendError(err error) error {
	if err == ErrQueueFull {
		return errSendQueueFull
	}
	return wrap("post_send", err)
}

// PostRecv posts one receive.
func (qp *QP) PostRecv(wr *RecvWR) error {
	if qp.dev.calls != nil {
		_, err := qp.postRecv(one(wr))
		return err
	}
	_, err := qp.drv.PostRecv(one(wr))
	return wrap("post_recv", err)
}

// PostRecvList posts receives in order; it returns how many were posted and the error of
// the first that was not.
func (qp *QP) PostRecvList(wrs []RecvWR) (int, error) {
	if qp.dev.calls != nil {
		return qp.postRecv(wrs)
	}
	n, err := qp.drv.PostRecv(wrs)
	return n, wrap("post_recv", err)
}

// BindMW binds a type 1 memory window (ibv_bind_mw). It works through the send queue: the
// binding holds once the work request has completed, and the window's key is new then.
func (qp *QP) BindMW(id uint64, flags SendFlags, bind MWBindInfo) error {
	if bind.MW == nil || bind.MW.typ != MWType1 {
		return opErr("bind_mw", ErrInvalid, "not a type 1 window")
	}
	wr := SendWR{ID: id, Op: OpBindMW, Flags: flags, Bind: &bind}
	return qp.PostSend(&wr)
}

// AttachMulticast makes a UD queue pair receive datagrams sent to a multicast group.
func (qp *QP) AttachMulticast(gid GID, lid uint16) error {
	end := qp.dev.begin("ibv_attach_mcast", callArg{"qp", qp}, callArg{"gid", gid}, callArg{"lid", int(lid)})
	err := wrap("attach_mcast", qp.drv.AttachMulticast(gid, lid))
	end(nil, err)
	return err
}

// DetachMulticast ends AttachMulticast.
func (qp *QP) DetachMulticast(gid GID, lid uint16) error {
	end := qp.dev.begin("ibv_detach_mcast", callArg{"qp", qp}, callArg{"gid", gid}, callArg{"lid", int(lid)})
	err := wrap("detach_mcast", qp.drv.DetachMulticast(gid, lid))
	end(nil, err)
	return err
}

// watchEvents has f called with the queue pair's events: driver.Watch.
func (qp *QP) watchEvents(f func(EventType)) {
	if f == nil {
		qp.watch.Store(nil)
		return
	}
	qp.watch.Store(&f)
}

// Close destroys the queue pair. Work requests that have not completed vanish without a completion,
// and so do its completions that were not polled. It returns ErrBusy while the queue pair is
// attached to a multicast group.
func (qp *QP) Close() error {
	return qp.dev.logClose("ibv_destroy_qp", "qp", qp, func() error {
		return qp.close("destroy_qp", func() error {
			qp.watchEvents(nil)
			return wrap("destroy_qp", qp.drv.Destroy())
		})
	})
}

// one returns wr as a list of one, without a copy, and hidden from escape analysis: drivers retain
// no reference to work requests, so a program's literals stay on its stack.
func one[T any](wr *T) []T {
	p := uintptr(unsafe.Pointer(wr)) // nothing between here and the next line can move a stack
	return unsafe.Slice(*(**T)(unsafe.Pointer(&p)), 1)
}
