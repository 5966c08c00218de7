// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"context"
	"fmt"
	"net"

	"github.com/ramjet-rdma/ramjet/smbdirect/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Memory is registered memory of a connection: the peer reads and writes it while it is exposed, and READs and WRITEs
// of the peer's memory go to it and come from it.
type Memory struct {
	c  *Conn
	mr *verbs.MR
}

// AllocMemory allocates n bytes, which belong to the connection and are freed with it. While they are not exposed the
// peer cannot reach them by the descriptors that it was sent.
func (c *Conn) AllocMemory(n int) (*Memory, error) {
	m, err := c.allocMemory(n)
	if err != nil {
		return nil, c.opError("register", err)
	}
	return m, nil
}

func (c *Conn) allocMemory(n int) (*Memory, error) {
	c.using.RLock()
	defer c.using.RUnlock()
	if err := c.ended(); err != nil {
		return nil, err
	}
	access := verbs.LocalWrite | verbs.MWBind | c.link.ID().Device().Query().SinkAccess
	mr, err := c.ep.pd.AllocMR(n, access)
	if err != nil {
		return nil, err
	}
	m := &Memory{c: c, mr: mr}
	c.mu.Lock()
	c.memories[m] = true
	c.mu.Unlock()
	return m, nil
}

// Bytes returns the memory. It must not be used after Close, of the memory or of the connection.
func (m *Memory) Bytes() []byte { return m.mr.Bytes() }

// Close frees the memory. It fails while windows on it are open. Memory may be closed more than once, and after the
// connection.
func (m *Memory) Close() error {
	m.c.using.RLock()
	defer m.c.using.RUnlock()
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if !m.c.memories[m] { // it, or the connection is closed
		return nil
	}
	if err := m.mr.Close(); err != nil {
		return m.c.opError("deregister", err)
	}
	delete(m.c.memories, m)
	return nil
}

// Window is memory that is exposed to the peer.
type Window struct {
	m *Memory
	w *verbs.MW
	d wire.Descriptor
}

// Expose lets the peer read n bytes at off, or write them if writable is set, until the window is closed or the peer
// ends it by a SEND with invalidate.
func (m *Memory) Expose(ctx context.Context, off, n int, writable bool) (*Window, error) {
	w, err := m.expose(ctx, off, n, writable)
	if err != nil {
		return nil, m.c.opError("expose", err)
	}
	return w, nil
}

func (m *Memory) expose(ctx context.Context, off, n int, writable bool) (*Window, error) {
	c := m.c
	c.using.RLock()
	defer c.using.RUnlock()
	if err := c.ended(); err != nil {
		return nil, err
	}
	if off < 0 || n <= 0 || off > m.mr.Len()-n {
		return nil, fmt.Errorf("%d bytes at %d of memory of %d bytes", n, off, m.mr.Len())
	}
	mw, err := c.ep.pd.AllocMW(verbs.MWType2)
	if err != nil {
		return nil, err
	}
	access := verbs.RemoteRead
	if writable {
		access = verbs.RemoteWrite
	}
	at := m.mr.Remote().At(uint64(off)).Addr
	err = c.do(ctx, []verbs.SendWR{{Op: verbs.OpBindMW, Bind: &verbs.MWBindInfo{MW: mw, MR: m.mr, RKey: mw.NextRKey(),
		Addr: at, Length: uint64(n), Access: access}}})
	if err != nil {
		mw.Close()
		return nil, err
	}
	w := &Window{m: m, w: mw, d: wire.Descriptor{Offset: at, Token: uint32(mw.RKey()), Length: uint32(n)}}
	c.mu.Lock()
	c.windows[w] = true
	c.mu.Unlock()
	return w, nil
}

// Descriptor returns the descriptor for the peer.
func (w *Window) Descriptor() wire.Descriptor { return w.d }

// Close ends the exposure. A window may be closed more than once, and after the connection.
func (w *Window) Close() error {
	c := w.m.c
	c.using.RLock()
	defer c.using.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.windows[w] { // it, or the connection is closed
		return nil
	}
	if err := w.w.Close(); err != nil {
		return c.opError("close", err)
	}
	delete(c.windows, w)
	return nil
}

// ReadRemote reads the first n bytes that the peer's descriptors describe into m, by RDMA READ. If ctx ends before the
// transfer is complete, the connection ends with it, for the device still uses the memory.
func (c *Conn) ReadRemote(ctx context.Context, m *Memory, n int, ds []wire.Descriptor) error {
	return c.transfer(ctx, "rdma read", verbs.OpRead, m, n, ds)
}

// WriteRemote writes the first n bytes of m to the memory that the peer's descriptors describe, by RDMA WRITE. If ctx
// ends before, so does the connection.
func (c *Conn) WriteRemote(ctx context.Context, m *Memory, n int, ds []wire.Descriptor) error {
	return c.transfer(ctx, "rdma write", verbs.OpWrite, m, n, ds)
}

func (c *Conn) transfer(ctx context.Context, name string, op verbs.SendOp, m *Memory, n int,
	ds []wire.Descriptor) error {
	c.using.RLock()
	defer c.using.RUnlock()
	wrs, err := c.split(op, m, n, ds)
	if err == nil {
		err = c.do(ctx, wrs)
	}
	if err != nil {
		return c.opError(name, err)
	}
	return nil
}

// split returns an operation for each descriptor.
func (c *Conn) split(op verbs.SendOp, m *Memory, n int, ds []wire.Descriptor) (wrs []verbs.SendWR, err error) {
	if err := c.ended(); err != nil {
		return nil, err
	}
	if err := c.checkLength(n, c.limits.readWrite); err != nil {
		return nil, err
	}
	if m.c != c || n > m.mr.Len() {
		return nil, fmt.Errorf("%d bytes, where this connection's memory has %d", n, m.mr.Len())
	}
	off := 0
	for _, d := range ds {
		k := int(min(uint64(d.Length), uint64(n-off)))
		if k == 0 {
			continue
		}
		wrs = append(wrs, verbs.SendWR{Op: op, SGL: []verbs.SGE{m.mr.SGE(off, k)},
			Remote: verbs.Remote{Addr: d.Offset, Key: verbs.Key(d.Token)}})
		off += k
	}
	if off < n {
		return nil, fmt.Errorf("%d bytes, where the descriptors describe %d", n, off)
	}
	return wrs, nil
}

// do posts operations on memory and waits for all of them.
func (c *Conn) do(ctx context.Context, wrs []verbs.SendWR) error {
	results := make(chan error, len(wrs))
	for i := range wrs {
		select {
		case c.remoteOps <- struct{}{}:
		case <-c.ctx.Done():
			return c.ended()
		case <-ctx.Done():
			return c.giveUp(ctx.Err())
		}
		if err := c.postRemote(&wrs[i], results); err != nil {
			return err
		}
	}
	for range wrs {
		select {
		case <-results:
		case <-c.ctx.Done():
			return c.ended()
		case <-ctx.Done():
			return c.giveUp(ctx.Err())
		}
	}
	return nil
}

// giveUp ends the connection with operations on memory in flight.
func (c *Conn) giveUp(err error) error {
	c.fail(fmt.Errorf("a transfer was given up: %w", err))
	return err
}

func (c *Conn) postRemote(wr *verbs.SendWR, results chan<- error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return net.ErrClosed
	case c.err != nil:
		return c.err
	}
	slot := c.ops[len(c.ops)-1]
	wr.ID, wr.Flags = idRemote|uint64(slot), verbs.Signaled
	if err := c.ep.qp.PostSend(wr); err != nil {
		c.failLocked(err)
		return err
	}
	c.ops = c.ops[:len(c.ops)-1]
	c.results[slot] = results
	return nil
}
