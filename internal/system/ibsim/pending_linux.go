// SPDX-License-Identifier: Apache-2.0

package ibsim

import (
	"sync"
	"time"
)

const (
	// answerTime is the time before a request without a response is repeated, retries times: each time after twice as
	// long, as a large fabric on a busy machine may take seconds. A request fails after 4.5 s.
	answerTime = 300 * time.Millisecond
	retries    = 3
	// maxPending limits the unanswered requests of a client.
	maxPending = 4096
)

// pending are the unanswered requests of a client.
type pending struct {
	session *session

	mu       sync.Mutex
	requests map[uint64]*request // by transaction id
	closed   bool
}

type request struct {
	datagram Datagram
	left     int // retries
	wait     time.Duration
	timer    *time.Timer
}

func (p *pending) init(a *session) { p.session, p.requests = a, make(map[uint64]*request) }

// add adds a request. It returns false if there are too many.
func (p *pending) add(tid uint64, d *Datagram) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.requests) == maxPending {
		return false
	}
	if old := p.requests[tid]; old != nil {
		old.timer.Stop()
	}
	r := &request{datagram: *d, left: retries, wait: answerTime}
	r.timer = time.AfterFunc(answerTime, func() { p.expired(tid, r) })
	p.requests[tid] = r
	return true
}

// expired repeats a request, or fails it.
func (p *pending) expired(tid uint64, r *request) {
	p.mu.Lock()
	again := r.left > 0
	if p.closed || p.requests[tid] != r {
		p.mu.Unlock()
		return
	}
	if again {
		r.left--
		r.wait *= 2
		r.timer.Reset(r.wait)
	} else {
		delete(p.requests, tid)
	}
	p.mu.Unlock()
	d := r.datagram // Send may change it
	if again {
		p.session.host.Send(&d)
	} else {
		p.session.refuse(&d)
	}
}

// remove removes an answered request. It returns false if there is none.
func (p *pending) remove(tid uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.requests[tid]
	if r == nil {
		return false
	}
	r.timer.Stop()
	delete(p.requests, tid)
	return true
}

func (p *pending) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, r := range p.requests {
		r.timer.Stop()
	}
	clear(p.requests)
}
