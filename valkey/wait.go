// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// side is one direction of a connection, and the events that a Read or a Write waits for.
type side struct {
	mu       *sync.Mutex // of the connection, guards the fields below
	ready    func() bool
	wake     chan struct{} // one element: check again
	waiting  bool          // for another goroutine, which polls
	polling  *interrupt    // ends the wait for completions of the side, if it polls
	deadline time.Time
	timer    *time.Timer
	expired  bool
}

func (s *side) init(mu *sync.Mutex, ready func() bool) {
	*s = side{mu: mu, ready: ready, wake: make(chan struct{}, 1)}
}

// wakeUp has a side that waits check again. mu is held.
func (s *side) wakeUp() {
	if s.polling != nil {
		s.polling.end()
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// setDeadline sets when a wait ends; the zero time: never. mu is held.
func (s *side) setDeadline(t time.Time) {
	s.deadline, s.expired = t, false
	d := time.Until(t)
	switch {
	case t.IsZero():
		if s.timer != nil {
			s.timer.Stop()
		}
	case d <= 0:
		s.expired = true
	case s.timer == nil:
		s.timer = time.AfterFunc(d, s.timeout)
	default:
		s.timer.Reset(d)
	}
	s.wakeUp()
}

// timeout runs when the timer fires, perhaps for a deadline that was moved since, or early because
// the system's clock was set back.
func (s *side) timeout() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deadline.IsZero() {
		return
	}
	if d := time.Until(s.deadline); d > 0 {
		s.timer.Reset(d)
		return
	}
	s.expired = true
	s.wakeUp()
}

// SetDeadline sets when Read and Write fail with os.ErrDeadlineExceeded, including pending calls; the
// zero time: never.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, &c.read, &c.write) }

// SetReadDeadline sets when Read fails.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, &c.read) }

// SetWriteDeadline sets when Write fails. The bytes that it has written until then are in flight.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, &c.write) }

func (c *Conn) setDeadlines(t time.Time, sides ...*side) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(&side{}); err != nil {
		return c.opError("set", err)
	}
	for _, s := range sides {
		s.setDeadline(t)
	}
	return nil
}

// poller has one goroutine at a time poll the completion queue for all sides, because completions have
// to be handled in order.
type poller struct {
	busy     bool // somebody polls
	end      interrupt
	wcs      [16]verbs.WC
	consumed [repostBatch]uint64 // slots whose receives are to be posted again
	n        int
}

// await waits until a side is ready. Conn.mu is held, and released while waiting.
func (c *Conn) await(s *side) error {
	for {
		if err := c.usable(s); err != nil {
			c.pass(s)
			return err
		}
		if s.ready() {
			c.pass(s)
			return nil
		}
		if c.poll.busy {
			s.waiting = true
			c.mu.Unlock()
			<-s.wake
			c.mu.Lock()
			s.waiting = false
			continue
		}
		c.poll.busy = true
		n, err := s.wait(&c.poll.end, c.ep.cq, c.poll.wcs[:])
		c.poll.busy = false
		if err != nil {
			c.fail(err)
		}
		c.handle(c.poll.wcs[:n], s)
	}
}

// pass hands polling over to another waiter.
func (c *Conn) pass(s *side) {
	if c.poll.busy {
		return
	}
	for _, o := range [...]*side{&c.closing, &c.write, &c.read} {
		if o != s && o.waiting {
			o.wakeUp()
			return
		}
	}
}

// interrupt ends waits for completions. Its context stays the same from wait to wait until it has
// ended one, so that most waits allocate nothing.
type interrupt struct {
	ctx context.Context
	end context.CancelFunc
}

// begin returns a context that end ends.
func (i *interrupt) begin() context.Context {
	if i.ctx == nil || i.ctx.Err() != nil {
		i.ctx, i.end = context.WithCancel(context.Background())
	}
	return i.ctx
}

// wait waits until there are completions or s is woken. mu is held, and released meanwhile.
func (s *side) wait(end *interrupt, cq *verbs.CQ, wcs []verbs.WC) (int, error) {
	s.polling = end
	ctx := end.begin()
	s.mu.Unlock()
	n, err := cq.Wait(ctx, wcs)
	s.mu.Lock()
	s.polling = nil
	if err != nil && err == ctx.Err() {
		err = nil
	}
	return n, err
}

// progress handles completions, unless somebody else is about to. mu is held.
func (c *Conn) progress() {
	for !c.poll.busy && !c.closed {
		n := c.ep.cq.Poll(c.poll.wcs[:])
		c.handle(c.poll.wcs[:n], nil)
		if n < len(c.poll.wcs) {
			return
		}
	}
}

// progressUnlocked is progress for a Write, which awaits its side next, and so hands polling over. mu is released while
// it polls, which moves the device's data. writeMu is held, so that the queue stays.
func (c *Conn) progressUnlocked() {
	for n := len(c.poll.wcs); n == len(c.poll.wcs) && !c.poll.busy && !c.closed; {
		c.poll.busy = true
		c.mu.Unlock()
		n = c.ep.cq.Poll(c.poll.wcs[:])
		c.mu.Lock()
		c.poll.busy = false
		c.handle(c.poll.wcs[:n], &c.write)
	}
}

// handle handles completions that s has polled, and wakes the other sides.
func (c *Conn) handle(wcs []verbs.WC, s *side) {
	for i := range wcs {
		switch wc := &wcs[i]; {
		case wc.Status != verbs.StatusSuccess:
			if err := statusErr(wc.Status, c.ep.qp); err != nil {
				c.fail(err)
			} else {
				c.end()
			}
		case wc.Op == verbs.WCRecv || wc.Op == verbs.WCRecvWriteImm:
			c.received(wc)
		default:
			c.sends.complete(wc.ID)
		}
	}
	c.control()
	for _, o := range [...]*side{&c.read, &c.write, &c.closing} {
		if o != s && o.waiting && (o.ready() || c.usable(o) != nil) {
			o.wakeUp()
		}
	}
}

// received handles the completion of a receive, and posts it again.
func (c *Conn) received(wc *verbs.WC) {
	var err error
	if wc.Op == verbs.WCRecv {
		err = c.stream.handleMessage(c.ep.message(wc.ID, int(wc.ByteLen)))
	} else {
		err = c.stream.in.written(wc.Imm)
	}
	if err != nil {
		c.fail(err)
		return
	}
	p := &c.poll
	p.consumed[p.n] = wc.ID
	if p.n++; p.n == len(p.consumed) {
		p.n = 0
		if err := c.ep.postReceives(p.consumed[:]); err != nil && c.err == nil {
			c.posting(err)
		}
	}
}

// posting takes note that a receive could not be posted. Completions tell that the queue pair is in the error state by
// then.
func (c *Conn) posting(err error) {
	if !errors.Is(err, verbs.ErrState) {
		c.fail(err)
	}
}

// keepAlive looks after a connection now and then. Its peer may send keep-alives, and has to find
// receives for them, also while the program waits for nothing.
type keepAlive struct {
	timer *time.Timer
	sent  bool // something, since the timer fired last
}

func (k *keepAlive) start(c *Conn) {
	k.timer = time.AfterFunc(c.ep.opt.KeepAlive, c.tick)
}

func (k *keepAlive) stop() { k.timer.Stop() }

// tick runs when the timer fires. A keep-alive that the peer has not taken is not followed by others.
func (c *Conn) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.progress()
	if !c.alive.sent && c.sends.idle() {
		c.stream.beat = true
		c.control()
	}
	c.alive.sent = false
	if c.err == nil && !c.ended {
		c.alive.timer.Reset(c.ep.opt.KeepAlive)
	}
}
