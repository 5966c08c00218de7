// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// link is the connection under a Conn. Close ends it and destroys the queue pair.
type link interface {
	LocalAddr() netip.AddrPort
	PeerAddr() netip.AddrPort
	Close() error
}

// Conn is a connection in the protocol of Valkey over RDMA: a net.Conn. All methods may be called
// from several goroutines at once. Concurrent Reads, or Writes, run one after the other.
type Conn struct {
	ep            *endpoint
	link          link
	local, remote *net.TCPAddr
	chunk         int    // bytes of the longest message
	released      func() // called once it is closed

	readMu, writeMu sync.Mutex // held for a whole Read, Write; before mu

	mu      sync.Mutex // guards the fields below
	stream  stream
	sends   sends
	poll    poller
	alive   keepAlive
	read    side
	write   side
	closing side
	err     error // why the connection is broken; nil: it is not
	ended   bool  // the peer has closed it
	closed  bool

	wr  verbs.SendWR
	sge [1]verbs.SGE
	out [MessageSize]byte
}

var _ net.Conn = (*Conn)(nil)

// newConn creates a Conn on an endpoint that link connects. If it fails the caller still owns both.
func newConn(ep *endpoint, l link, server bool, released func()) (*Conn, error) {
	attr := ep.qp.Query()
	c := &Conn{ep: ep, link: l, local: net.TCPAddrFromAddrPort(l.LocalAddr()),
		remote: net.TCPAddrFromAddrPort(l.PeerAddr()),
		chunk:  chunkOf(attr.PathMTU.Bytes()), released: released, sends: newSends(ep.opt.SendBuffer, ep.opt.SendQueue)}
	c.stream = stream{server: server, in: halves{remote: ep.recv.Remote(), size: ep.opt.RecvBuffer / 2}}
	c.read.init(&c.mu, c.readable)
	c.write.init(&c.mu, c.writable)
	c.closing.init(&c.mu, c.flushed)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.control(); c.err == nil {
		c.alive.start(c)
	}
	return c, c.err
}

// chunkOf returns the length of the longest message: one that a device in software hands to the
// system in one call, as a datagram in segments.
func chunkOf(mtu int) int {
	const (
		datagram = 65507
		headers  = 12 + 16 + 4 + 4 // BTH, RETH, immediate data, ICRC
	)
	if mtu <= 0 {
		mtu = 4096
	}
	return datagram / (mtu + headers) * mtu
}

// LocalAddr returns this side's address and port, a *net.TCPAddr: the ports are ports of the connection manager's TCP
// port space, not of the host's TCP.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the other side's address and port, a *net.TCPAddr.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Read reads the bytes that have arrived. It returns io.EOF once the peer has closed the connection and everything was
// read.
func (c *Conn) Read(b []byte) (int, error) {
	c.readMu.Lock()
	defer c.readMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	var n int
	err := c.usable(&c.read)
	if err == nil && len(b) > 0 {
		if err = c.await(&c.read); err == nil {
			n, err = c.take(b)
		}
	}
	if err != nil && err != io.EOF {
		err = c.opError("read", err)
	}
	return n, err
}

// take reads bytes that have arrived. readMu and mu are held.
func (c *Conn) take(b []byte) (n int, err error) {
	buffer := c.ep.recv.Bytes()
	for n < len(b) {
		off, k := c.stream.in.readable()
		if k = min(k, len(b)-n); k == 0 {
			break
		}
		c.mu.Unlock()
		copy(b[n:], buffer[off:off+k])
		c.mu.Lock()
		c.stream.in.consume(k)
		n += k
		c.control()
	}
	switch {
	case n > 0:
		return n, nil
	case c.err != nil:
		return 0, c.err
	}
	return 0, io.EOF
}

// Write writes b. It returns when all of it is in flight; the peer may have received none of it yet.
func (c *Conn) Write(b []byte) (n int, err error) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(b) == 0 {
		err = c.usable(&c.write)
	}
	for n < len(b) && err == nil {
		if c.sends.crowded() { // a program that only writes polls too: the peer's messages need receives
			c.progressUnlocked()
		}
		if err = c.await(&c.write); err == nil {
			var k int
			k, err = c.writeSome(b[n:])
			n += k
		}
	}
	if err != nil {
		err = c.opError("write", err)
	}
	return n, err
}

// writeSome posts as much as one message has room for. Room for a little at the end of the send ring
// is used all the same: there is more at its beginning.
func (c *Conn) writeSome(b []byte) (int, error) {
	if err := c.writeErr(); err != nil {
		return 0, err
	}
	n := min(len(b), c.stream.out.room())
	if n <= c.ep.opt.Inline {
		c.postData(n, b[:n])
		return n, nil
	}
	off, room := c.sends.room()
	if n = min(n, room, c.chunk); n == 0 {
		return 0, nil
	}
	c.mu.Unlock()
	copy(c.ep.send.Bytes()[off:], b[:n])
	c.mu.Lock()
	if err := c.writeErr(); err != nil { // state may have changed meanwhile
		return 0, err
	}
	// The peer may have registered another buffer, of another length.
	if n = min(n, c.stream.out.room()); n > 0 {
		c.sge[0] = c.ep.send.SGE(off, n)
		c.postData(n, nil)
	}
	return n, nil
}

// postData posts a message of n bytes: inline, or if that is nil the bytes of c.sge.
func (c *Conn) postData(n int, inline []byte) {
	c.wr = verbs.SendWR{Op: verbs.OpWriteImm, Imm: uint32(n), Remote: c.stream.out.take(n), Inline: inline}
	inRing := 0
	if inline == nil {
		// The length is in the immediate data, so the peer need not count the bytes of the message.
		c.wr.SGL, c.wr.Flags, inRing = c.sge[:], verbs.Divisible, n
	}
	c.post(inRing, false)
}

// post posts c.wr.
func (c *Conn) post(inRing int, control bool) {
	id, signaled := c.sends.post(inRing, control)
	if c.wr.ID = id; signaled {
		c.wr.Flags |= verbs.Signaled
	}
	c.alive.sent = true
	if err := c.ep.qp.PostSend(&c.wr); err != nil {
		c.fail(err)
	}
}

// control posts the control messages that are due.
func (c *Conn) control() {
	for c.err == nil && !c.ended && c.sends.mayControl() {
		m, due := c.stream.nextMessage()
		if !due {
			return
		}
		c.wr = verbs.SendWR{Op: verbs.OpSend, Inline: m.Append(c.out[:0])}
		c.post(0, true)
	}
}

// fail breaks the connection. The goroutine that notices may not be the one that waits.
func (c *Conn) fail(err error) {
	if c.err == nil && !c.ended {
		c.err = err
		c.wakeAll()
	}
}

// end takes note that the peer has closed the connection.
func (c *Conn) end() {
	if c.err == nil && !c.ended {
		c.ended = true
		c.wakeAll()
	}
}

func (c *Conn) wakeAll() {
	for _, s := range [...]*side{&c.read, &c.write, &c.closing} {
		s.wakeUp()
	}
}

func (c *Conn) readable() bool {
	_, n := c.stream.in.readable()
	return n > 0 || c.ended || c.err != nil
}

func (c *Conn) writable() bool {
	_, n := c.sends.room()
	return n > 0 && c.stream.out.room() > 0 || c.writeErr() != nil
}

func (c *Conn) flushed() bool { return c.sends.idle() || c.ended || c.err != nil }

// writeErr returns why nothing can be written any more.
func (c *Conn) writeErr() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.ended:
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

// Close closes the connection. It waits until the peer's device has the written data, for at most Options.Linger.
// Pending Reads and Writes return net.ErrClosed at once.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.opError("close", net.ErrClosed)
	}
	c.closed = true
	c.alive.stop()
	c.read.setDeadline(time.Time{}) // wakes it up too
	c.write.setDeadline(time.Time{})
	c.flush()
	c.closing.setDeadline(time.Now().Add(c.ep.opt.Linger))
	err := c.await(&c.closing)
	c.closing.setDeadline(time.Time{})
	c.mu.Unlock()
	if err != nil {
		err = c.opError("close", err)
	}
	// With both locks held nobody uses the memory or the queue pair any more.
	c.readMu.Lock()
	defer c.readMu.Unlock()
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	for c.ep.cq.Poll(c.poll.wcs[:]) > 0 { // flushed work requests, if the peer has ended the connection
	}
	for _, f := range []func() error{c.link.Close, c.ep.close} {
		if e := f(); e != nil && err == nil {
			err = c.opError("close", e)
		}
	}
	c.released()
	return err
}

// flush makes the last messages complete with a completion, if the last of them does not: a
// keep-alive does.
func (c *Conn) flush() {
	if c.sends.mute > 0 {
		c.stream.beat = true
		c.control()
	}
}
