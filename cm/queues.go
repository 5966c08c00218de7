// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"sync"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// queues is the part of a Conn that moves data: its completion queue, the work requests in
// flight, and the messages that have arrived.
//
// Whoever waits for something takes the turn to poll, if it is free, and hands out what
// completes; the others wait for their own completion, or for the turn.
type queues struct {
	c      *Conn
	cq     *verbs.CQ
	pool   *Pool
	own    bool          // the pool is this connection's
	inline int           // bytes that a work request takes along
	turn   chan struct{} // who has put something in it polls
	slots  chan struct{} // has one element for each free place in the send queue
	mail   chan struct{} // one element for each of arrived; closed when no more will come
	shut   chan struct{} // closed by close

	mu      sync.Mutex
	last    uint64 // ID of the last work request
	ops     map[uint64]*op
	posted  []*Buffer // receives, by their ID less recvID; nil: it has completed
	arrived []*Buffer
	drained bool  // a receive was flushed: all that had arrived came before it
	failure error // what broke the queue pair
	closed  bool
	nudge   context.CancelFunc // ends the sleep of who polls and waits for a slot, the last of them; nil: nobody ever did
}

// op is a work request in flight.
type op struct {
	wc   verbs.WC
	buf  *Buffer       // that it sends from; released when it completes
	done chan struct{} // one element: wc is there
}

// recvID marks the work request IDs of receives.
const recvID = 1 << 63

// newQueues makes the queues and the queue pair of a connection, and posts its receives.
func newQueues(c *Conn, o *options) (*queues, error) {
	dev := c.id.Device()
	if err := o.check(dev); err != nil {
		return nil, err
	}
	pd, pool, err := c.id.m.resources(o)
	if err != nil {
		return nil, err
	}
	cq, err := dev.CreateCQ(o.sendDepth+o.recvDepth, &verbs.CQOptions{Spin: o.spin})
	if err != nil {
		return nil, err
	}
	q := &queues{c: c, cq: cq, pool: pool, own: o.pd != nil, turn: make(chan struct{}, 1), slots: make(chan struct{}, o.sendDepth),
		mail: make(chan struct{}, o.recvDepth), shut: make(chan struct{}), ops: map[uint64]*op{}, posted: make([]*Buffer, o.recvDepth)}
	for range o.sendDepth {
		q.slots <- struct{}{}
	}
	c.pd = pd
	c.qp, err = c.id.CreateQP(pd, verbs.QPInit{SendCQ: cq, RecvCQ: cq, MaxSendWR: o.sendDepth, MaxRecvWR: o.recvDepth})
	if err != nil {
		return q, err
	}
	_, caps := c.qp.Query()
	q.inline = caps.MaxInline
	for i := range q.posted {
		if err := q.postRecv(uint64(i)); err != nil {
			return q, err
		}
	}
	return q, nil
}

// resources returns the protection domain and the buffers that a connection shall use.
func (m *manager) resources(o *options) (*verbs.PD, *Pool, error) {
	if o.pd != nil {
		pool := NewPool(o.pd, o.recvSize, 0) // goes with the connection, so that the program can close its domain
		pool.slab = min(pool.slab, 2*o.recvDepth*o.recvSize)
		return o.pd, pool, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	pd, err := m.shared.domain(m.dev)
	if err != nil {
		return nil, nil, err
	}
	return pd, m.shared.pool(o.recvSize), nil
}

// postRecv posts the receive of a place.
func (q *queues) postRecv(place uint64) error {
	b, err := q.pool.Get(q.pool.size)
	if err != nil {
		return err
	}
	q.mu.Lock()
	err = ErrDisconnected
	if !q.closed {
		err = q.c.qp.PostRecv(&verbs.RecvWR{ID: recvID | place, SGL: []verbs.SGE{b.SGE(q.pool.size)}})
	}
	if err == nil {
		q.posted[place] = b
	}
	q.mu.Unlock()
	if err != nil {
		b.Release()
	}
	return err
}

// until waits for an element of ch, and polls if nobody else does.
func (q *queues) until(ctx context.Context, ch <-chan struct{}) error {
	for {
		select {
		case <-ch:
			return nil
		default:
		}
		select {
		case <-ch:
			return nil
		case q.turn <- struct{}{}:
			ready, err := q.poll(ctx, ch)
			<-q.turn
			if err != nil {
				return err
			}
			if ready {
				return nil
			}
		case <-q.shut:
			return ErrDisconnected
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// poll takes completions until ch has an element, which it takes too.
func (q *queues) poll(ctx context.Context, ch <-chan struct{}) (bool, error) {
	var wcs [16]verbs.WC
	for {
		select {
		case <-ch:
			return true, nil
		case <-q.shut:
			return false, ErrDisconnected
		default:
		}
		n, err := q.sleep(ctx, ch, wcs[:])
		if err != nil {
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			return false, q.broken(err)
		}
		for i := range wcs[:n] {
			q.completed(&wcs[i])
		}
	}
}

// sleep waits for completions. It may return none: ch is to be looked at again.
func (q *queues) sleep(ctx context.Context, ch <-chan struct{}, wcs []verbs.WC) (int, error) {
	if ch != q.slots {
		return q.cq.Wait(ctx, wcs)
	}
	// A slot may come back without a completion, and nothing else may be in flight.
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	q.mu.Lock()
	q.nudge = cancel
	q.mu.Unlock()
	if len(q.slots) > 0 {
		return 0, nil
	}
	n, err := q.cq.Wait(inner, wcs)
	if err == context.Canceled && ctx.Err() == nil {
		err = nil
	}
	return n, err
}

// giveBack takes back the slot of what was not posted.
func (q *queues) giveBack() {
	q.slots <- struct{}{}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.nudge != nil {
		q.nudge()
	}
}

// broken is the error for whoever cannot go on.
func (q *queues) broken(err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrDisconnected
	}
	return err
}

// completed hands a completion to whom it concerns.
func (q *queues) completed(wc *verbs.WC) {
	if wc.Status != verbs.Success && wc.Status != verbs.WRFlushError {
		q.fail(wc.Status.Err())
	}
	if wc.ID&recvID != 0 {
		q.received(wc)
		return
	}
	q.mu.Lock()
	o := q.ops[wc.ID]
	delete(q.ops, wc.ID)
	q.mu.Unlock()
	if o == nil {
		return // closed meanwhile
	}
	q.slots <- struct{}{}
	if o.buf != nil {
		o.buf.Release()
	}
	o.wc = *wc
	o.done <- struct{}{}
}

// received puts a message with those that Recv returns. Only who polls calls it, so that one
// who waits is woken by what it has polled, or not polling.
func (q *queues) received(wc *verbs.WC) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	place := wc.ID &^ recvID
	b := q.posted[place]
	q.posted[place] = nil
	switch {
	case wc.Status == verbs.Success:
		b.WC, b.n = *wc, int(wc.ByteLen)
		if wc.Op == verbs.WCRecvWriteImm {
			b.n = 0 // the bytes are where the peer wrote them
		}
		q.arrived = append(q.arrived, b)
		q.mail <- struct{}{} // has room for as many as are posted
		return
	case !q.drained:
		q.drained = true
		close(q.mail)
	}
	b.Release()
}

// fail keeps the first error of the queue pair, and tells the peer that the connection is
// over.
func (q *queues) fail(err error) {
	q.mu.Lock()
	first := q.failure == nil
	if first {
		q.failure = err
	}
	q.mu.Unlock()
	if first {
		q.c.id.Disconnect() // fails if it is being closed
	}
}

// stop makes all calls return.
func (q *queues) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.shut)
	}
}

// close gives back what the queues hold, once, after the queue pair was closed.
func (q *queues) close() error {
	q.stop()
	q.mu.Lock()
	buffers := q.arrived
	for _, b := range q.posted {
		if b != nil {
			buffers = append(buffers, b)
		}
	}
	for _, o := range q.ops {
		if o.buf != nil {
			buffers = append(buffers, o.buf)
		}
	}
	q.arrived, q.posted, q.ops = nil, nil, nil
	q.mu.Unlock()
	for _, b := range buffers {
		b.Release()
	}
	err := q.cq.Close()
	if q.own {
		q.pool.Close()
	}
	q.c.id.m.tidy() // its last connection may have been told of its end before
	return err
}
