// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/rsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// side is one direction of a connection, with the condition that a Read or a Write waits for.
type side struct {
	mu       *sync.Mutex // of the connection, guards the fields that follow
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

// SetDeadline sets when Read and Write fail with os.ErrDeadlineExceeded, including pending calls;
// the zero time: never.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, &c.read, &c.write) }

// SetReadDeadline sets when Read fails.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, &c.read) }

// SetWriteDeadline sets when Write fails. Data that it has written until then is in flight.
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

// poller is the goroutine that polls the completion queue for all sides: one at a time, because
// completions have to be handled in order.
type poller struct {
	busy    bool // a caller polls
	end     interrupt
	missing int // receives to be posted again
	wcs     [16]verbs.WC
	msg     rsocket.Message
	wrote   bool // something was written with it
	inTable func([]byte)
}

func (p *poller) init(c *Conn) {
	p.inTable = func(table []byte) {
		if err := c.stream.HandleMessage(p.msg, p.wrote, table); err != nil {
			c.fail(err)
		}
	}
}

// await waits until a side is ready. Conn.mu is held, and released while waiting.
func (c *Conn) await(s *side) error {
	for first := true; ; first = false {
		if err := c.usable(s); err != nil {
			c.pass(s)
			return err
		}
		if s.ready() {
			c.pass(s)
			return nil
		}
		if first {
			c.flush()
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
		c.alive.await()
		n, err := s.wait(&c.poll.end, c.ep.cq, c.poll.wcs[:], c.ep.opt.Spin)
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

// wait polls and then sleeps until there are completions or s is woken. mu is held, and released
// meanwhile.
func (s *side) wait(end *interrupt, cq *verbs.CQ, wcs []verbs.WC, spin time.Duration) (int, error) {
	s.polling = end
	ctx := end.begin()
	s.mu.Unlock()
	n, err := completions(ctx, cq, wcs, spin)
	s.mu.Lock()
	s.polling = nil
	return n, err
}

// completions polls and then sleeps until there are completions or ctx ends, which is no error.
func completions(ctx context.Context, cq *verbs.CQ, wcs []verbs.WC, spin time.Duration) (int, error) {
	if n := cq.Poll(wcs); n > 0 {
		return n, nil
	}
	if spin > 0 {
		for start := time.Now(); time.Since(start) < spin; {
			for range 16 {
				if n := cq.Poll(wcs); n > 0 {
					return n, nil
				}
			}
			if ctx.Err() != nil {
				return 0, nil
			}
		}
	}
	n, err := cq.Wait(ctx, wcs)
	if err != nil && err == ctx.Err() {
		err = nil
	}
	return n, err
}

// handle passes completions that s has polled to the engine, and wakes the other sides.
func (c *Conn) handle(wcs []verbs.WC, s *side) {
	if len(wcs) > 0 {
		c.alive.heard = time.Now()
	}
	for i := range wcs {
		switch wc := &wcs[i]; {
		case wc.Status != verbs.StatusSuccess:
			c.fail(statusErr(wc.Status))
		case wc.Op == verbs.WCRecvWriteImm:
			c.poll.missing++
			c.message(rsocket.Message(wc.Imm), wc.ByteLen > 0)
		case wc.Op == verbs.WCRecv:
			c.poll.missing++
			c.word(wc)
		default:
			c.stream.HandleCompletion(wc.ID)
		}
	}
	if c.poll.missing >= repostBatch && c.err == nil {
		n, err := c.ep.qp.PostRecvList(c.ep.in.next(repostBatch))
		c.poll.missing -= n
		if err != nil {
			c.fail(err)
		}
	}
	c.control()
	if c.armed && len(wcs) > 0 {
		c.armed = false
		c.ep.notify.call()
	}
	if c.stream.Staged() > 0 && !c.stream.Busy() {
		c.flush()
	}
	for _, o := range [...]*side{&c.read, &c.write, &c.closing} {
		if o != s && o.waiting && (o.ready() || c.usable(o) != nil) {
			o.wakeUp()
		}
	}
}

func (c *Conn) message(m rsocket.Message, wrote bool) {
	if op := m.Op(); op == rsocket.OpSGL {
		c.poll.msg, c.poll.wrote = m, wrote
		c.ep.tab.Do(c.poll.inTable)
		return
	}
	if err := c.stream.HandleMessage(m, wrote, nil); err != nil {
		c.fail(err)
	}
}

// statusErr converts the status of a failed work request to an error of the connection.
func statusErr(s verbs.Status) error {
	switch s {
	case verbs.StatusWRFlushError:
		return syscall.ECONNRESET
	case verbs.StatusRetryExceeded, verbs.StatusRNRRetryExceeded:
		return fmt.Errorf("%w: %w", syscall.ETIMEDOUT, s.Err())
	}
	return fmt.Errorf("%w: %w", syscall.ECONNRESET, s.Err())
}
