// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"context"
	"errors"
	"sync"
	"time"
)

// What clients hold in all. Each has receives of 256 KiB.
const (
	maxClients  = 256
	maxSegments = 512 // granted; beyond it a client has one at a time
)

// idleAfter is how long a client has said nothing when it is idle.
const idleAfter = time.Second

// errIdle is told to a client that gives way.
var errIdle = errors.New("it has as many clients as it can, and this one was idle longest: start the copy again, it resumes")

// errBusy is told to a client that comes when none is idle.
var errBusy = errors.New("it has as many clients as it can, and none is idle: try again later")

// clients are those that a server has now. When there are too many, an idle one gives way to the next.
type clients struct {
	mu  sync.Mutex
	all map[*client]struct{}
}

type client struct {
	of    *clients
	end   context.CancelCauseFunc
	last  time.Time // when it came, sent a message or received one
	spoke bool      // it has sent one
}

// enter admits a client, and lets another give way to it if there are limit already. Where none is idle it waits until
// one may be, once.
func (c *clients) enter(ctx context.Context, limit int) (*client, context.Context, error) {
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

func (c *clients) admit(ctx context.Context, limit int) (*client, context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if len(c.all) >= limit {
		idle := c.idlest(now, limit)
		if idle == nil {
			return nil, nil
		}
		delete(c.all, idle)
		idle.end(errIdle)
	}
	if c.all == nil {
		c.all = map[*client]struct{}{}
	}
	ctx, end := context.WithCancelCause(ctx)
	n := &client{of: c, end: end, last: now}
	c.all[n] = struct{}{}
	return n, ctx
}

// idlest returns the client that gives way first: one that has never said anything, unless it has just come and is one of
// a few such; otherwise the one that has been idle longest. It returns nil if all are active.
func (c *clients) idlest(now time.Time, limit int) *client {
	var mute, idle *client // those that are so longest
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

// active notes that a message was received or sent.
func (n *client) active() {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	n.last, n.spoke = time.Now(), true
}

// leave is called when a client holds nothing any more.
func (n *client) leave() {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	delete(n.of.all, n)
	n.end(nil)
}
