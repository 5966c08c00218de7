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
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Faulty is a device's faults. [Device] points to it while it has some, and asks it before calls, and about work
// requests and completions. Its methods are called with the lock of a lane held, which excludes all lanes while there
// are faults (laneLock).
type Faulty struct {
	dev      *Device
	Injector *faults.Injector
	start    clock.Time
	Dead     bool // the device has failed: nothing is sent or received

	completes bool // there are faults of completions
	lates     bool // of late ones
	posts     bool // there are events that come with work requests
	Unready   bool // there are messages that find no receive

	moments []*Timer
	events  []verbs.EventType // of the port, to be delivered; the first is being delivered
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

// alteration is the change that a fault makes to it.
type alteration struct {
	id     uint64 // the program's
	status verbs.Status
}

// heldCompletions are completions of a queue that come later, in their order.
type heldCompletions struct {
	list  []heldCompletion
	timer Timer
}

type heldCompletion struct {
	at clock.Time
	queue.Completion
}

// SetFaults replaces the device's faults; nil: it has none any more. Completions that were held back come at once.
func (d *Device) SetFaults(in *faults.Injector) error {
	if in != nil {
		for _, f := range in.Faults() {
			if why := d.fabric.RefusesFault(&f); why != "" {
				return fmt.Errorf("%s: the fault `%s`: %w: %s", d.Attr.Name, &f, verbs.ErrNotSupported, why)
			}
		}
	}
	d.Lock()
	if d.Closed.Load() {
		d.Unlock()
		return verbs.ErrClosed
	}
	for _, l := range d.Lanes {
		l.NewTime()
	}
	before := d.endFaults()
	if before != nil {
		before.End()
	}
	switch {
	case in == nil:
	case len(in.Faults()) > 0:
		in.Carry(before)
		d.beginFaults(in)
	case before != nil:
		in.Carry(before)
		d.cleared.Store(in)
		in.Begin()
	}
	d.Unlock()
	for _, l := range d.Lanes {
		l.wakeLoop()
	}
	return nil
}

// Faults returns the device's faults, or else what has the counts of those that it has had; nil: there were none. They
// have counted every fault whose event the program has seen.
func (d *Device) Faults() *faults.Injector {
	if d.injector() == nil {
		return nil
	}
	d.Lane.Mu.Lock() // an event is counted once its receiver is known
	defer d.Lane.Mu.Unlock()
	return d.injector()
}

// injector is Faults while it is no matter whether the last event is counted.
func (d *Device) injector() *faults.Injector {
	if in := d.cleared.Load(); in != nil {
		return in
	}
	if x := d.faulty.Load(); x != nil {
		return x.Injector
	}
	return nil
}

// beginFaults takes over faults.
func (d *Device) beginFaults(in *faults.Injector) {
	x := &Faulty{dev: d, Injector: in, start: d.Lane.PassTime(), altered: map[token]alteration{},
		broken: map[verbs.QPN]bool{},
		held:   map[*queue.CQ]*heldCompletions{}}
	x.completes = in.Has(func(k faults.Kind) bool { return k == faults.Complete })
	x.lates = in.Has(func(k faults.Kind) bool { return k == faults.Late })
	x.posts = in.Has(func(k faults.Kind) bool { return k == faults.Raise || k == faults.Disconnect })
	x.Unready = in.Has(func(k faults.Kind) bool { return k == faults.RNR })
	for _, m := range in.Moments() {
		t := &Timer{}
		t.Fire = func() { x.come(m) }
		d.Lane.Timers.Set(t, x.start+clock.Time(m.At))
		x.moments = append(x.moments, t)
	}
	d.faulty.Store(x)
	d.fabric.Impair(x)
	in.Begin()
	d.Lane.WakeForTimer()
}

// endFaults ends the faults, and returns what says how often they have struck; nil: there were none.
func (d *Device) endFaults() *faults.Injector {
	in := d.injector()
	d.cleared.Store(nil)
	x := d.faulty.Load()
	if x == nil {
		return in
	}
	for _, t := range x.moments {
		d.Lane.Timers.Stop(t)
	}
	for _, h := range x.held {
		d.Lane.Timers.Stop(&h.timer)
		for i := range h.list {
			d.Lane.push(&h.list[i].Completion)
		}
	}
	for t, a := range x.altered { // which will complete as they are
		x.altered[t] = alteration{id: a.id}
	}
	d.fabric.Impair(nil)
	d.faulty.Store(nil)
	if len(x.altered) > 0 { // they have IDs of ours
		d.beginRest(x)
	}
	return in
}

// beginRest keeps the part of the faults that restores the IDs of work requests that have not completed.
func (d *Device) beginRest(x *Faulty) {
	d.faulty.Store(&Faulty{dev: d, Injector: faults.NewInjector(&faults.Set{}, d.Attr.Name, nil), start: x.start,
		completes: true, altered: x.altered, tokens: x.tokens, broken: x.broken,
		held: map[*queue.CQ]*heldCompletions{}})
}

// Since returns how long the faults have been there, in the pass of a lane.
func (x *Faulty) Since(l *Lane) time.Duration { return time.Duration(l.PassTime() - x.start) }

// now is Since for calls outside of a pass.
func (x *Faulty) now(l *Lane) time.Duration {
	l.NewTime()
	return x.Since(l)
}

// refuses returns the error of a call that is to fail; nil: it is to go on.
func (d *Device) refuses(call string, q *QP) error {
	x := d.faulty.Load()
	if x == nil {
		return nil
	}
	return x.refuses(call, q)
}

func (x *Faulty) refuses(call string, q *QP) error {
	if x.Dead {
		return &verbs.OpError{Op: call, Err: syscall.EIO, Detail: "the device has failed: DEVICE_FATAL was injected"}
	}
	l := &x.dev.Lane
	if q != nil {
		l = q.lane
	}
	return x.Injector.Call(call, x.QPOf(q), x.now(l))
}

// FailCall is refuses for calls that do not have the lock.
func (d *Device) FailCall(call string) error {
	if d.faulty.Load() == nil {
		return nil
	}
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	return d.refuses(call, nil)
}

// Rejects reports whether a request for a connection is to be rejected, and why.
func (d *Device) Rejects(way faults.Way, peer netip.Addr) (reason uint16, yes bool) {
	if d.faulty.Load() == nil {
		return 0, false
	}
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	x := d.faulty.Load()
	if x == nil {
		return 0, false
	}
	return x.Injector.Rejects(way, peer.Unmap().WithZone(""), x.now(&d.Lane))
}

func (x *Faulty) QPOf(q *QP) faults.QP {
	if q == nil {
		return faults.QP{}
	}
	return faults.QP{Num: uint32(q.protocol.Number()), Ordinal: q.ordinal}
}

// QPNumbered is qpOf for a number.
func (x *Faulty) QPNumbered(n verbs.QPN) faults.QP {
	if q := x.dev.QPs[n]; q != nil {
		return x.QPOf(q.Common())
	}
	return faults.QP{Num: uint32(n)}
}

// opNames are the operations as faults name them.
var opNames = [...]string{verbs.WCSend: "send", verbs.WCWrite: "write", verbs.WCRead: "read",
	verbs.WCCompareSwap: "compare_swap", verbs.WCFetchAdd: "fetch_add", verbs.WCBindMW: "bind_mw",
	verbs.WCLocalInv: "local_inv", verbs.WCAtomicWrite: "atomic_write", verbs.WCFlush: "flush",
	verbs.WCRecv: "recv", verbs.WCRecvWriteImm: "recv"}

// post posts work requests of a queue pair, some of which are to complete otherwise than they do by themselves.
func (x *Faulty) post(q *QP, wrs []verbs.SendWR, all bool) (int, error) {
	if err := x.refuses("post_send", q); err != nil {
		return 0, err
	}
	given := wrs
	var tokens []uint64
	var events []faults.Fault
	for i := range given {
		if x.posts {
			events = append(events, x.Injector.Posted(x.QPOf(q), x.Since(q.lane))...)
		}
		if !x.completes || given[i].Op < verbs.OpSend || given[i].Op > verbs.OpBindMW {
			continue
		}
		s := x.Injector.Completion(opNames[queue.CompletesAs(given[i].Op)], x.QPOf(q), x.Since(q.lane))
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
		q.lane.NewTime()
		q.self.Posted()
	}
	for i := range events {
		x.raise(events[i].Event, &events[i])
	}
	return n, err
}

// complete changes a completion, or holds it back. It reports whether it is to be delivered now, and then whether
// its queue pair fails by it.
func (x *Faulty) complete(l *Lane, c *queue.Completion) (now, fails bool) {
	to, wc := c.CQ, &c.WC
	q := x.dev.QPs[wc.QPN]
	if x.completes {
		fails = x.change(l, q, wc)
	}
	if !x.lates {
		return true, fails
	}
	late := x.Injector.Lateness(opNames[wc.Op], x.QPNumbered(wc.QPN), x.Since(l))
	h := x.held[to]
	if late == 0 && (h == nil || len(h.list) == 0) {
		return true, fails
	}
	if h == nil {
		h = &heldCompletions{}
		h.timer.Fire = func() { x.release(to) }
		x.held[to] = h
	}
	at := l.PassTime() + clock.Time(late)
	if n := len(h.list); n > 0 {
		at = max(at, h.list[n-1].at) // they stay in order
	}
	h.list = append(h.list, heldCompletion{at, *c})
	x.dev.Lane.Timers.SetBy(&h.timer, h.list[0].at)
	x.dev.Lane.WakeForTimer()
	return false, fails
}

// change gives a completion the status that a fault wants, and reports whether its queue pair fails by that.
func (x *Faulty) change(l *Lane, q QueuePair, wc *verbs.WC) bool {
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
		a.status = x.Injector.Completion("recv", x.QPNumbered(wc.QPN), x.Since(l))
	}
	if a.status == verbs.StatusSuccess {
		return false
	}
	*wc = verbs.WC{ID: wc.ID, Status: a.status, Op: wc.Op, QPN: wc.QPN, Timestamp: wc.Timestamp}
	if a.status == verbs.StatusWRFlushError && x.broken[wc.QPN] || q == nil {
		return false
	}
	c := q.Common()
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
		l.outbox.Failures = append(l.outbox.Failures, c.injected)
	}
	return true
}

// breakQP puts a queue pair into the error state.
func (x *Faulty) breakQP(n verbs.QPN) {
	q := x.dev.QPs[n]
	if q == nil {
		return
	}
	if x.fail(q) {
		q.Common().raise(driver.EventQPBroken)
	}
}

// fail puts a queue pair into the error state. It returns false if it is there already, or in the reset state.
func (x *Faulty) fail(q QueuePair) bool {
	c := q.Common()
	if s := c.protocol.State(); s == verbs.StateError || s == verbs.StateReset {
		return false
	}
	c.protocol.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.MaskState)
	q.Failed()
	c.lane.Touch(c)
	c.lane.Mu.Counted = true
	if len(x.dev.Lanes) > 1 {
		c.lane.NewTime() // it may not be the lane of this pass
		c.lane.wakeLoop()
	}
	return true
}

// renewed notes that a queue pair begins anew, or has ended.
func (x *Faulty) renewed(q *QP) {
	delete(x.broken, q.protocol.Number())
	q.injected = nil
}

// release delivers the completions of a queue whose time has come.
func (x *Faulty) release(to *queue.CQ) {
	h, now := x.held[to], x.dev.Lane.PassTime()
	n := 0
	for n < len(h.list) && h.list[n].at <= now {
		x.dev.Lane.push(&h.list[n].Completion)
		n++
	}
	h.list = append(h.list[:0], h.list[n:]...)
	if len(h.list) > 0 {
		x.dev.Lane.Timers.Set(&h.timer, h.list[0].at)
		return
	}
	delete(x.held, to)
}

// come raises the event of a fault that is due at a time.
func (x *Faulty) come(m faults.Moment) {
	t, f := m.Event()
	x.Injector.Came(m, x.Since(&x.dev.Lane), x.raise(t, &f))
	x.dev.Lane.Mu.Counted = true
}

// raise raises an event on the objects that a fault selects. It returns false if there is nothing.
func (x *Faulty) raise(t verbs.EventType, f *faults.Fault) (found bool) {
	d := x.dev
	switch faults.Owner(t) {
	case faults.OfQP:
		for _, q := range d.QPs {
			c := q.Common()
			if f.QPN != 0 && f.QPN != uint32(q.Num()) || f.Ordinal != 0 && f.Ordinal != c.ordinal {
				continue
			}
			if t == driver.EventQPBroken && c.stats.Type == verbs.UD {
				continue
			}
			fails := t == driver.EventQPBroken || t == verbs.EventQPFatal || t == verbs.EventQPAccessError ||
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
			x.Dead = true
			d.fabric.Impair(x)
		}
		x.tell(t)
	}
	for _, l := range d.Lanes {
		l.Deliver()
	}
	return found
}

// tell passes an event of the port on, behind those before it. The program's handler may call into the device.
func (x *Faulty) tell(t verbs.EventType) {
	x.events = append(x.events, t)
	if len(x.events) > 1 {
		return
	}
	go func() {
		for more := true; more; {
			x.dev.Lane.Mu.Lock()
			next := x.events[0]
			x.dev.Lane.Mu.Unlock()
			x.dev.event(next, 1)
			x.dev.Lane.Mu.Lock()
			x.events = x.events[1:]
			more = len(x.events) > 0
			x.dev.Lane.Mu.Unlock()
		}
	}()
}

// down reports whether faults keep the port down.
func (d *Device) down() bool {
	x := d.faulty.Load()
	return x != nil && x.Injector.Down(time.Duration(d.Lane.Now()-x.start))
}

// faultMetrics returns how often faults have struck.
func (d *Device) faultMetrics() (list []metric.Metric) {
	in := d.injector()
	if in == nil {
		return nil
	}
	for _, c := range in.Counts() {
		if c.QPN != 0 {
			continue
		}
		list = append(list, metric.Metric{Name: "injected_faults", Unit: metric.UnitEvents,
			Help: "faults that were injected on request", Value: c.Struck,
			Labels: []metric.Label{{Name: "fault", Value: c.Kind}}})
	}
	return list
}

// NoLIDs is why a fault that names a LID is refused.
const NoLIDs = "peers have no LIDs here: use peer"

// RetryTime is the delay before packets that the port could not take are tried again.
const RetryTime = clock.Time(100 * time.Microsecond)
