// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// sockets are the TCP sockets of a host's process, for messages of programs beside RDMA. Like a device they
// have a goroutine, which tells connections when they can be read or written.
type sockets struct {
	*Streams
	gone chan struct{} // closed when the process ends
	done chan struct{}
}

// socketsOf returns the host's sockets.
func (h *Host) socketsOf() *sockets {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if h.sockets == nil {
		s := &sockets{Streams: newStreams(h), gone: make(chan struct{}), done: make(chan struct{})}
		s.port += firstPort / 2 // not where devices' ports begin
		h.sockets = s
		h.open = append(h.open, s)
		go s.run()
	}
	return h.sockets
}

// run tells connections and listeners when they are ready.
func (s *sockets) run() {
	defer close(s.done)
	for {
		s.Wait()
		s.Ready(func(owner any, read, write bool) { owner.(interface{ ready(read, write bool) }).ready(read, write) })
		select {
		case <-s.gone:
			return
		default:
		}
	}
}

// kill ends the process's sockets; the network's lock is held.
func (s *sockets) kill() {
	select {
	case <-s.gone:
		return
	default:
	}
	s.Streams.closed = true
	s.Streams.kill()
	close(s.gone)
	if s.host.sockets == s {
		s.host.sockets = nil
	}
}

func (s *sockets) follow(verbs.EventType) {}

// CloseSockets closes all TCP sockets of the host.
func (h *Host) CloseSockets() {
	h.net.mu.Lock()
	s := h.sockets
	if s != nil {
		s.kill()
	}
	h.net.mu.Unlock()
	if s != nil {
		<-s.done
	}
}

// ListenTCP listens at a port of the host; 0 stands for any free one.
func (h *Host) ListenTCP(port uint16) (net.Listener, error) {
	s := h.socketsOf()
	a, err := s.Listen(netip.AddrPortFrom(h.addr, port), 128)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Err: err}
	}
	l := &listener{s: s, a: a.(*acceptor), news: make(chan struct{}, 1), closed: make(chan struct{})}
	a.Own(l)
	return l, nil
}

// listener is a net.Listener.
type listener struct {
	s      *sockets
	a      *acceptor
	news   chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (l *listener) ready(bool, bool) {
	l.a.Watch(false)
	poke(l.news)
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		select {
		case <-l.closed:
			return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
		default:
		}
		got, err := l.a.Accept()
		if err == nil {
			poke(l.news) // there may be another one for another caller
			return newConn(l.s, got.(*link)), nil
		}
		l.a.Watch(true)
		l.s.Wake()
		select {
		case <-l.news:
		case <-l.closed:
		case <-l.s.gone:
			return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
		}
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.a.Close()
}

func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.a.at) }

// DialTCP connects to an address and port of the network.
func (h *Host) DialTCP(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	s := h.socketsOf()
	l, err := s.Dial(netip.AddrPort{}, to, 0)
	if err != nil {
		return nil, err
	}
	c := newConn(s, l.(*link))
	for {
		err := c.l.Connected()
		if err == nil {
			return c, nil
		}
		if errors.Is(err, softdev.ErrAgain) {
			c.watch(false, true)
			select {
			case <-c.writable:
				continue
			case <-s.gone:
				err = net.ErrClosed
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		c.l.Close(true)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
}

// conn is a net.Conn.
type conn struct {
	s                  *sockets
	l                  *link
	readable, writable chan struct{}
	once               sync.Once
	closed             chan struct{}
	read, write        deadline

	mu                    sync.Mutex
	watchRead, watchWrite bool
}

func newConn(s *sockets, l *link) *conn {
	c := &conn{s: s, l: l, readable: make(chan struct{}, 1), writable: make(chan struct{}, 1),
		closed: make(chan struct{})}
	c.read.moved, c.write.moved = make(chan struct{}, 1), make(chan struct{}, 1)
	l.Own(c)
	return c
}

// watch has ready be called when more can be done.
func (c *conn) watch(read, write bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchRead, c.watchWrite = c.watchRead || read, c.watchWrite || write
	c.l.Watch(c.watchRead, c.watchWrite)
}

func (c *conn) ready(read, write bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchRead, c.watchWrite = c.watchRead && !read, c.watchWrite && !write
	c.l.Watch(c.watchRead, c.watchWrite)
	if read {
		poke(c.readable)
	}
	if write {
		poke(c.writable)
	}
}

// await waits until something can be done.
func (c *conn) await(news <-chan struct{}, d *deadline) error {
	for {
		end, stop := d.timer()
		var err error
		select {
		case <-news:
		case <-end:
			err = os.ErrDeadlineExceeded
		case <-d.moved:
			stop()
			continue
		case <-c.closed:
			err = net.ErrClosed
		case <-c.s.gone:
			err = net.ErrClosed
		}
		stop()
		return err
	}
}

// failed returns why a call cannot begin.
func (c *conn) failed(d *deadline) error {
	select {
	case <-c.closed:
		return net.ErrClosed
	case <-c.s.gone:
		return net.ErrClosed
	default:
	}
	if d.passed() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (c *conn) Read(p []byte) (int, error) {
	for {
		err := c.failed(&c.read)
		if err == nil {
			var n int
			if n, err = c.l.Read([][]byte{p}); err == nil || err == io.EOF {
				return n, err
			}
			if errors.Is(err, softdev.ErrAgain) {
				c.watch(true, false)
				err = c.await(c.readable, &c.read)
			}
		}
		if err != nil {
			return 0, c.error("read", err)
		}
	}
}

func (c *conn) Write(p []byte) (n int, err error) {
	for {
		if err = c.failed(&c.write); err == nil {
			var k int
			k, err = c.l.Write([][]byte{p[n:]})
			if n += k; n == len(p) && err == nil {
				return n, nil
			}
			if err == nil || errors.Is(err, softdev.ErrAgain) {
				c.watch(false, true)
				err = c.await(c.writable, &c.write)
			}
		}
		if err != nil {
			return n, c.error("write", err)
		}
	}
}

func (c *conn) error(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

func (c *conn) Close() error {
	first := false
	c.once.Do(func() { first = true; close(c.closed) })
	if !first {
		return c.error("close", net.ErrClosed)
	}
	c.l.Close(false)
	return nil
}

// CloseWrite ends one direction.
func (c *conn) CloseWrite() error {
	c.l.Shutdown()
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(c.l.from) }
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.l.to) }

func (c *conn) SetDeadline(t time.Time) error {
	c.read.set(t)
	c.write.set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.read.set(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.write.set(t)
	return nil
}

// deadline is when a direction's calls end at the latest.
type deadline struct {
	mu    sync.Mutex
	at    time.Time
	moved chan struct{}
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	d.at = t
	d.mu.Unlock()
	poke(d.moved)
}

func (d *deadline) passed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.at.IsZero() && !time.Now().Before(d.at)
}

// timer returns a channel that says when the deadline passes.
func (d *deadline) timer() (<-chan time.Time, func() bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at.IsZero() {
		return nil, func() bool { return false }
	}
	t := time.NewTimer(time.Until(d.at))
	return t.C, t.Stop
}
