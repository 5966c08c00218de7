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
// A goroutine that waits polls, unless another one does already, and hands out the completions.
// The other goroutines wait for their own completion, or until they can poll themselves.
type queues struct {
	c       *Conn
	cq      *verbs.CQ
	pool    *Pool
	own     bool          // the pool is this connection's
	inline  int           // bytes that a work request takes along
	polling chan struct{} // full while a goroutine polls
	slots   chan struct{} // has one element for each free place in the send queue
	inbox   chan struct{} // one element for each of arrived; closed when no more will come
	shut    chan struct{} // closed by close

	mu         sync.Mutex
	last       uint64 // ID of the last work request
	ops        map[uint64]*op
	posted     []*Buffer // receives, by their ID less recvID; nil: it has completed
	arrived    []*Buffer
	drained    bool  // a receive was flushed: all that had arrived came before it
	failure    error // why the queue pair is broken
	closed     bool
	wakePoller context.CancelFunc // ends the sleep of a poller that waits for a slot; nil: there was none yet
}

// op is a work request in flight.
type op struct {
	wc   verbs.WC
	buf  *Buffer       // the buffer that it uses; released when it completes
	done chan struct{} // one element: wc is there

	fetches bool   // it is an atomic operation
	old     uint64 // the value that it has returned
}

func newOp(buf *Buffer) *op { return &op{buf: buf, done: make(chan struct{}, 1)} }

// recvID marks the work request IDs of receives.
const recvID = 1 << 63

// newQueues creates the queues and the queue pair of a connection, and posts its receives.
func newQueues(c *Conn, o *options) (*queues, error) {
	dev := c.id.Device()
	if err := o.check(dev); err != nil {
		return nil, err
	}
	pd, pool, err := c.id.m.resources(c.id.dev, o)
	if err != nil {
		return nil, err
	}
	cq, err := dev.CreateCQ(o.sendDepth+o.recvDepth, &verbs.CQOptions{Spin: o.spin})
	if err != nil {
		return nil, err
	}
	q := &queues{c: c, cq: cq, pool: pool, own: o.pd != nil, polling: make(chan struct{}, 1),
		slots: make(chan struct{}, o.sendDepth),
		inbox: make(chan struct{}, o.recvDepth), shut: make(chan struct{}), ops: map[uint64]*op{},
		posted: make([]*Buffer, o.recvDepth)}
	for range o.sendDepth {
		q.slots <- struct{}{}
	}
	c.pd = pd
	c.qp, err = c.id.CreateQP(pd, verbs.QPInit{SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: o.sendDepth, MaxRecvWR: o.recvDepth}})
	if err != nil {
		return q, err
	}
	caps := c.qp.Query().Cap
	q.inline = caps.MaxInline
	for i := range q.posted {
		if err := q.postRecv(uint64(i)); err != nil {
			return q, err
		}
	}
	return q, nil
}

// resources returns the protection domain and the buffers for a connection.
func (m *manager) resources(dev *verbs.Device, o *options) (*verbs.PD, *Pool, error) {
	if o.pd != nil {
		pool := NewPool(o.pd, o.recvSize, 0) // belongs to the connection, so that the program can close its domain
		pool.slab = min(pool.slab, 2*o.recvDepth*o.recvSize)
		return o.pd, pool, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	pd, err := m.shared.domain(dev)
	if err != nil {
		return nil, nil, err
	}
	return pd, m.shared.pool(o.recvSize), nil
}

// postRecv posts the receive of a slot.
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

// until waits for an element of ch, and polls if no other goroutine does.
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
		case q.polling <- struct{}{}:
			ready, err := q.poll(ctx, ch)
			<-q.polling
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
	turn := turn{ch: ch}
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
			q.completed(&wcs[i], &turn)
		}
		if turn.has {
			return true, nil
		}
	}
}

// turn is what the goroutine that polls waits for: it takes the first element of ch that comes. Others that wait for
// ch would get all elements, as a channel hands them to goroutines that are asleep at it, and would be asleep again
// before the next one comes.
type turn struct {
	ch  <-chan struct{}
	has bool
}

// give puts an element into ch, or keeps it.
func (t *turn) give(ch chan struct{}) {
	if ch == t.ch && !t.has {
		t.has = true
		return
	}
	ch <- struct{}{}
}

// sleep waits for completions. It may return none: then ch must be checked again.
func (q *queues) sleep(ctx context.Context, ch <-chan struct{}, wcs []verbs.WC) (int, error) {
	if ch != q.slots {
		return q.cq.Wait(ctx, wcs)
	}
	// A slot may be freed without a completion, and nothing else may be in flight.
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	q.mu.Lock()
	q.wakePoller = cancel
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

// returnSlot frees the slot of a work request that was not posted.
func (q *queues) returnSlot() {
	q.slots <- struct{}{}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.wakePoller != nil {
		q.wakePoller()
	}
}

// broken returns the error for a caller that cannot continue.
func (q *queues) broken(err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrDisconnected
	}
	return err
}

// completed hands a completion to its owner.
func (q *queues) completed(wc *verbs.WC, t *turn) {
	if wc.Status != verbs.StatusSuccess && wc.Status != verbs.StatusWRFlushError {
		q.fail(wc.Err())
	}
	if wc.ID&recvID != 0 {
		q.received(wc, t)
		return
	}
	q.mu.Lock()
	o := q.ops[wc.ID]
	delete(q.ops, wc.ID)
	q.mu.Unlock()
	if o == nil {
		return // closed meanwhile
	}
	t.give(q.slots)
	if o.buf != nil {
		o.fetch()
		o.buf.Release()
	}
	o.wc = *wc
	o.done <- struct{}{}
}

// received queues a message for Recv. Only the goroutine that polls calls it, so a waiter is woken
// by a completion that it has polled itself, or is not polling.
func (q *queues) received(wc *verbs.WC, t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	place := wc.ID &^ recvID
	b := q.posted[place]
	q.posted[place] = nil
	switch {
	case wc.Status == verbs.StatusSuccess:
		b.WC, b.n = *wc, int(wc.ByteLen)
		if wc.Op == verbs.WCRecvWriteImm {
			b.n = 0 // the peer wrote the bytes where they are
		}
		q.arrived = append(q.arrived, b)
		t.give(q.inbox) // it has room for as many as are posted
		return
	case !q.drained:
		q.drained = true
		close(q.inbox)
	}
	b.Release()
}

// fail records the first error of the queue pair, and tells the peer that the connection is over.
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

// close frees the memory that the queues hold, once, after the queue pair was destroyed.
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
	q.c.id.m.releaseIdle() // its last connection may have ended before
	return err
}
