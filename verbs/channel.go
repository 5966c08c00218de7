// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"sync"
)

// CompChannel gathers the completion events of several queues, so that one goroutine can
// wait for all of them (ibv_comp_channel).
type CompChannel struct {
	object
	qmu   sync.Mutex
	queue []*CQ
	ready chan struct{}
	done  chan struct{}
}

// CreateCompChannel makes a channel for CQOptions.
func (d *Device) CreateCompChannel() (*CompChannel, error) {
	c := &CompChannel{ready: make(chan struct{}, 1), done: make(chan struct{})}
	if err := c.use("create_comp_channel", &d.object); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *CompChannel) put(cq *CQ) {
	c.qmu.Lock()
	c.queue = append(c.queue, cq)
	c.qmu.Unlock()
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// Wait returns the next queue that had the event it was asked for with [CQ.ReqNotify].
func (c *CompChannel) Wait(ctx context.Context) (*CQ, error) {
	for {
		c.qmu.Lock()
		if len(c.queue) > 0 {
			cq := c.queue[0]
			c.queue = append(c.queue[:0], c.queue[1:]...)
			more := len(c.queue) > 0
			c.qmu.Unlock()
			if more {
				select {
				case c.ready <- struct{}{}:
				default:
				}
			}
			return cq, nil
		}
		c.qmu.Unlock()
		select {
		case <-c.ready:
		case <-c.done:
			return nil, opErr("get_cq_event", ErrClosed, "")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close destroys the channel; ErrBusy while queues use it.
func (c *CompChannel) Close() error {
	return c.close("destroy_comp_channel", func() error { close(c.done); return nil })
}
