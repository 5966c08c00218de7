// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"sync"
	"sync/atomic"
	"weak"
)

// CompChannel gathers the completion events of several queues, so that one goroutine can
// wait for all of them (ibv_comp_channel).
type CompChannel struct {
	object
	dev    *Device
	events *cqEvents
	sleep  sleeping
}

// cqEvents are the pending events of a channel. Drivers reach it through the queues that use the
// channel, so it keeps neither these nor the device alive.
type cqEvents struct {
	mu      sync.Mutex
	queue   []weak.Pointer[CQ]
	forward func(*CQ)     // gets the events in place of queue, unless nil
	ready   chan struct{} // there are events, or a queue was armed
	done    chan struct{} // closed with the channel
	armed   atomic.Int32  // queues whose event the program has requested
	waiting atomic.Int32  // goroutines at ready
}

// CreateCompChannel makes a channel for CQOptions.
func (d *Device) CreateCompChannel() (c *CompChannel, err error) {
	if d.calls != nil {
		end := d.calls.Begin("ibv_create_comp_channel", callArg{"context", d})
		defer func() { end(c, err) }()
	}
	c = &CompChannel{dev: d, events: &cqEvents{ready: make(chan struct{}, 1), done: make(chan struct{})}}
	if err := c.use("create_comp_channel", &d.object); err != nil {
		return nil, err
	}
	if s, ok := d.drv.(sleeper); ok && s.Sleeps() {
		c.sleep.init(s, DefaultSpin, func() bool { return c.events.awaited() == 0 || c.events.any() }, c.events.awaited)
	}
	return c, nil
}

func (q *cqEvents) put(cq weak.Pointer[CQ]) {
	if q.forward != nil {
		if cq := cq.Value(); cq != nil && !cq.sig.closed.Load() {
			q.forward(cq)
		}
		return
	}
	q.mu.Lock()
	q.queue = append(q.queue, cq)
	q.mu.Unlock()
	q.signal()
}

// arm counts a queue whose next event the program has requested: a waiting thread may move the data from now on.
func (q *cqEvents) arm() {
	if q.armed.Add(1) == 1 && q.waiting.Load() > 0 {
		q.signal()
	}
}

func (q *cqEvents) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// any reports whether there are events, or will be none any more.
func (q *cqEvents) any() bool {
	select {
	case <-q.done:
		return true
	default:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) > 0
}

// forwardEvents has f called with the queues that have events, before the channel has any. It returns a function that
// returns how many queues are armed.
func (c *CompChannel) forwardEvents(f func(*CQ)) (armed func() int) {
	c.events.forward = f
	return c.events.awaited
}

// awaited returns how many queues are armed.
func (q *cqEvents) awaited() int { return int(q.armed.Load()) }

// take returns the oldest event of a queue that still exists, or nil.
func (q *cqEvents) take() *CQ {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.queue) > 0 {
		cq := q.queue[0].Value()
		q.queue = append(q.queue[:0], q.queue[1:]...)
		if cq == nil || cq.sig.closed.Load() {
			continue
		}
		if len(q.queue) > 0 {
			q.signal() // for other waiters
		}
		return cq
	}
	return nil
}

// Wait returns the next queue that had the event requested by [CQ.ReqNotify]. It returns ErrClosed
// once the channel or the device is closed.
func (c *CompChannel) Wait(ctx context.Context) (*CQ, error) {
	if !c.dev.logs("ibv_get_cq_event") {
		return c.wait(ctx)
	}
	end := c.dev.calls.Begin("ibv_get_cq_event", callArg{"channel", c})
	cq, err := c.wait(ctx)
	end(nil, err, callArg{"cq", cq})
	return cq, err
}

func (c *CompChannel) wait(ctx context.Context) (*CQ, error) {
	for {
		if cq := c.events.take(); cq != nil {
			return cq, nil
		}
		// While no queue is armed the program may poll, and moves the data itself.
		if c.events.armed.Load() > 0 && c.sleep.until(ctx) && ctx.Err() == nil {
			if cq := c.events.take(); cq != nil {
				return cq, nil
			}
		}
		if err := c.await(ctx); err != nil {
			return nil, err
		}
	}
}

// await waits until there may be an event, or a queue is armed that was not before.
func (c *CompChannel) await(ctx context.Context) error {
	before := c.events.armed.Load()
	c.events.waiting.Add(1)
	defer c.events.waiting.Add(-1)
	if before == 0 && c.events.armed.Load() > 0 && c.sleep.drv != nil {
		return nil
	}
	select {
	case <-c.events.ready:
	case <-c.events.done:
		return opErr("get_cq_event", ErrClosed, "")
	case <-c.dev.done:
		return opErr("get_cq_event", ErrClosed, "")
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Close destroys the channel; ErrBusy while queues use it.
func (c *CompChannel) Close() error {
	return c.dev.logClose("ibv_destroy_comp_channel", "channel", c, func() error {
		return c.close("destroy_comp_channel", func() error { close(c.events.done); c.sleep.end(); return nil })
	})
}
