// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"io"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Readiness is the set of operations that a Conn or PacketConn can do without waiting.
type Readiness uint8

const (
	Readable Readiness = 1 << iota // data, the end, or an error can be read
	Writable                       // something can be written, or a write returns an error
	PeerGone                       // the peer has closed the connection, and everything was read
	Broken                         // the connection has failed otherwise, and everything was read
)

// notifier calls the function set by Notify, if any.
type notifier struct{ f atomic.Pointer[func()] }

func (n *notifier) call() {
	if f := n.f.Load(); f != nil {
		(*f)()
	}
}

// Notify sets the function that is called at least once after each Arm, when the result of Ready may have changed. It
// runs in the goroutine that notices the change: it must neither block nor use the connection or its device.
//
// Notify, Arm and Ready, with the calls that begin with Try, are for programs that wait for several
// things at once by means of their own, as poll and select do.
func (c *Conn) Notify(f func()) { c.ep.notify.f.Store(&f) }

// Ready polls, and returns the operations that need not wait.
func (c *Conn) Ready() Readiness {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.progress()
	return c.readiness()
}

// Arm requests a call of Notify's function, and then returns as Ready does. The program promises to call a method of
// the connection again: meanwhile a silent peer is probed, as while a Read waits.
func (c *Conn) Arm() Readiness {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.readiness()
	}
	c.armed = true
	c.flush()
	c.alive.await()
	if err := c.ep.cq.ReqNotify(false); err != nil {
		c.fail(err)
	}
	c.progress()
	return c.readiness()
}

func (c *Conn) readiness() (r Readiness) {
	if c.closed || c.readable() {
		r |= Readable
	}
	if c.writable() {
		r |= Writable
	}
	if _, n := c.stream.Readable(); n > 0 {
		return r
	}
	switch {
	case c.stream.PeerGone(): // the connection's later state does not matter
		r |= PeerGone
	case c.err != nil:
		r |= Broken
	}
	return r
}

// progress handles completions, unless another goroutine is about to. mu is held.
func (c *Conn) progress() {
	for !c.poll.busy && !c.closed {
		n := c.ep.cq.Poll(c.poll.wcs[:])
		c.handle(c.poll.wcs[:n], nil)
		if n < len(c.poll.wcs) {
			return
		}
	}
}

// TryRead is a non-blocking Read: syscall.EAGAIN if there is nothing to read.
func (c *Conn) TryRead(b []byte) (int, error) { return c.tryRead(b, c.take) }

// TryPeek is TryRead, but leaves the data to be read again.
func (c *Conn) TryPeek(b []byte) (int, error) { return c.tryRead(b, c.peek) }

func (c *Conn) tryRead(b []byte, take func([]byte) (int, error)) (int, error) {
	c.readMu.Lock()
	defer c.readMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(&c.read); err != nil {
		return 0, c.opError("read", err)
	}
	if len(b) == 0 {
		return 0, nil
	}
	if !c.readable() {
		if c.progress(); !c.readable() {
			return 0, syscall.EAGAIN
		}
	}
	n, err := take(b)
	if err != nil && err != io.EOF {
		err = c.opError("read", err)
	}
	return n, err
}

// peek copies readable data.
func (c *Conn) peek(b []byte) (int, error) {
	off, n := c.stream.Readable()
	switch {
	case n > 0:
		n = copy(b, c.ep.recv.Bytes()[off:off+n])
		if more := c.stream.Wrapped(); n < len(b) {
			n += copy(b[n:], c.ep.recv.Bytes()[:more])
		}
		return n, nil
	case c.stream.EOF():
		return 0, io.EOF
	}
	return 0, c.err
}

// TryWrite writes as much of b as there is room for; syscall.EAGAIN if there is none.
func (c *Conn) TryWrite(b []byte) (int, error) {
	return c.tryWrite(b, func(b []byte, _ int) (int, error) { return c.writeSome(b, false) })
}

// TryWriteAt is a non-blocking WriteAt.
func (c *Conn) TryWriteAt(b []byte, off int64) (int, error) {
	return c.tryWrite(b, func(b []byte, done int) (int, error) { return c.writeMapped(b, uint64(off)+uint64(done)) })
}

func (c *Conn) tryWrite(b []byte, post func(b []byte, done int) (int, error)) (n int, err error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
	err = c.usable(&c.write)
	for err == nil && n < len(b) {
		var k int
		if c.hasRoom() {
			k, err = post(b[n:], n)
			n += k
		}
		if err == nil && k == 0 {
			break
		}
	}
	switch {
	case n > 0 || len(b) == 0 && err == nil:
		return n, nil
	case err != nil:
		return 0, c.opError("write", err)
	}
	return 0, syscall.EAGAIN
}

// hasRoom waits for room, or for the reason why there will be none.
func (c *Conn) hasRoom() bool {
	if !c.writable() {
		c.progress()
	}
	return c.writable()
}

// TryMap is a non-blocking Map, for memory that is not Go's: see verbs.External. It returns
// syscall.EAGAIN if there is no room for the message to the peer.
func (c *Conn) TryMap(buf []byte, offset int64) (*verbs.MR, error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
	if !c.hasRoom() {
		return nil, syscall.EAGAIN
	}
	if err := c.writeErr(); err != nil {
		return nil, c.opError("map", err)
	}
	return c.mapNow(offset, func() (*verbs.MR,
		error) {
		return c.ep.pd.RegMR(buf, mapAccess, verbs.External(uint64(offset)))
	})
}

// Disconnect looks to the peer like Close: it reads io.EOF and can write no more. Disconnect
// waits as Close does. Received data can still be read.
func (c *Conn) Disconnect() error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if err := c.disconnect(); err != nil {
		return c.opError("close", err)
	}
	return nil
}

// SetKeepAlivePeriod changes Options.KeepAlive.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.alive.setPeriod(d, c.waits())
	}
}
