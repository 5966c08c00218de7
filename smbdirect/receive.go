// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/ramjet-rdma/ramjet/smbdirect/wire"
)

// received handles a Data Transfer message (MS-SMBD 3.1.5.8). mu is held.
func (c *Conn) received(slot, n int) {
	if c.err != nil {
		return
	}
	if err := c.take(c.ep.received(slot, n)); err != nil {
		c.failLocked(err)
		return
	}
	c.held = append(c.held, slot)
}

func (c *Conn) take(b []byte) error {
	var t wire.Transfer
	data, err := t.Decode(b)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if err := c.flow.received(&t); err != nil {
		return err
	}
	message, err := c.assembly.add(&t, data)
	if err != nil {
		return err
	}
	c.idle.received(time.Now())
	c.timer.Reset(c.opt.Idle)
	if t.Flags&wire.ResponseRequested != 0 {
		c.answers = true
	}
	if message != nil {
		c.queue = append(c.queue, message)
		c.queued += len(message)
	}
	return nil
}

// postReceives posts receives, unless the program lags behind. mu is held.
func (c *Conn) postReceives() error {
	for len(c.held) > 0 && c.flow.mayPost() && c.queued <= c.opt.MaxFragmentedSize {
		slot := c.held[len(c.held)-1]
		if err := c.ep.postRecv(slot); err != nil {
			return err
		}
		c.held = c.held[:len(c.held)-1]
		c.flow.posted++
	}
	return nil
}

// ReadMessage returns the next message, which is the caller's. Messages that arrived before the connection ended are
// returned first.
func (c *Conn) ReadMessage(ctx context.Context) ([]byte, error) {
	b, err := c.readMessage(ctx)
	if err != nil {
		return nil, c.opError("read", err)
	}
	return b, nil
}

func (c *Conn) readMessage(ctx context.Context) ([]byte, error) {
	if c.isClosed() { // whatever ctx says
		return nil, net.ErrClosed
	}
	select {
	case c.reader <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-c.reader }()
	for {
		if b, err := c.next(); b != nil || err != nil {
			return b, err
		}
		select {
		case <-c.arrived:
		case <-c.ctx.Done():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// next takes a message from the queue. nil: there is none yet.
func (c *Conn) next() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, net.ErrClosed
	case len(c.queue) == 0:
		return nil, c.err
	}
	b := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	c.queued -= len(b)
	c.progress()
	return b, nil
}
