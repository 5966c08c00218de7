// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// silence is how long a peer may leave a request unanswered before its host is asked whether
// anybody is there at all.
const silence = 50 * time.Millisecond

// watch is a host from which answers are expected. The network may report that it refuses
// datagrams, long before the retries are exhausted.
type watch struct {
	requests int // requests that wait for an answer
	cancel   context.CancelFunc
}

// watchPeer watches the host that a request of c goes to. The manager's lock is held.
func (c *ibConn) watchPeer() {
	if c.watched {
		return
	}
	c.watched = true
	w := c.watches[c.host.DGID]
	if w == nil {
		w = &watch{}
		c.watches[c.host.DGID] = w
		var ctx context.Context
		ctx, w.cancel = context.WithCancel(context.Background())
		to := c.host
		time.AfterFunc(silence, func() {
			if why := c.agent.Refused(ctx, to); ctx.Err() == nil {
				c.endRequests(w, to.DGID, why)
			}
		})
	}
	w.requests++
}

// answered records that a request of c is no longer waiting. The manager's lock is held.
func (c *ibConn) answered() {
	if !c.watched {
		return
	}
	c.watched = false
	w := c.watches[c.host.DGID]
	if w.requests--; w.requests == 0 {
		w.cancel()
		delete(c.watches, c.host.DGID)
	}
}

// endRequests ends the requests to a host that refuses datagrams.
func (p *ibProtocol) endRequests(w *watch, host verbs.GID, why error) {
	unreachable := errors.Is(why, syscall.EHOSTUNREACH) || errors.Is(why, syscall.ENETUNREACH)
	if !unreachable && !errors.Is(why, syscall.ECONNREFUSED) {
		return // the network gave no verdict: the requests go on
	}
	p.m.mu.Lock()
	defer p.m.unlock()
	if p.m.stopped || p.watches[host] != w {
		return
	}
	for _, c := range p.conns {
		if !c.watched || c.host.DGID != host {
			continue
		}
		c.release()
		id := c.id
		switch {
		case unreachable:
			id.end(failed, &Event{Type: Unreachable,
				Err: opErr("connect", ErrTimeout, "%v does not answer: %v", id.peer, why)})
		case id.ps.datagrams():
			id.end(failed, &Event{Type: Unreachable,
				Err: &RejectError{Address: id.peer.String(), Reason: ReasonInvalidService}})
		default:
			id.end(failed, &Event{Type: Rejected,
				Err: &RejectError{Address: id.peer.String(), Reason: ReasonInvalidService}})
		}
	}
}
