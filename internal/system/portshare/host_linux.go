// SPDX-License-Identifier: Apache-2.0

package portshare

import (
	"errors"
	"net"
	"time"
)

// serve answers callers of the member's control socket.
func (m *Member) serve(control *net.UnixListener) {
	defer m.done.Done()
	for {
		c, err := control.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files
			if !m.pause(10 * time.Millisecond) {
				return
			}
			continue
		}
		if !m.trackConn(c) {
			return
		}
		m.done.Add(1)
		go m.host(c)
	}
}

// host serves one caller until it is gone.
func (m *Member) host(c *net.UnixConn) {
	defer m.done.Done()
	defer m.untrackConn(c)
	switch want, ok := answer(c); {
	case !ok:
	case want == wantDescriptors:
		_ = m.admit(c) // the caller sees a failure
	case want == wantPings:
		c.SetDeadline(time.Time{})
		for b := make([]byte, 1); ; {
			if n, err := c.Read(b); n == 0 || err != nil {
				return
			}
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}
}

// admit gives a caller the descriptors that the members share.
func (m *Member) admit(conn *net.UnixConn) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return net.ErrClosed
	}
	c, err := m.createShared()
	if err != nil {
		return err
	}
	return sendDescriptors(conn, c.fds)
}

// trackConn keeps a connection for Close. If the member is closed, it closes the connection and
// returns false.
func (m *Member) trackConn(c *net.UnixConn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		c.Close()
		return false
	}
	m.conns[c] = struct{}{}
	return true
}

func (m *Member) untrackConn(c *net.UnixConn) {
	m.mu.Lock()
	delete(m.conns, c)
	m.mu.Unlock()
	c.Close()
}

// pause waits. It returns false if the member was closed.
func (m *Member) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-m.quit:
		return false
	case <-t.C:
		return true
	}
}
