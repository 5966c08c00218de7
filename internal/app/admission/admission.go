// SPDX-License-Identifier: Apache-2.0

// Package admission bounds how many clients a server of a tool has at a time: an idle one gives way to the next.
package admission

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Limit is how many clients a server has at a time.
const Limit = 256

// idleAfter is how long a client has said nothing when it is idle.
const idleAfter = time.Second

// ErrIdle is why a client gives way.
var ErrIdle = errors.New("the server has as many clients as it can, and this one was idle longest")

// errBusy is the answer to a client that comes when none is idle.
var errBusy = errors.New("the server has as many clients as it can, and none is idle: try again later")

// Clients are the clients that a server has now.
type Clients struct {
	mu  sync.Mutex
	all map[*Client]struct{}
}

// Client is one of them.
type Client struct {
	of    *Clients
	end   context.CancelCauseFunc
	last  time.Time // when it came, sent a message or received one
	spoke bool      // it has sent one
}

// Enter admits a client, and lets another give way to it if there are limit already. Where none is idle it waits until
// one may be, once. The context ends with the cause ErrIdle when the client has to give way.
func (c *Clients) Enter(ctx context.Context, limit int) (*Client, context.Context, error) {
	for waited := false; ; waited = true {
		if n, here := c.admit(ctx, limit); n != nil {
			return n, here, nil
		}
		if waited {
			return nil, nil, errBusy
		}
		select {
		case <-time.After(idleAfter):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func (c *Clients) admit(ctx context.Context, limit int) (*Client, context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if len(c.all) >= limit {
		idle := c.idlest(now, limit)
		if idle == nil {
			return nil, nil
		}
		delete(c.all, idle)
		idle.end(ErrIdle)
	}
	if c.all == nil {
		c.all = map[*Client]struct{}{}
	}
	ctx, end := context.WithCancelCause(ctx)
	n := &Client{of: c, end: end, last: now}
	c.all[n] = struct{}{}
	return n, ctx
}

// idlest returns the client that gives way first: a client that has never sent anything, unless it has just come and
// few are like it; otherwise the client that has been idle longest. It returns nil if all are active.
func (c *Clients) idlest(now time.Time, limit int) *Client {
	var mute, idle *Client // the longest mute, the longest idle
	mutes := 0
	for k := range c.all {
		if !k.spoke {
			mutes++
			if mute == nil || k.last.Before(mute.last) {
				mute = k
			}
		} else if idle == nil || k.last.Before(idle.last) {
			idle = k
		}
	}
	switch {
	case mute != nil && (mutes > limit/2 || now.Sub(mute.last) >= idleAfter):
		return mute
	case idle != nil && now.Sub(idle.last) >= idleAfter:
		return idle
	}
	return mute
}

// Active notes that a message was received or sent.
func (n *Client) Active() {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	n.last, n.spoke = time.Now(), true
}

// Leave is called when a client holds nothing any more.
func (n *Client) Leave() {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	delete(n.of.all, n)
	n.end(nil)
}
