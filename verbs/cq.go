// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
	"weak"
)

// DefaultSpin is how long [CQ.Wait] polls at most before it sleeps. Waking an idle processor takes longer
// than a round trip. Software devices learn whether polling pays, and sleep at once where it does not.
const DefaultSpin = 50 * time.Microsecond

// CQOptions are optional parameters of CreateCQ; nil stands for the zero value.
type CQOptions struct {
	Channel *CompChannel  // where completion events go; nil: only Wait sees them
	Spin    time.Duration // of Wait, at most; 0: DefaultSpin, negative: sleep at once

	// Notify is called at a completion event, after [CQ.ReqNotify], for programs that wait by means
	// of their own. It runs where the completion is generated: it must neither block nor use the
	// device.
	Notify func()

	// LockedThread says that the goroutines that poll are locked to their threads, as after
	// [runtime.LockOSThread] and in functions called from C. Poll then never yields to other
	// goroutines, which would cost such a thread tens of microseconds.
	LockedThread bool

	// NoTimestamps leaves [WC.Timestamp] zero. That saves a look at the clock where a device would
	// need none otherwise: about 20 ns of a work request that it carries out at once.
	NoTimestamps bool

	// Deferrable says that the queue's completions can wait for a few milliseconds while other queues of the device
	// are busy: for a control connection beside its data. Otherwise, when a [CQ.Wait] of another queue returns while
	// a program waits for this one, the device's goroutine moves data for it at once, which wakes a thread.
	Deferrable bool
}

// CQ is a completion queue (IBTA 10.2.6).
type CQ struct {
	object
	dev  *Device
	drv  cqDriver
	sig  *cqSignal
	spin time.Duration

	yields  yielder
	sleep   sleeping
	waiters atomic.Int32 // goroutines in Wait that no longer poll
}

// cqSignal is the object that a driver signals. It keeps neither the CQ nor the device alive.
type cqSignal struct {
	wake      chan struct{} // closed queues are woken too
	channel   *cqEvents     // nil: none
	notify    func()        // nil: none
	requested atomic.Bool   // for an event, by the program: Wait asks the driver, too
	self      weak.Pointer[CQ]
	closed    atomic.Bool
}

func (s *cqSignal) completion() {
	s.wakeUp()
	if s.disarm() {
		s.event()
	}
}

// disarm reports whether the program has asked for an event. It has one then.
func (s *cqSignal) disarm() bool {
	if !s.requested.Swap(false) {
		return false
	}
	if s.channel != nil {
		s.channel.armed.Add(-1)
	}
	return true
}

// event reports a completion event.
func (s *cqSignal) event() {
	if s.channel != nil {
		s.channel.put(s.self)
	}
	if s.notify != nil {
		s.notify()
	}
}

func (s *cqSignal) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// CreateCQ creates a completion queue for cqe completions that have not been polled.
func (d *Device) CreateCQ(cqe int, opt *CQOptions) (cq *CQ, err error) {
	const op = "create_cq"
	if d.calls != nil {
		var channel *CompChannel
		if opt != nil {
			channel = opt.Channel
		}
		end := d.calls.Begin("ibv_create_cq", callArg{"context", d}, callArg{"cqe", cqe}, callArg{"channel", channel})
		defer func() { end(cq, err) }()
	}
	if cqe <= 0 {
		return nil, opErr(op, ErrInvalid, fmt.Sprintf("a completion queue of %d entries", cqe))
	}
	if opt == nil {
		opt = &CQOptions{}
	}
	cq = &CQ{dev: d, spin: opt.Spin, yields: yielder{every: yieldsEvery(opt.LockedThread)},
		sig: &cqSignal{wake: make(chan struct{}, 1), notify: opt.Notify}}
	if cq.spin == 0 {
		cq.spin = DefaultSpin
	}
	cq.sig.self = weak.Make(cq)
	deps := []*object{&d.object}
	if ch := opt.Channel; ch != nil {
		if ch.dev != d {
			return nil, opErr(op, ErrInvalid, "a completion channel of another device")
		}
		deps = append(deps, &ch.object)
		cq.sig.channel = ch.events
	}
	if err := cq.use(op, deps...); err != nil {
		return nil, err
	}
	sig, events := cq.sig, d.events
	cq.drv, err = d.drv.CreateCQ(cqe, cqDriverEvents{
		Completion: sig.completion,
		Error: func() {
			events.put(queuedEvent{typ: EventCQError, cq: sig.self})
			sig.wakeUp()
			sig.event()
		},
	})
	if err != nil {
		cq.unuse()
		return nil, wrap(op, err)
	}
	if cq.drv.Yields() {
		cq.yields.every = 0
	}
	if s, ok := cq.drv.(sleeper); ok && s.Sleeps() {
		ready := func() bool { return cq.sig.closed.Load() || !cq.drv.Empty() || cq.drv.Err() != nil }
		cq.sleep.init(s, cq.spin, ready, nil)
	}
	if opt.NoTimestamps {
		cq.drv.OmitTimestamps()
	}
	if opt.Deferrable {
		cq.drv.Defer()
	}
	return cq, nil
}

// Device returns the device of the queue.
func (cq *CQ) Device() *Device { return cq.dev }

// Poll takes up to len(wcs) completions and returns how many. On software devices it also moves data: a program that
// polls needs no other thread for that. Now and then a poll that finds nothing yields to other goroutines, see
// [CQOptions].LockedThread. After 64 polls in a row that find nothing, and fewer on a crowded machine, a poll sleeps
// until something arrives, for at most 200 µs. Otherwise Poll never blocks.
func (cq *CQ) Poll(wcs []WC) int {
	n := cq.poll(wcs)
	if cq.dev.calls != nil {
		cq.polled(wcs[:n])
	}
	return n
}

func (cq *CQ) poll(wcs []WC) int {
	n := cq.drv.Poll(wcs)
	if n > 0 {
		cq.yields.found()
	} else {
		cq.yields.foundNothing()
	}
	return n
}

// Err returns ErrOverflow once completions were lost because the queue was full. The queue pairs of
// the queue are then in the error state.
func (cq *CQ) Err() error { return wrap("poll_cq", cq.drv.Err()) }

// Wait takes at least one and up to len(wcs) completions. It polls for a while, if that has
// paid lately, and then sleeps until one arrives or ctx ends. Each completion goes to one of the
// goroutines that wait.
func (cq *CQ) Wait(ctx context.Context, wcs []WC) (int, error) {
	n, err := cq.wait(ctx, wcs)
	if cq.dev.calls != nil {
		cq.polled(wcs[:n])
	}
	return n, err
}

func (cq *CQ) wait(ctx context.Context, wcs []WC) (int, error) {
	if n := cq.poll(wcs); n > 0 {
		return n, nil
	}
	if cq.spin > 0 && cq.sleep.drv == nil {
		for start := time.Now(); time.Since(start) < cq.spin; {
			for range 16 {
				if n := cq.poll(wcs); n > 0 {
					return n, nil
				}
			}
		}
	}
	cq.waiters.Add(1)
	n, err := cq.sleepUntil(ctx, wcs)
	if cq.waiters.Add(-1) > 0 {
		// One event was for all waiters. Another one takes the remaining completions, or requests the next event.
		cq.sig.wakeUp()
	}
	return n, err
}

// sleepUntil sleeps until it can take completions, or ctx ends, or there will be none any more.
func (cq *CQ) sleepUntil(ctx context.Context, wcs []WC) (int, error) {
	for {
		if cq.sleep.until(ctx) {
			if n := cq.drv.Poll(wcs); n > 0 {
				return n, nil
			}
			if err := ctx.Err(); err != nil {
				return 0, err
			}
		}
		if err := cq.drv.ReqNotify(false); err != nil {
			return 0, wrap("req_notify_cq", err)
		}
		if n := cq.drv.Poll(wcs); n > 0 {
			return n, nil
		}
		if err := cq.Err(); err != nil {
			return 0, err
		}
		if cq.sig.closed.Load() {
			return 0, opErr("poll_cq", ErrClosed, "")
		}
		select {
		case <-cq.sig.wake:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// ReqNotify requests one event on the queue's channel at the next completion, or at the next
// solicited or failed one. Completions that are already in the queue raise none: poll again after
// it.
func (cq *CQ) ReqNotify(solicitedOnly bool) error {
	if !cq.sig.requested.Swap(true) && cq.sig.channel != nil {
		cq.sig.channel.arm()
	}
	if !cq.dev.logs("ibv_req_notify_cq") {
		return wrap("req_notify_cq", cq.drv.ReqNotify(solicitedOnly))
	}
	end := cq.dev.begin("ibv_req_notify_cq", callArg{"cq", cq}, callArg{"solicited_only", solicitedOnly})
	err := wrap("req_notify_cq", cq.drv.ReqNotify(solicitedOnly))
	end(nil, err)
	return err
}

// Resize changes the capacity; ErrInvalid if more completions are waiting than fit.
func (cq *CQ) Resize(cqe int) error {
	end := cq.dev.begin("ibv_resize_cq", callArg{"cq", cq}, callArg{"cqe", cqe})
	err := wrap("resize_cq", cq.drv.Resize(cqe))
	end(nil, err)
	return err
}

// Capacity returns how many completions fit: at least as many as were asked for.
func (cq *CQ) Capacity() int { return cq.drv.Capacity() }

// Close destroys the queue; ErrBusy while queue pairs use it.
func (cq *CQ) Close() error { return cq.dev.logClose("ibv_destroy_cq", "cq", cq, cq.destroy) }

func (cq *CQ) destroy() error {
	return cq.close("destroy_cq", func() error {
		if err := cq.drv.Destroy(); err != nil {
			return wrap("destroy_cq", err)
		}
		cq.sig.closed.Store(true)
		cq.sig.disarm()
		cq.sig.wakeUp()
		cq.sleep.end()
		return nil
	})
}
