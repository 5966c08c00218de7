// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// faulty is a device's faults. [Device] points to it while it has some, and asks it before calls, and about work
// requests and completions. Its methods are called with the device's lock held.
type faulty struct {
	dev   *Device
	in    *faults.Injector
	start clock.Time
	dead  bool // the device has failed: nothing is sent or received

	completes bool // there are faults of completions
	lates     bool // of late ones
	posts     bool // there are events that come with work requests
	unready   bool // there are messages that find no receive

	moments []*timer
	untold  []verbs.EventType // of the port; the first is being told
	altered map[token]alteration
	tokens  uint64
	broken  map[verbs.QPN]bool // queue pairs whose sends that follow are flushed
	held    map[*queue.CQ]*heldCompletions
}

// token stands for a posted work request whose completion is to be changed: it has a number of ours as its ID.
type token struct {
	qpn verbs.QPN
	id  uint64
}

// alteration is what becomes of it.
type alteration struct {
	id     uint64 // the program's
	status verbs.Status
}

// heldCompletions are completions of a queue that come later, in their order.
type heldCompletions struct {
	list  []heldCompletion
	timer timer
}

type heldCompletion struct {
	at clock.Time
	queue.Completion
}

// SetFaults replaces the device's faults; nil: it has none any more. What was held back comes at once.
func (d *Device) SetFaults(in *faults.Injector) error {
	if in != nil {
		for _, f := range in.Faults() {
			if why := d.fabric.refusesFault(&f); why != "" {
				return fmt.Errorf("%s: the fault `%s`: %w: %s", d.attr.Name, &f, verbs.ErrNotSupported, why)
			}
		}
	}
	d.lane.mu.Lock()
	if d.lane.closed {
		d.lane.mu.Unlock()
		return verbs.ErrClosed
	}
	d.lane.newTime()
	d.endFaults()
	if in != nil && len(in.Faults()) > 0 {
		d.beginFaults(in)
	}
	d.lane.mu.Unlock()
	d.lane.wakeLoop()
	return nil
}

// Faults returns the device's faults; nil: there are none. They have counted every fault whose event the program has seen.
func (d *Device) Faults() *faults.Injector {
	if d.faulty.Load() == nil {
		return nil
	}
	d.lane.mu.Lock() // an event is counted once it is known whom it went to
	defer d.lane.mu.Unlock()
	if x := d.faulty.Load(); x != nil {
		return x.in
	}
	return nil
}

// beginFaults takes over faults.
func (d *Device) beginFaults(in *faults.Injector) {
	x := &faulty{dev: d, in: in, start: d.lane.passTime(), altered: map[token]alteration{}, broken: map[verbs.QPN]bool{},
		held: map[*queue.CQ]*heldCompletions{}}
	x.completes = in.Has(func(k faults.Kind) bool { return k == faults.Complete })
	x.lates = in.Has(func(k faults.Kind) bool { return k == faults.Late })
	x.posts = in.Has(func(k faults.Kind) bool { return k == faults.Raise || k == faults.Disconnect })
	x.unready = in.Has(func(k faults.Kind) bool { return k == faults.RNR })
	for _, m := range in.Moments() {
		t := &timer{}
		t.fire = func() { x.come(m) }
		d.lane.timers.set(t, x.start+clock.Time(m.At))
		x.moments = append(x.moments, t)
	}
	d.faulty.Store(x)
	d.fabric.impair(x)
	in.Begin()
	d.lane.wakeForTimer()
}

// endFaults ends the faults, and says how often they have struck.
func (d *Device) endFaults() {
	x := d.faulty.Load()
	if x == nil {
		return
	}
	for _, t := range x.moments {
		d.lane.timers.stop(t)
	}
	for _, h := range x.held {
		d.lane.timers.stop(&h.timer)
		for i := range h.list {
			d.lane.push(&h.list[i].Completion)
		}
	}
	for t, a := range x.altered { // which will complete as they are
		x.altered[t] = alteration{id: a.id}
	}
	d.fabric.impair(nil)
	d.faulty.Store(nil)
	if len(x.altered) > 0 { // they have IDs of ours
		d.beginRest(x)
	}
	x.in.Finish()
}

// beginRest keeps what restores the IDs of work requests that have not completed.
func (d *Device) beginRest(x *faulty) {
	d.faulty.Store(&faulty{dev: d, in: faults.NewInjector(&faults.Set{}, d.attr.Name, nil), start: x.start,
		completes: true, altered: x.altered, tokens: x.tokens, broken: x.broken,
		held: map[*queue.CQ]*heldCompletions{}})
}

// since returns how long the faults have been there.
func (x *faulty) since() time.Duration { return time.Duration(x.dev.lane.passTime() - x.start) }

// now is since for calls outside of a pass.
func (x *faulty) now() time.Duration {
	x.dev.lane.newTime()
	return x.since()
}

// refuses returns the error of a call that is to fail; nil: it is to go on.
func (d *Device) refuses(call string, q *qp) error {
	x := d.faulty.Load()
	if x == nil {
		return nil
	}
	return x.refuses(call, q)
}

func (x *faulty) refuses(call string, q *qp) error {
	if x.dead {
		return &verbs.OpError{Op: call, Err: syscall.EIO, Detail: "the device has failed: DEVICE_FATAL was injected"}
	}
	return x.in.Call(call, x.qpOf(q), x.now())
}

// FailCall is refuses for calls that do not have the lock.
func (d *Device) FailCall(call string) error {
	if d.faulty.Load() == nil {
		return nil
	}
	d.lane.mu.Lock()
	defer d.lane.mu.Unlock()
	return d.refuses(call, nil)
}

// Rejects reports whether a request for a connection is to be rejected, and why.
func (d *Device) Rejects(way faults.Way, peer netip.Addr) (reason uint16, yes bool) {
	if d.faulty.Load() == nil {
		return 0, false
	}
	d.lane.mu.Lock()
	defer d.lane.mu.Unlock()
	x := d.faulty.Load()
	if x == nil {
		return 0, false
	}
	return x.in.Rejects(way, peer.Unmap().WithZone(""), x.now())
}

func (x *faulty) qpOf(q *qp) faults.QP {
	if q == nil {
		return faults.QP{}
	}
	return faults.QP{Num: uint32(q.protocol.Number()), Ordinal: q.ordinal}
}

// qpNumbered is qpOf for a number.
func (x *faulty) qpNumbered(n verbs.QPN) faults.QP {
	if q := x.dev.qps[n]; q != nil {
		return x.qpOf(q.common())
	}
	return faults.QP{Num: uint32(n)}
}

// opNames are the operations as faults name them.
var opNames = [...]string{verbs.WCSend: "send", verbs.WCWrite: "write", verbs.WCRead: "read",
	verbs.WCCompareSwap: "compare_swap", verbs.WCFetchAdd: "fetch_add", verbs.WCBindMW: "bind_mw",
	verbs.WCLocalInv: "local_inv", verbs.WCAtomicWrite: "atomic_write", verbs.WCFlush: "flush",
	verbs.WCRecv: "recv", verbs.WCRecvWriteImm: "recv"}

// post posts work requests of a queue pair, some of which are to complete otherwise than they do by themselves.
func (x *faulty) post(q *qp, wrs []verbs.SendWR, all bool) (int, error) {
	if err := x.refuses("post_send", q); err != nil {
		return 0, err
	}
	given := wrs
	var tokens []uint64
	var events []faults.Fault
	for i := range given {
		if x.posts {
			events = append(events, x.in.Posted(x.qpOf(q), x.since())...)
		}
		if !x.completes || given[i].Op < verbs.OpSend || given[i].Op > verbs.OpBindMW {
			continue
		}
		s := x.in.Completion(opNames[queue.CompletesAs(given[i].Op)], x.qpOf(q), x.since())
		if s == verbs.StatusSuccess {
			continue
		}
		if tokens == nil {
			wrs, tokens = append([]verbs.SendWR(nil), given...), make([]uint64, len(given))
		}
		x.tokens++
		tokens[i] = x.tokens | 0xfa17<<48
		x.altered[token{q.protocol.Number(), tokens[i]}] = alteration{given[i].ID, s}
		wrs[i].ID = tokens[i]
		wrs[i].Flags |= verbs.Signaled // an error completes in any case
	}
	n, err := q.protocol.Post(wrs, all)
	for i := n; i < len(tokens); i++ {
		delete(x.altered, token{q.protocol.Number(), tokens[i]})
	}
	if n > 0 {
		q.lane.newTime()
		q.self.posted()
	}
	for i := range events {
		x.raise(events[i].Event, &events[i])
	}
	return n, err
}

// complete changes a completion, or holds it back. It reports whether it is to be delivered now, and then whether
// its queue pair fails by it.
func (x *faulty) complete(c *queue.Completion) (now, fails bool) {
	to, wc := c.CQ, &c.WC
	q := x.dev.qps[wc.QPN]
	if x.completes {
		fails = x.change(q, wc)
	}
	if !x.lates {
		return true, fails
	}
	late := x.in.Lateness(opNames[wc.Op], x.qpNumbered(wc.QPN), x.since())
	h := x.held[to]
	if late == 0 && (h == nil || len(h.list) == 0) {
		return true, fails
	}
	if h == nil {
		h = &heldCompletions{}
		h.timer.fire = func() { x.release(to) }
		x.held[to] = h
	}
	at := x.dev.lane.passTime() + clock.Time(late)
	if n := len(h.list); n > 0 {
		at = max(at, h.list[n-1].at) // they stay in order
	}
	h.list = append(h.list, heldCompletion{at, *c})
	x.dev.lane.timers.setBy(&h.timer, h.list[0].at)
	x.dev.lane.wakeForTimer()
	return false, fails
}

// change gives a completion the status that a fault wants, and reports whether its queue pair fails by that.
func (x *faulty) change(q queuePair, wc *verbs.WC) bool {
	key := token{wc.QPN, wc.ID}
	a, ours := x.altered[key]
	if ours {
		delete(x.altered, key)
		wc.ID = a.id
	}
	if wc.Status != verbs.StatusSuccess {
		return false
	}
	isRecv := wc.Op == verbs.WCRecv || wc.Op == verbs.WCRecvWriteImm
	switch {
	case x.broken[wc.QPN] && !isRecv:
		a.status = verbs.StatusWRFlushError
	case isRecv:
		a.status = x.in.Completion("recv", x.qpNumbered(wc.QPN), x.since())
	}
	if a.status == verbs.StatusSuccess {
		return false
	}
	*wc = verbs.WC{ID: wc.ID, Status: a.status, Op: wc.Op, QPN: wc.QPN, Timestamp: wc.Timestamp}
	if a.status == verbs.StatusWRFlushError && x.broken[wc.QPN] || q == nil {
		return false
	}
	c := q.common()
	if isRecv && c.stats.Type == verbs.UD {
		return false // as datagrams that are too long
	}
	x.broken[wc.QPN] = true
	if c.injected == nil {
		side := verbs.FailedSend
		if isRecv {
			side = verbs.FailedRecv
		}
		c.injected = &verbs.Failure{QPN: wc.QPN, Side: side, Status: wc.Status, Op: wc.Op, ID: wc.ID,
			Detail: "a fault was injected"}
		x.dev.lane.outbox.Failures = append(x.dev.lane.outbox.Failures, c.injected)
	}
	return true
}

// breakQP puts a queue pair into the error state.
func (x *faulty) breakQP(n verbs.QPN) {
	q := x.dev.qps[n]
	if q == nil {
		return
	}
	if x.fail(q) {
		x.dev.lane.mu.counted = true
		q.common().raise(verbs.EventQPBroken)
	}
}

// fail puts a queue pair into the error state. It returns false if it is there already, or in the reset state.
func (x *faulty) fail(q queuePair) bool {
	c := q.common()
	if s := c.protocol.State(); s == verbs.StateError || s == verbs.StateReset {
		return false
	}
	c.protocol.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.MaskState)
	q.failed()
	x.dev.lane.touch(c)
	return true
}

// renewed notes that a queue pair begins anew.
func (x *faulty) renewed(q *qp) {
	delete(x.broken, q.protocol.Number())
	q.injected = nil
}

// destroyed notes that a queue pair has ended.
func (x *faulty) destroyed(q *qp) {
	x.renewed(q)
	x.in.Forget(uint32(q.protocol.Number()))
}

// release delivers the completions of a queue whose time has come.
func (x *faulty) release(to *queue.CQ) {
	h, now := x.held[to], x.dev.lane.passTime()
	n := 0
	for n < len(h.list) && h.list[n].at <= now {
		x.dev.lane.push(&h.list[n].Completion)
		n++
	}
	h.list = append(h.list[:0], h.list[n:]...)
	if len(h.list) > 0 {
		x.dev.lane.timers.set(&h.timer, h.list[0].at)
		return
	}
	delete(x.held, to)
}

// come does what is due at a time.
func (x *faulty) come(m faults.Moment) {
	t, f := m.Event()
	x.in.Came(m, x.since(), x.raise(t, &f))
	x.dev.lane.mu.counted = true
}

// raise raises an event on what a fault selects. It returns false if there is nothing.
func (x *faulty) raise(t verbs.EventType, f *faults.Fault) (found bool) {
	d := x.dev
	switch faults.Owner(t) {
	case faults.OfQP:
		for _, q := range d.qps {
			c := q.common()
			if f.QPN != 0 && f.QPN != uint32(q.Num()) || f.Ordinal != 0 && f.Ordinal != c.ordinal {
				continue
			}
			if t == verbs.EventQPBroken && c.stats.Type == verbs.UD {
				continue
			}
			fails := t == verbs.EventQPBroken || t == verbs.EventQPFatal || t == verbs.EventQPAccessError ||
				t == verbs.EventQPRequestError
			if fails && !x.fail(q) {
				continue
			}
			c.raise(t)
			found = true
		}
	case faults.OfCQ:
		for _, c := range d.objects.cqs.All() {
			c.events.Error()
			found = true
		}
	case faults.OfSRQ:
		for _, s := range d.objects.srqs.All() {
			s.raise(t)
			found = true
		}
	default:
		found = true
		if t == verbs.EventDeviceFatal {
			x.dead = true
			d.fabric.impair(x)
		}
		x.tell(t)
	}
	d.lane.deliver()
	return found
}

// tell passes an event of the port on, behind those before it. Who follows events may call into the device.
func (x *faulty) tell(t verbs.EventType) {
	x.untold = append(x.untold, t)
	if len(x.untold) > 1 {
		return
	}
	go func() {
		for more := true; more; {
			x.dev.lane.mu.Lock()
			next := x.untold[0]
			x.dev.lane.mu.Unlock()
			x.dev.event(next, 1)
			x.dev.lane.mu.Lock()
			x.untold = x.untold[1:]
			more = len(x.untold) > 0
			x.dev.lane.mu.Unlock()
		}
	}()
}

// down reports whether faults keep the port down.
func (d *Device) down() bool {
	x := d.faulty.Load()
	return x != nil && x.in.Down(time.Duration(d.lane.now()-x.start))
}

// faultMetrics returns how often faults have struck.
func (d *Device) faultMetrics() (list []verbs.Metric) {
	x := d.faulty.Load()
	if x == nil {
		return nil
	}
	for _, c := range x.in.Counts() {
		if c.QPN != 0 {
			continue
		}
		list = append(list, verbs.Metric{Name: "injected_faults", Unit: verbs.UnitEvents,
			Help: "faults that were injected on request", Value: c.Struck,
			Labels: []verbs.MetricLabel{{Name: "fault", Value: c.Kind}}})
	}
	return list
}

// noLIDs is why a fault that names a LID is refused.
const noLIDs = "peers have no LIDs here: use peer"

// retryTime is when what is held back is tried again that the port could not take.
const retryTime = clock.Time(100 * time.Microsecond)
