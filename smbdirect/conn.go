// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Conn is a connection of SMB Direct. All methods may be called from several goroutines at once. One goroutine takes
// its completions.
type Conn struct {
	opt           Options
	ep            *endpoint
	link          *cm.Conn
	limits        limits
	local, remote *net.TCPAddr
	released      func() // called once it is closed

	ctx       context.Context // ends with the connection
	cancel    context.CancelFunc
	pumped    chan struct{} // closed when completions are no longer taken
	reader    chan struct{} // one element while a ReadMessage runs
	writer    chan struct{} // one element while a WriteMessage runs
	arrived   chan struct{} // one element: look for messages again
	sendable  chan struct{} // one element: look for room to send again
	remoteOps chan struct{} // one element for each operation on memory in flight
	using     sync.RWMutex  // held for writing while memory is freed, for reading while it is used

	mu       sync.Mutex // guards the fields below
	flow     flow
	idle     idle
	assembly reassembly
	queue    [][]byte // messages that wait for ReadMessage
	queued   int      // bytes of them
	held     []int    // slots of receives that are not posted
	slots    []int    // for messages with data, that are free
	sends    int      // messages in flight
	controls int      // of them, messages without data
	asks     bool     // a message that requests a response is due
	answers  bool     // a message in response is due
	flushed  chan struct{}
	ops      []int          // slots of operations on memory that are free
	results  []chan<- error // by slot
	memories map[*Memory]bool
	windows  map[*Window]bool // that are open
	timer    *time.Timer
	err      error // why the connection has ended
	closed   bool
}

// newConn creates a Conn after the negotiation, in which the first receive was used. If it fails the caller still owns
// endpoint and link.
func newConn(ep *endpoint, link *cm.Conn, l limits, f flow, released func()) *Conn {
	o := ep.opt
	c := &Conn{opt: o, ep: ep, link: link, limits: l, released: released,
		local: net.TCPAddrFromAddrPort(link.LocalAddr()), remote: net.TCPAddrFromAddrPort(link.PeerAddr()),
		pumped: make(chan struct{}), reader: make(chan struct{}, 1), writer: make(chan struct{}, 1),
		arrived: make(chan struct{}, 1), sendable: make(chan struct{}, 1), remoteOps: make(chan struct{}, remoteOps),
		flushed: make(chan struct{}, 1), results: make([]chan<- error, remoteOps),
		memories: make(map[*Memory]bool), windows: make(map[*Window]bool),
		flow: f, idle: idle{interval: o.Idle, response: o.IdleResponse},
		assembly: reassembly{limit: o.MaxFragmentedSize}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for slot := range o.RecvCredits {
		c.held = append(c.held, slot)
	}
	for slot := range o.SendCredits {
		c.slots = append(c.slots, slot)
	}
	for slot := range remoteOps {
		c.ops = append(c.ops, slot)
	}
	return c
}

// start begins to take completions.
func (c *Conn) start() {
	c.mu.Lock()
	now := time.Now()
	c.idle.received(now)
	c.timer = time.AfterFunc(c.opt.Idle, c.tick)
	c.progress()
	c.mu.Unlock()
	go c.pump()
}

// LocalAddr returns this side's address and port, a *net.TCPAddr: the ports are ports of the connection manager's TCP
// port space, not of the host's TCP.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the other side's address and port, a *net.TCPAddr.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// MaxMessage returns how many bytes the longest message has that the peer takes.
func (c *Conn) MaxMessage() int { return c.limits.fragmented }

// MaxReadWrite returns how many bytes the longest transfer through the RDMA channel has.
func (c *Conn) MaxReadWrite() int { return c.limits.readWrite }

// Done returns a channel that is closed when the connection has ended. Messages that arrived before can still be read.
func (c *Conn) Done() <-chan struct{} { return c.ctx.Done() }

// Err returns why the connection has ended; nil: it has not.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// pump takes completions until the connection has ended. Fragments that arrived before the peer closed it are taken,
// too.
func (c *Conn) pump() {
	defer close(c.pumped)
	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	go func() {
		select {
		case <-c.link.Done():
			stop()
		case <-ctx.Done():
		}
	}()
	wcs := make([]verbs.WC, 32)
	for c.ctx.Err() == nil {
		n, err := c.ep.cq.Wait(ctx, wcs)
		switch {
		case n > 0:
			c.handle(wcs[:n])
		case err != nil && ctx.Err() != nil:
			for n := c.ep.cq.Poll(wcs); n > 0; n = c.ep.cq.Poll(wcs) {
				c.handle(wcs[:n])
			}
			c.fail(io.EOF)
		case err != nil:
			c.fail(err)
		}
	}
	c.link.ID().Disconnect() // so that the peer hears of it at once; fails if it has gone
}

// handle handles completions.
func (c *Conn) handle(wcs []verbs.WC) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range wcs {
		wc := &wcs[i]
		if wc.Status != verbs.StatusSuccess {
			c.failLocked(statusErr(wc, c.ep.qp))
			continue
		}
		switch slot := int(wc.ID &^ idMask); wc.ID & idMask {
		case idRecv:
			c.received(slot, int(wc.ByteLen))
		case idSend:
			c.sends--
			c.slots = append(c.slots, slot)
		case idControl:
			c.sends--
			c.controls--
		case idRemote:
			c.results[slot] <- nil
			c.ops = append(c.ops, slot)
			<-c.remoteOps
		}
	}
	c.progress()
}

// progress posts the messages that are due, and wakes goroutines that can go on. mu is held.
func (c *Conn) progress() {
	if c.err != nil {
		return
	}
	if err := c.postReceives(); err != nil {
		c.failLocked(err)
		return
	}
	for (c.asks || c.answers || c.flow.due()) && c.flow.maySend() && c.controls < spareSends {
		if err := c.sendControl(); err != nil {
			c.failLocked(err)
			return
		}
	}
	if len(c.slots) > 0 && c.flow.maySend() {
		wake(c.sendable)
	}
	if len(c.queue) > 0 {
		wake(c.arrived)
	}
	if c.sends == 0 {
		wake(c.flushed)
	}
}

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// fail ends the connection.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(err)
}

func (c *Conn) failLocked(err error) {
	if c.err == nil {
		c.err = err
		c.cancel()
	}
}

func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "smbdirect", Source: c.local, Addr: c.remote, Err: err}
}

// ended returns why a call cannot go on.
func (c *Conn) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	return c.err
}

// freeMemory frees the memory that the program has left.
func (c *Conn) freeMemory() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for w := range c.windows {
		errs = append(errs, w.w.Close())
	}
	for m := range c.memories {
		errs = append(errs, m.mr.Close())
	}
	clear(c.windows)
	clear(c.memories)
	return errors.Join(errs...)
}

func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Close closes the connection. It waits until the peer's device has the written data, for at most Options.Linger. The
// connection's memory is freed, too.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.opError("close", net.ErrClosed)
	}
	c.closed = true
	wake(c.arrived)
	wake(c.sendable)
	c.timer.Stop()
	c.mu.Unlock()
	late := time.NewTimer(c.opt.Linger)
	for more := true; more; {
		c.mu.Lock()
		more = c.sends > 0 && c.err == nil
		c.mu.Unlock()
		if more {
			select {
			case <-c.flushed:
			case <-c.ctx.Done():
			case <-late.C:
				more = false
			}
		}
	}
	late.Stop()
	c.fail(net.ErrClosed)
	<-c.pumped
	// Goroutines that use the memory have seen that the connection has ended, or will.
	c.reader <- struct{}{}
	c.writer <- struct{}{}
	c.using.Lock()
	defer func() {
		c.using.Unlock()
		<-c.reader
		<-c.writer
	}()
	err := c.link.Close()
	err = errors.Join(err, c.freeMemory(), c.ep.close())
	c.released()
	if err != nil {
		return c.opError("close", err)
	}
	return nil
}
