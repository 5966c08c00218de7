// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"sync"
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
	mu    sync.Mutex
	queue []weak.Pointer[CQ]
	ready chan struct{}
	done  chan struct{} // closed with the channel
}

// CreateCompChannel makes a channel for CQOptions.
func (d *Device) CreateCompChannel() (*CompChannel, error) {
	c := &CompChannel{dev: d, events: &cqEvents{ready: make(chan struct{}, 1), done: make(chan struct{})}}
	if err := c.use("create_comp_channel", &d.object); err != nil {
		return nil, err
	}
	if s, ok := d.drv.(sleeper); ok && s.SleepsAtOnce() {
		c.sleep.init(s, c.events.any)
	}
	return c, nil
}

func (q *cqEvents) put(cq weak.Pointer[CQ]) {
	q.mu.Lock()
	q.queue = append(q.queue, cq)
	q.mu.Unlock()
	q.signal()
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
	for {
		if cq := c.events.take(); cq != nil {
			return cq, nil
		}
		if c.sleep.until(ctx) && ctx.Err() == nil && c.events.any() {
			if cq := c.events.take(); cq != nil {
				return cq, nil
			}
		}
		select {
		case <-c.events.ready:
		case <-c.events.done:
			return nil, opErr("get_cq_event", ErrClosed, "")
		case <-c.dev.done:
			return nil, opErr("get_cq_event", ErrClosed, "")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close destroys the channel; ErrBusy while queues use it.
func (c *CompChannel) Close() error {
	return c.close("destroy_comp_channel", func() error { close(c.events.done); c.sleep.end(); return nil })
}
