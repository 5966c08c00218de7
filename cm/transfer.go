// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// CQ returns the queue where sends and receives complete; nil with [WithSetup]. It is for
// inspection only: the Conn polls it.
func (c *Conn) CQ() *verbs.CQ {
	if c.queues == nil {
		return nil
	}
	return c.queues.cq
}

// Pool returns registered buffers of the connection's protection domain, of the size of the
// longest message that it receives; nil with [WithSetup]. Other connections may share it.
func (c *Conn) Pool() *Pool {
	if c.queues == nil {
		return nil
	}
	return c.queues.pool
}

// Send sends one message and waits until the peer has received it, or over iWARP, until TCP has it
// (docs/iwarp.md). It copies p, which the caller may reuse on return, even if ctx ended first: then
// the message may still arrive. A message longer than the peer's receives breaks the connection.
func (c *Conn) Send(ctx context.Context, p []byte) error {
	q := c.queues
	if q == nil {
		return errSetup("send")
	}
	wr := verbs.SendWR{Op: verbs.OpSend}
	if len(p) <= q.inline {
		wr.Inline = p
		_, err := q.do(ctx, &wr, nil)
		return c.explain("send", err)
	}
	b, err := q.pool.Get(len(p))
	if err != nil {
		return err
	}
	copy(b.Bytes(), p)
	sge := [1]verbs.SGE{b.SGE(len(p))}
	wr.SGL = sge[:]
	_, err = q.do(ctx, &wr, b)
	return c.explain("send", err)
}

// SendFrom sends one message from registered memory, without a copy, and waits as Send does. The
// memory belongs to the device until SendFrom returns nil or the connection is closed.
func (c *Conn) SendFrom(ctx context.Context, sgl ...verbs.SGE) error {
	_, err := c.perform(ctx, "send", &verbs.SendWR{Op: verbs.OpSend, SGL: sgl})
	return err
}

// Write writes registered memory to the peer's (RDMA WRITE) and waits for its completion. The
// memory belongs to the device until Write returns nil or the connection is closed.
func (c *Conn) Write(ctx context.Context, local verbs.SGE, remote verbs.Remote) error {
	_, err := c.perform(ctx, "write", &verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{local}, Remote: remote})
	return err
}

// Read reads the peer's memory into registered memory (RDMA READ) and waits for its completion. The
// memory belongs to the device until Read returns nil or the connection is closed. It needs the access of
// [verbs.DeviceAttr].SinkAccess. Buffers of the connection's pool allow no more than LocalWrite.
func (c *Conn) Read(ctx context.Context, local verbs.SGE, remote verbs.Remote) error {
	_, err := c.perform(ctx, "read", &verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{local}, Remote: remote})
	return err
}

// Do posts any work request and waits for its completion, whose Status is Success if the error is
// nil. The Conn sets the request's ID and its Signaled flag.
func (c *Conn) Do(ctx context.Context, wr *verbs.SendWR) (verbs.WC, error) {
	return c.perform(ctx, "post_send", wr)
}

func (c *Conn) perform(ctx context.Context, op string, wr *verbs.SendWR) (verbs.WC, error) {
	if c.queues == nil {
		return verbs.WC{}, errSetup(op)
	}
	wc, err := c.queues.do(ctx, wr, nil)
	return wc, c.explain(op, unaligned(wr, err))
}

// do posts a work request when there is room, and waits until it has completed. It makes sure that
// buf is released.
func (q *queues) do(ctx context.Context, wr *verbs.SendWR, buf *Buffer) (verbs.WC, error) {
	return q.await(ctx, wr, newOp(buf))
}

// await posts a work request and waits for its completion; o is its state until then.
func (q *queues) await(ctx context.Context, wr *verbs.SendWR, o *op) (verbs.WC, error) {
	err := q.until(ctx, q.slots)
	if err == nil {
		if err = q.post(wr, o); err != nil {
			q.returnSlot()
		}
	}
	if err != nil {
		if o.buf != nil {
			o.buf.Release()
		}
		return verbs.WC{}, err
	}
	if err := q.until(ctx, o.done); err != nil {
		return verbs.WC{}, err
	}
	return o.wc, o.wc.Err()
}

// post posts a work request with an ID of its own.
func (q *queues) post(wr *verbs.SendWR, o *op) error {
	mine := *wr
	mine.Flags |= verbs.Signaled
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrDisconnected
	}
	q.last++
	mine.ID = q.last
	q.ops[mine.ID] = o
	err := q.c.qp.PostSend(&mine)
	if err != nil {
		delete(q.ops, mine.ID)
	}
	return err
}

// Recv returns the next message, in a buffer that the caller releases. It returns io.EOF after the
// connection has ended and all messages have been returned.
func (c *Conn) Recv(ctx context.Context) (*Buffer, error) {
	q := c.queues
	if q == nil {
		return nil, errSetup("recv")
	}
	if err := q.until(ctx, q.inbox); err != nil {
		if err == ErrDisconnected {
			err = io.EOF
		}
		return nil, c.explain("recv", err)
	}
	b := q.fetch()
	if b == nil {
		return nil, c.explain("recv", q.ending())
	}
	if err := q.postRecv(b.WC.ID &^ recvID); err != nil && err != ErrDisconnected { // closed meanwhile
		q.fail(err)
	}
	return b, nil
}

// fetch takes the oldest message, or returns nil if no more will come.
func (q *queues) fetch() *Buffer {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.arrived) == 0 {
		return nil
	}
	b := q.arrived[0]
	q.arrived[0] = nil
	q.arrived = q.arrived[1:]
	return b
}

// ending returns why no more messages come.
func (q *queues) ending() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failure != nil {
		return q.failure
	}
	return io.EOF
}

// explain names the peer in an error, and turns a flushed work request into ErrDisconnected if the
// connection has ended.
func (c *Conn) explain(op string, err error) error {
	switch err {
	case nil, io.EOF, context.Canceled, context.DeadlineExceeded:
		return err
	}
	q := c.queues
	q.mu.Lock()
	defer q.mu.Unlock()
	if s, ok := err.(*verbs.StatusError); ok && s.Status == verbs.StatusWRFlushError {
		if err = ErrDisconnected; q.failure != nil {
			err = q.failure
		}
	}
	if errors.Is(err, verbs.ErrClosed) {
		err = fmt.Errorf("%w: the device is closed", ErrDisconnected)
	}
	return fmt.Errorf("cm: %s, connection to %v: %w", op, c.peer, err)
}
