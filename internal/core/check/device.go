// SPDX-License-Identifier: Apache-2.0

package check

import (
	"sync"
	"weak"

	"github.com/ramjet-rdma/ramjet/internal/core/calllog"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Device checks a device. It implements driver.CallLog and driver.Checker.
type Device struct {
	c    *Checker
	next driver.CallLog // the log of calls; nil: none
	dev  *verbs.Device
	name string

	mu     sync.Mutex // of the fields below; a device's own lock may be taken while it is held
	known  objects
	posted map[uint64]*request // work requests that have no polled completion, by the ID that the device has
	last   uint64              // such an ID
	spare  reuse[request]      // work requests to be used again, which are empty
	lately [lately]named       // work requests that have ended
	reads  int                 // READs and atomics of them
	bounce bounces
	dead   deadKeys
	gids   []verbs.GIDEntry // of its first port
	grhs   headers

	waits  []*wait // for completion channels
	closed bool

	abandoned bool
}

// Watch has a device checked. It is for who has opened the device, before anybody else has it.
func (c *Checker) Watch(dev *verbs.Device) *Device {
	d := &Device{c: c, next: driver.CallsOf(dev), dev: dev, name: dev.Name(), known: newObjects(),
		posted: map[uint64]*request{}}
	d.gids, _ = driver.DeviceOf(dev).GIDs(1) // without them other processes tell nothing
	driver.CheckWith(dev, d, d)
	if w, ok := driver.DeviceOf(dev).(driver.AccessWatcher); ok {
		w.WatchAccesses(watcher{c.history, d})
	}
	c.mu.Lock()
	if c.handles == nil && c.records && c.record == nil {
		c.record = openRecord()
	}
	c.devices = append(c.devices, weak.Make(d))
	c.mu.Unlock()
	return d
}

// Wants reports whether the log of calls wants a call of the data path, or the checker does.
func (d *Device) Wants(call string) bool {
	switch call {
	case "ibv_req_notify_cq":
		return true
	case "ibv_get_cq_event": // for C programs the libraries wait
		return d.c.handles == nil || d.next != nil && d.next.Wants(call)
	}
	return d.next != nil && d.next.Wants(call)
}

type (
	end  = func(result any, err error, out ...driver.CallArg)
	done = func(result any, out []driver.CallArg) // a call has succeeded
)

// Begin looks at a call that begins, and passes it to the log.
func (d *Device) Begin(call string, args ...driver.CallArg) end {
	logged := func(any, error, ...driver.CallArg) {}
	if d.next != nil && (!calllog.DataPath(call) || d.next.Wants(call)) {
		logged = d.next.Begin(call, args...)
	}
	if call == "ibv_close_device" {
		d.c.history.settle()
	}
	d.c.flush()
	if b := d.c.history.board; b != nil && call == "ibv_modify_qp" &&
		args[2].Value.(verbs.QPMask)&verbs.MaskDestQPN != 0 {
		b.Refresh()
	}
	if call == "ibv_get_cq_event" && d.c.handles == nil {
		waited := d.waiting(args[0].Value.(*verbs.CompChannel))
		return func(result any, err error, out ...driver.CallArg) {
			waited(result, err, out...)
			logged(result, err, out...)
		}
	}
	done := d.begin(call, args)
	if done == nil {
		return logged
	}
	return func(result any, err error, out ...driver.CallArg) {
		if err == nil {
			done(result, out)
		}
		logged(result, err, out...)
	}
}

// Abandon has the calls of a device checked no more: its process was killed, and leaves everything as it is.
func (d *Device) Abandon() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed, d.abandoned = true, true
}

// begin checks a call. What it returns is called once the call has succeeded; nil: nothing is left to do then.
func (d *Device) begin(call string, args []driver.CallArg) done {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.abandoned {
		return nil
	}
	if len(args) > 0 && !breaks(call, args) {
		d.used(call, args[0].Value)
	}
	switch call {
	case "ibv_alloc_pd":
		return d.created("pd", nil, 0)
	case "ibv_reg_mr", "ibv_alloc_mr", "ibv_reg_shared_mr":
		return d.created("mr", args[0].Value, args[len(args)-1].Value.(verbs.Access))
	case "ibv_alloc_mw":
		return d.created("mw", args[0].Value, 0)
	case "ibv_create_ah":
		return d.created("ah", args[0].Value, 0)
	case "ibv_create_comp_channel":
		return d.created("channel", nil, 0)
	case "ibv_create_cq":
		asked, channel := args[1].Value.(int), args[2].Value
		created := d.created("cq", nil, 0)
		return func(result any, _ []driver.CallArg) {
			created(result, nil)
			d.newCQ(result.(*verbs.CQ), asked, channel.(*verbs.CompChannel))
		}
	case "ibv_create_srq":
		return d.created("srq", args[0].Value, 0)
	case "ibv_create_qp":
		created := d.created("qp", args[0].Value, 0)
		init := args[1].Value.(verbs.QPInit)
		return func(result any, _ []driver.CallArg) {
			created(result, nil)
			d.newQP(result.(*verbs.QP), init)
		}
	case "ibv_modify_qp":
		if q := d.known.qps[args[0].Value.(*verbs.QP).Num()]; q != nil {
			d.ending(q)
		}
		return d.modified(args[0].Value.(*verbs.QP), args[1].Value.(verbs.QPAttr), args[2].Value.(verbs.QPMask))
	case "ibv_rereg_mr":
		d.leaves(args[0].Value.(*verbs.MR), "reregistered")
		return func(any, []driver.CallArg) {
			d.rereg(args[0].Value.(*verbs.MR), args[1].Value.(verbs.ReregFlags), args[2].Value.(*verbs.PD),
				args[5].Value.(verbs.Access))
		}
	case "ibv_dereg_mr":
		d.reachedUnmapped(args[0].Value.(*verbs.MR))
		d.leaves(args[0].Value.(*verbs.MR), "deregistered")
		return d.destroyed(args[0].Value)
	case "ibv_destroy_qp":
		qp := args[0].Value.(*verbs.QP)
		d.unread(qp)
		if q := d.known.qps[qp.Num()]; q != nil && q.qp == qp {
			d.ending(q)
			d.leftUnmapped(q)
		}
		gone := d.destroyed(qp)
		return func(any, []driver.CallArg) {
			gone(nil, nil)
			d.forget(qp)
		}
	case "ibv_dealloc_pd":
		d.freeBounces(args[0].Value.(*verbs.PD))
		return d.destroyed(args[0].Value)
	case "ibv_destroy_cq", "ibv_destroy_srq", "ibv_destroy_ah", "ibv_dealloc_mw", "ibv_destroy_comp_channel":
		return d.destroyed(args[0].Value)
	case "ibv_resize_cq":
		cq, n := args[0].Value.(*verbs.CQ), args[1].Value.(int)
		place := at("It was resized")
		return func(any, []driver.CallArg) { d.resized(cq, n, place) }
	case "ibv_req_notify_cq":
		d.armed(args[0].Value.(*verbs.CQ))
	case "ibv_close_device":
		d.closing()
	}
	return nil
}

// breaks reports whether a call moves a queue pair to ERR. Connection managers do so as a connection ends, to one that
// the program may have destroyed.
func breaks(call string, args []driver.CallArg) bool {
	if call != "ibv_modify_qp" {
		return false
	}
	attr, mask := args[1].Value.(verbs.QPAttr), args[2].Value.(verbs.QPMask)
	return mask&verbs.MaskState != 0 && attr.State == verbs.StateError
}

// exit reports what is left of the device as the program ends.
func (d *Device) exit() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	for _, r := range inOrder(d.posted) {
		d.unprotect(r)
	}
	d.closing()
	if d.c.handles == nil {
		d.left()
	}
}

// ending reports mistakes that show as a queue pair changes or ends.
func (d *Device) ending(q *queuePair) {
	d.refused(q)
	d.notReady(q, 0)
}

// closing reports completions with errors that nobody has polled, as nobody can any more.
func (d *Device) closing() {
	for _, q := range inOrder(d.known.qps) {
		d.unread(q.qp)
		d.ending(q)
		if q.packets != nil {
			q.packets.Close()
		}
	}
	for _, o := range d.known.all {
		d.drop(o)
	}
	d.closed = true
}
