// SPDX-License-Identifier: Apache-2.0

package portshare

import (
	"errors"
	"os"
	"time"
)

const (
	// pingEvery is how often a member checks whether the leader is still there, and the leader
	// whether it still leads.
	pingEvery = time.Second
	// pingTimeout is how long the leader has to answer. A leader that was only slow loses nothing
	// but the lead.
	pingTimeout = 2 * time.Second
)

// watch makes the member follow the leader, and take over from a leader that is gone or does not
// answer. It then gets the datagrams for no process in particular.
func (m *Member) watch(c *sharedResources) {
	defer m.done.Done()
	for pause := time.Duration(0); ; {
		leader, err := c.board.leader()
		switch {
		case err != nil || leader == m.slot:
			pause = pingEvery
		case m.follow(c, leader):
			pause = 0
		default:
			m.takeLead(c, leader)
			pause = time.Millisecond
		}
		if !m.pause(pause) {
			return
		}
	}
}

// follow pings the leader for as long as it answers and leads. It returns false if it does not
// answer.
func (m *Member) follow(c *sharedResources, leader int) bool {
	number, err := c.board.controlNumber(leader)
	if err != nil {
		return false
	}
	conn, _, err := dialControl(m.Name, number, wantPings)
	if err != nil {
		return false
	}
	if !m.trackConn(conn) {
		return true
	}
	defer m.untrackConn(conn)
	for b := make([]byte, 1); ; {
		if now, err := c.board.leader(); err != nil || now != leader {
			return true
		}
		// Nothing arrives unasked: this read notices the leader's end at once.
		conn.SetDeadline(time.Now().Add(pingEvery))
		if _, err := conn.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			return m.isClosed()
		}
		conn.SetDeadline(time.Now().Add(pingTimeout))
		if _, err := conn.Write(b); err != nil {
			return m.isClosed()
		}
		if n, err := conn.Read(b); n == 0 || err != nil {
			return m.isClosed()
		}
	}
}

func (m *Member) isClosed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// takeLead makes this member the leader unless another has just become it.
func (m *Member) takeLead(c *sharedResources, was int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		c.board.lead(m.slot, was, func() { m.steer(c, m.slot) })
	}
}

// handOver makes another member the leader if this one is. mu is held.
func (m *Member) handOver(c *sharedResources) {
	for slot := range Slots {
		if slot != m.slot && c.board.taken(slot) {
			c.board.lead(slot, m.slot, func() { m.steer(c, slot) })
			return
		}
	}
}

// steer directs datagrams for no process in particular to a slot.
func (m *Member) steer(c *sharedResources, slot int) {
	_ = m.Steer(c.fds[slot], slot) // fails only for lack of kernel memory
}
