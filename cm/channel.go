// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"slices"
	"sync"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// EventChannel gathers the events of any number of ids (rdma_event_channel).
type EventChannel struct {
	mu     sync.Mutex
	queue  []*Event
	ready  chan struct{} // one element: the queue may be non-empty
	done   chan struct{}
	closed bool
	calls  driver.CallLog // of the first device with one whose ids report here; nil: there is none
}

// NewEventChannel makes a channel (rdma_create_event_channel).
func NewEventChannel() *EventChannel {
	return &EventChannel{ready: make(chan struct{}, 1), done: make(chan struct{})}
}

// Get returns the next event (rdma_get_cm_event), which the caller owns. It waits until there is
// one, ctx ends, or the channel is closed, which is ErrClosed. Several goroutines may wait.
func (c *EventChannel) Get(ctx context.Context) (*Event, error) {
	end := c.beginGet()
	e, err := c.get(ctx)
	end(e, err)
	return e, err
}

func (c *EventChannel) get(ctx context.Context) (*Event, error) {
	for {
		if e, ok := c.tryGet(); ok {
			return e, nil
		}
		if err := c.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// Wait waits until TryGet may find an event, ctx ends, or the channel is closed, which is
// ErrClosed. It is for callers that take events under a lock of their own. If several wait, one is
// woken; it must call TryGet, which wakes the next.
func (c *EventChannel) Wait(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-c.done:
		return opErr("get_cm_event", verbs.ErrClosed, "")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TryGet returns the next event if there is one.
func (c *EventChannel) TryGet() (*Event, bool) {
	e, ok := c.tryGet()
	if ok {
		logEvent(e)
	}
	return e, ok
}

func (c *EventChannel) tryGet() (*Event, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil, false
	}
	e := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	if len(c.queue) > 0 {
		c.signal() // for other waiters
	}
	return e, true
}

// put adds events. It drops them if the channel is closed.
func (c *EventChannel) put(events ...*Event) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if len(events) > 0 {
		c.queue = append(c.queue, events...)
		c.signal()
	}
	return true
}

func (c *EventChannel) signal() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// take removes the events that match.
func (c *EventChannel) take(match func(*Event) bool) (taken []*Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = slices.DeleteFunc(c.queue, func(e *Event) bool {
		if !match(e) {
			return false
		}
		taken = append(taken, e)
		return true
	})
	return taken
}

// Close closes the channel (rdma_destroy_event_channel). Get returns ErrClosed, requests that
// nobody has fetched are rejected, and further events of its ids are dropped. The ids stay open.
func (c *EventChannel) Close() error {
	c.mu.Lock()
	queue := c.queue
	if !c.closed {
		c.closed, c.queue = true, nil
		close(c.done)
	}
	c.mu.Unlock()
	for _, e := range queue {
		if e.Type == ConnectRequest {
			e.ID.Close()
		}
	}
	return nil
}
