// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
)

// handshake is the connection that crypto/tls uses. Until the handshake is done it is a pipe
// between the goroutine of run, which blocks, and the device. From then on it reads and writes the
// link, with the device's lock held.
type handshake struct {
	link *tlsLink

	mu      sync.Mutex
	arrived sync.Cond // in has data, or end is set
	in, out []byte
	end     error // of in
	done    bool  // run has ended
	err     error // with this error
	over    bool  // after run: Read and Write go to the link
}

// maxHandshakeBytes limits the bytes of a peer's handshake that are kept.
const maxHandshakeBytes = 64 << 10

var errFlood = errors.New("more data in the handshake than there can be")

func newHandshake(l *tlsLink) *handshake {
	h := &handshake{link: l}
	h.arrived.L = &h.mu
	return h
}

// run runs the handshake. It returns when the handshake is done or the link is closed.
func (h *handshake) run(c *tls.Conn) {
	err := c.Handshake()
	h.mu.Lock()
	h.done, h.err = true, err
	h.mu.Unlock()
	h.link.net.kick(h.link)
}

// outgoing takes the bytes to be sent, and reports whether the handshake is done.
func (h *handshake) outgoing() (out []byte, done bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out, h.out = h.out, nil
	return out, h.done, h.err
}

// incoming hands over bytes of the peer. It returns false if they are more than a handshake can be.
func (h *handshake) incoming(b []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arrived.Signal()
	if len(h.in) > maxHandshakeBytes {
		h.end = errFlood
		return false
	}
	h.in = append(h.in, b...)
	return true
}

// left returns the bytes that the handshake did not read, once it is done.
func (h *handshake) left() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	in := h.in
	h.in, h.over = nil, true
	return in
}

// abort ends a handshake that is not done.
func (h *handshake) abort(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.end == nil {
		h.end = err
	}
	h.arrived.Signal()
}

func (h *handshake) Read(b []byte) (int, error) {
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		return h.link.fill(b)
	}
	defer h.mu.Unlock()
	for len(h.in) == 0 && h.end == nil {
		h.arrived.Wait()
	}
	if len(h.in) == 0 {
		return 0, h.end
	}
	n := copy(b, h.in)
	h.in = h.in[n:]
	return n, nil
}

func (h *handshake) Write(b []byte) (int, error) {
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		h.link.append(b)
		return len(b), nil
	}
	h.out = append(h.out, b...)
	h.mu.Unlock()
	h.link.net.kick(h.link)
	return len(b), nil
}

func (h *handshake) Close() error                     { return nil }
func (h *handshake) LocalAddr() net.Addr              { return nil }
func (h *handshake) RemoteAddr() net.Addr             { return nil }
func (h *handshake) SetDeadline(time.Time) error      { return nil }
func (h *handshake) SetReadDeadline(time.Time) error  { return nil }
func (h *handshake) SetWriteDeadline(time.Time) error { return nil }

// tlsAgain is ErrAgain for crypto/tls, which continues after temporary errors.
type tlsAgain struct{}

func (tlsAgain) Error() string   { return softdev.ErrAgain.Error() }
func (tlsAgain) Timeout() bool   { return true }
func (tlsAgain) Temporary() bool { return true }
func (tlsAgain) Unwrap() error   { return softdev.ErrAgain }
