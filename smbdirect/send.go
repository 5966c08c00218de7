// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/ramjet-rdma/ramjet/smbdirect/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// WriteMessage sends a message of 1 to [Conn.MaxMessage] bytes. It returns when all of it is in flight; the peer may
// have received none of it yet. If ctx ends while a part of the message is in flight, the connection ends with it.
func (c *Conn) WriteMessage(ctx context.Context, b []byte) error {
	return c.write(ctx, b, verbs.SendWR{Op: verbs.OpSend})
}

// WriteMessageInvalidate is WriteMessage, and ends the peer's exposure of memory that a descriptor with this token
// describes, as the peer asks for by SMB2_CHANNEL_RDMA_V1_INVALIDATE (MS-SMB2 2.2.19). A token that is no window of
// the peer's breaks the connection.
func (c *Conn) WriteMessageInvalidate(ctx context.Context, b []byte, token uint32) error {
	return c.write(ctx, b, verbs.SendWR{Op: verbs.OpSendInv, InvKey: verbs.Key(token)})
}

// write sends a message, the last fragment of it by last.
func (c *Conn) write(ctx context.Context, b []byte, last verbs.SendWR) error {
	err := c.checkLength(len(b), c.limits.fragmented)
	if err == nil {
		err = c.fragments(ctx, b, last)
	}
	if err != nil {
		return c.opError("write", err)
	}
	return nil
}

var errEmpty = errors.New("0 bytes: there has to be one at least")

func (c *Conn) checkLength(n, most int) error {
	switch {
	case n <= 0:
		return errEmpty
	case n > most:
		return fmt.Errorf("%d bytes are %w, which is %d", n, ErrTooLong, most)
	}
	return nil
}

// fragments sends a message, in as many fragments as it takes.
func (c *Conn) fragments(ctx context.Context, b []byte, last verbs.SendWR) error {
	if c.isClosed() { // whatever ctx says
		return net.ErrClosed
	}
	select {
	case c.writer <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.writer }()
	for begun := false; len(b) > 0; begun = true {
		slot, t, err := c.room(ctx)
		if err != nil {
			if begun {
				c.fail(fmt.Errorf("a message was given up after a part of it: %w", err))
			}
			return err
		}
		n := min(len(b), c.limits.send-wire.DataOffset)
		wr := verbs.SendWR{Op: verbs.OpSend}
		if n == len(b) {
			wr = last
		}
		t.RemainingDataLength = uint32(len(b) - n)
		if err := c.postData(&wr, slot, &t, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// room waits for a slot and a credit, and takes both.
func (c *Conn) room(ctx context.Context) (slot int, t wire.Transfer, err error) {
	for {
		c.mu.Lock()
		switch {
		case c.closed:
			err = net.ErrClosed
		case c.err != nil:
			err = c.err
		case len(c.slots) > 0 && c.flow.maySend():
			slot = c.slots[len(c.slots)-1]
			c.slots = c.slots[:len(c.slots)-1]
			t = c.header()
			c.sends++
			c.mu.Unlock()
			return slot, t, nil
		}
		c.mu.Unlock()
		if err != nil {
			return 0, t, err
		}
		select {
		case <-c.sendable:
		case <-c.ctx.Done():
		case <-ctx.Done():
			return 0, t, ctx.Err()
		}
	}
}

// header returns the header of the next message, for which it takes a credit. mu is held.
func (c *Conn) header() wire.Transfer {
	t := wire.Transfer{CreditsRequested: uint16(c.opt.SendCredits), CreditsGranted: c.flow.send()}
	if c.asks {
		t.Flags = wire.ResponseRequested
	}
	c.asks, c.answers = false, false
	return t
}

// postData sends data in a slot.
func (c *Conn) postData(wr *verbs.SendWR, slot int, t *wire.Transfer, data []byte) error {
	at := slot * c.opt.MaxSendSize
	to := c.ep.send.Bytes()[at:][:c.limits.send]
	copy(to[len(t.AppendHeader(to[:0], len(data))):], data)
	wr.ID, wr.Flags = idSend|uint64(slot), verbs.Signaled
	wr.SGL = []verbs.SGE{c.ep.send.SGE(at, wire.DataOffset+len(data))}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if err := c.ep.qp.PostSend(wr); err != nil {
		c.failLocked(err)
		return err
	}
	return nil
}

// sendControl sends a message without data: for credits, to request a response, or in response. mu is held.
func (c *Conn) sendControl() error {
	t := c.header()
	var b [wire.HeaderSize]byte
	if err := c.ep.postInline(t.AppendHeader(b[:0], 0)); err != nil {
		return err
	}
	c.sends++
	c.controls++
	return nil
}
