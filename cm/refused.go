// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// silence is how long a peer may leave a request without an answer before its host is asked
// whether anybody is there at all.
const silence = 50 * time.Millisecond

// watch is a host from which answers are awaited. The network may say that nobody is there,
// long before the requests have been repeated often enough.
type watch struct {
	requests int // that wait for an answer
	cancel   context.CancelFunc
}

// awaits watches the host that a request of id goes to. The manager's lock is held.
func (p *ibProtocol) awaits(id *ID) {
	c := id.ib
	if c.watched {
		return
	}
	c.watched = true
	w := p.watches[c.to.DGID]
	if w == nil {
		w = &watch{}
		p.watches[c.to.DGID] = w
		var ctx context.Context
		ctx, w.cancel = context.WithCancel(context.Background())
		to := c.to
		time.AfterFunc(silence, func() {
			if why := p.gsi.Refused(ctx, to); ctx.Err() == nil {
				p.nobody(w, to.DGID, why)
			}
		})
	}
	w.requests++
}

// answered says that a request of id is no longer waiting. The manager's lock is held.
func (p *ibProtocol) answered(id *ID) {
	c := id.ib
	if !c.watched {
		return
	}
	c.watched = false
	w := p.watches[c.to.DGID]
	if w.requests--; w.requests == 0 {
		w.cancel()
		delete(p.watches, c.to.DGID)
	}
}

// nobody ends the requests to a host that has nobody to answer them.
func (p *ibProtocol) nobody(w *watch, host verbs.GID, why error) {
	unreachable := errors.Is(why, syscall.EHOSTUNREACH) || errors.Is(why, syscall.ENETUNREACH)
	if !unreachable && !errors.Is(why, syscall.ECONNREFUSED) {
		return // it cannot be found out: the requests go on
	}
	p.m.mu.Lock()
	defer p.m.unlock()
	if p.m.stopped || p.watches[host] != w {
		return
	}
	for comm, id := range p.conns {
		if !id.ib.watched || id.ib.to.DGID != host {
			continue
		}
		p.engine.Release(p.now(), comm)
		p.forget(id)
		switch {
		case unreachable:
			id.end(failed, &Event{Type: Unreachable, Err: opErr("connect", ErrTimeout, "%v does not answer: %v", id.peer, why)})
		case id.ps.datagrams():
			id.end(failed, &Event{Type: Unreachable, Err: &RejectError{Address: id.peer.String(), Reason: ReasonInvalidService}})
		default:
			id.end(failed, &Event{Type: Rejected, Err: &RejectError{Address: id.peer.String(), Reason: ReasonInvalidService}})
		}
	}
}
