// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/rsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// link is the connection under a Conn. Close ends it and destroys the queue pair.
type link interface {
	LocalAddr() netip.AddrPort
	PeerAddr() netip.AddrPort
	Close() error
}

// Conn is a stream connection: a net.Conn.
type Conn struct {
	ep            *endpoint
	link          link
	local, remote *net.TCPAddr

	readMu, writeMu sync.Mutex // held for a whole Read, Write; before mu

	mu      sync.Mutex // guards the fields that follow
	stream  *rsocket.Stream
	poll    poller
	alive   keepAlive
	held    hold
	read    side
	write   side
	closing side
	err     error // why the connection is broken; nil: it is not
	closed  bool
	armed   bool        // see Arm
	maps    []*verbs.MR // memory that the peer may write to, by its index; nil: free. Guarded by writeMu

	post rsocket.Post
	wrs  [2]verbs.SendWR
	sge  [2]verbs.SGE
	out  [rsocket.WordSize]byte
}

var _ net.Conn = (*Conn)(nil)

// newConn creates a Conn on an endpoint that link connects. peer is the peer's private data. If it
// fails the caller still owns endpoint and link.
func newConn(ep *endpoint, l link, peer []byte) (*Conn, error) {
	attr := ep.qp.Query()
	ep.shape(attr.PathMTU.Bytes())
	stream, err := newStream(ep.cfg, peer)
	if err != nil {
		return nil, err
	}
	c := &Conn{ep: ep, link: l, stream: stream,
		local: net.TCPAddrFromAddrPort(l.LocalAddr()), remote: net.TCPAddrFromAddrPort(l.PeerAddr())}
	c.poll.init(c)
	c.alive = keepAlive{period: ep.opt.KeepAlive, heard: time.Now(), probe: c.probe}
	c.held.release = c.release
	c.read.init(&c.mu, c.readable)
	c.write.init(&c.mu, c.writable)
	c.closing.init(&c.mu, c.flushed)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.control()
	return c, c.err
}

func newStream(cfg rsocket.Config, peer []byte) (*rsocket.Stream, error) {
	var data rsocket.ConnData
	if !data.Decode(peer) {
		return nil, fmt.Errorf("%w: no rsocket: its private data has %d bytes", rsocket.ErrProtocol, len(peer))
	}
	return rsocket.NewStream(cfg, &data)
}

// LocalAddr returns this side's address and port, a *net.TCPAddr: the ports are ports of the connection manager's TCP
// port space, not of the host's TCP.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the other side's address and port, a *net.TCPAddr.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Read reads data that has arrived. It returns io.EOF once the peer has closed its side and everything
// was read.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.readSome(b)
	if err != nil && err != io.EOF {
		err = c.opError("read", err)
	}
	return n, err
}

func (c *Conn) readSome(b []byte) (n int, err error) {
	c.readMu.Lock()
	defer c.readMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(b) == 0 {
		return 0, c.usable(&c.read)
	}
	if err := c.await(&c.read); err != nil {
		return 0, err
	}
	return c.take(b)
}

// take reads from the ring. readMu and mu are held.
func (c *Conn) take(b []byte) (n int, err error) {
	ring := c.ep.recv.Bytes()
	for n < len(b) {
		off, k := c.stream.Readable()
		if k = min(k, len(b)-n); k == 0 {
			break
		}
		c.mu.Unlock()
		copy(b[n:], ring[off:off+k])
		c.mu.Lock()
		c.stream.Consume(k)
		n += k
		c.control()
	}
	switch {
	case n > 0:
		return n, nil
	case c.stream.EOF():
		return 0, io.EOF
	}
	return 0, c.err
}

// Write writes b. It returns when all of it is in flight; the peer may have received none of it
// yet.
func (c *Conn) Write(b []byte) (n int, err error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	hold := c.holds()
	for n < len(b) && err == nil {
		if err = c.await(&c.write); err == nil {
			var k int
			k, err = c.writeSome(b[n:], hold)
			n += k
		}
	}
	if len(b) == 0 {
		err = c.usable(&c.write)
	}
	c.keep()
	if err != nil {
		err = c.opError("write", err)
	}
	return n, err
}

// writeSome takes as much as one message has room for, and posts the message unless more can go
// with it. It may return 0: there is no room any more.
func (c *Conn) writeSome(b []byte, hold bool) (int, error) {
	if err := c.writeErr(); err != nil {
		return 0, err
	}
	if len(b) <= c.ep.cfg.Inline && c.stream.Staged() == 0 && !hold {
		n := min(len(b), c.stream.InlineRoom())
		if n > 0 {
			c.stream.SendInline(n, &c.post)
			c.postNow(b[:n])
		}
		return n, nil
	}
	off, n := c.stream.Room()
	if n = min(n, len(b)); n <= 0 {
		return 0, nil
	}
	c.held.copying = true
	c.mu.Unlock()
	c.ep.fill(off, b[:n])
	c.mu.Lock()
	c.held.copying = false
	if err := c.writeErr(); err != nil { // state may have changed meanwhile
		return 0, err
	}
	c.stream.Stage(n)
	if full := c.stream.Full(); full || n < len(b) || !hold || c.held.due {
		if full {
			c.held.full++
		}
		c.postStaged()
	}
	return n, nil
}

// CloseWrite says that nothing more is written: the peer reads io.EOF after the last data.
// Reading goes on. CloseWrite may have to wait for the peer's device to acknowledge earlier
// messages, at most until the write deadline. Then the next caller that waits sends the message.
func (c *Conn) CloseWrite() error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.flush()
	c.stream.Shutdown()
	c.control()
	if c.writable() {
		return nil
	}
	// There may be no reader to see completions and continue.
	if err := c.await(&c.write); err != nil {
		return c.opError("close", err)
	}
	return nil
}

// postNow posts c.post. data is the program's memory that it refers to.
func (c *Conn) postNow(data []byte) {
	p := &c.post
	remote := verbs.Remote{Addr: p.Remote.Addr, Key: verbs.Key(p.Remote.Key)}
	c.wrs[0] = verbs.SendWR{ID: p.ID, Op: verbs.OpWrite, Remote: remote}
	n := 1
	switch wr := &c.wrs[0]; {
	case p.InRing:
		first := min(p.Len, c.ep.cfg.SendBuf-p.Off)
		c.sge[0] = c.ep.send.SGE(p.Off, first)
		wr.SGL = c.sge[:1]
		if first < p.Len {
			c.sge[1] = c.ep.send.SGE(0, p.Len-first)
			wr.SGL = c.sge[:]
		}
		wr.Flags = verbs.Divisible
	case p.Len > 0:
		wr.Inline = data
	case p.NInline > 0:
		wr.Inline = p.Inline[:p.NInline]
	case p.Msg.Op() != rsocket.OpWrite:
		n = 0
	}
	if p.Msg.Op() != rsocket.OpWrite {
		n = c.addMessage(n, remote)
	}
	if p.Signaled {
		c.wrs[n-1].Flags |= verbs.Signaled
	}
	if _, err := c.ep.qp.PostSendList(c.wrs[:n]); err != nil {
		c.fail(err)
	}
}

// addMessage adds the message of c.post to n work requests that write its data, none or one, and
// returns the new number.
//
// If the immediate data would make the last packet longer than the packets before it, and it could not leave in one
// send with them, the message is an empty WRITE with immediate behind the data. The peer sees no difference.
func (c *Conn) addMessage(n int, remote verbs.Remote) int {
	p, mtu := &c.post, c.ep.mtu
	switch {
	case c.ep.cfg.Sends:
		c.stream.PutWord(c.out[:], p.Msg)
		c.wrs[n] = verbs.SendWR{ID: p.ID, Op: verbs.OpSend, Inline: c.out[:]}
		return n + 1
	case n == 0 || p.Len > mtu && (p.Len-1)%mtu >= mtu-immSize:
		c.wrs[n] = verbs.SendWR{ID: p.ID, Op: verbs.OpWriteImm, Imm: uint32(p.Msg), Remote: remote}
		return n + 1
	}
	c.wrs[0].Op, c.wrs[0].Imm = verbs.OpWriteImm, uint32(p.Msg)
	return n
}

// immSize is how much longer immediate data makes a packet, in bytes.
const immSize = 4

// control posts the messages that are due on their own.
func (c *Conn) control() {
	for c.err == nil && c.stream.NextControl(&c.post) {
		c.postNow(nil)
	}
}

// fail breaks the connection. The goroutine that notices may not be the one that waits.
func (c *Conn) fail(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	c.ep.notify.call()
	for _, s := range [...]*side{&c.read, &c.write, &c.closing} {
		s.wakeUp()
	}
}

func (c *Conn) readable() bool {
	_, n := c.stream.Readable()
	return n > 0 || c.stream.EOF() || c.err != nil
}

// writable reports whether Write has room or an error to return, and CloseWrite has sent
// everything.
func (c *Conn) writable() bool {
	if c.stream.InlineRoom() == 0 {
		return c.writeErr() != nil && (c.err != nil || c.stream.ShutdownSent())
	}
	_, n := c.stream.Room()
	return n > 0 || c.writeErr() != nil
}

func (c *Conn) flushed() bool { return c.stream.Flushed() || c.stream.PeerGone() || c.err != nil }

// writeErr returns why nothing can be written any more.
func (c *Conn) writeErr() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.stream.PeerGone() || c.stream.ShutDown():
		return syscall.EPIPE
	}
	return c.err
}

// usable returns why a side can do nothing, not even wait.
func (c *Conn) usable(s *side) error {
	switch {
	case c.closed && s != &c.closing:
		return net.ErrClosed
	case s.expired:
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "rdma", Source: c.local, Addr: c.remote, Err: netError(err)}
}

// Close closes the connection. It waits until the peer has received all data, for at most
// [Options.Linger]; the peer then reads io.EOF. Pending Reads and Writes return net.ErrClosed at
// once.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.opError("close", net.ErrClosed)
	}
	c.closed = true
	c.alive.stop()
	if c.held.timer != nil {
		c.held.timer.Stop()
	}
	c.read.setDeadline(time.Time{}) // wakes it up too
	c.write.setDeadline(time.Time{})
	err := c.disconnect()
	c.mu.Unlock()
	if err != nil {
		err = c.opError("close", err)
	}
	// With both locks held no other goroutine uses the rings or the queue pair any more.
	c.readMu.Lock()
	defer c.readMu.Unlock()
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	for _, f := range []func() error{c.link.Close, c.closeMaps, c.ep.close} {
		if e := f(); e != nil && err == nil {
			err = c.opError("close", e)
		}
	}
	return err
}

// disconnect tells the peer that nothing more is sent or received, and waits until it has
// everything that was written.
func (c *Conn) disconnect() error {
	c.postStaged()
	c.stream.Disconnect()
	c.control()
	c.closing.setDeadline(time.Now().Add(c.ep.opt.Linger))
	if err := c.await(&c.closing); err != nil {
		c.closing.wakeUp() // Close and Disconnect may both wait: they share the deadline
		return err
	}
	c.closing.setDeadline(time.Time{})
	return nil
}
