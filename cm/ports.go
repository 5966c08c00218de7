// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"math/rand/v2"
	"net/netip"
)

// portKey is a port of a port space.
type portKey struct {
	ps   PortSpace
	port uint16
}

// port is a port that ids are bound to.
type port struct {
	users     int
	reuse     bool // all of them allow others
	listening bool
}

// Ports that are given out where a program asks for none in particular (Linux's range).
const (
	firstEphemeral = 32768
	lastEphemeral  = 60999
)

// take binds an id to a port; 0 stands for a free one.
func (m *manager) take(id *ID, at netip.AddrPort) error {
	n := at.Port()
	if n == 0 {
		free, ok := m.freePort(id.ps)
		if !ok {
			return opErr("bind_addr", ErrAddrInUse, "all ports of %v from %d to %d are in use", at.Addr(), firstEphemeral, lastEphemeral)
		}
		n = free
	}
	key := portKey{id.ps, n}
	p := m.ports[key]
	if p == nil {
		p = &port{reuse: true}
		m.ports[key] = p
	} else if !p.reuse || !id.reuse || p.listening {
		return inUse("bind_addr", id.ps, netip.AddrPortFrom(at.Addr(), n))
	}
	p.users++
	p.reuse = p.reuse && id.reuse
	id.anyPort = at.Port() == 0
	id.local, id.port = netip.AddrPortFrom(at.Addr(), n), p
	return nil
}

func inUse(op string, ps PortSpace, at netip.AddrPort) error {
	return opErr(op, ErrAddrInUse, "%v port %d of %v: choose another, or port 0 for any", ps, at.Port(), at.Addr())
}

// another gives an id a port for which the program did not ask instead of the one that it has,
// which is taken outside of this process; false: there is none.
func (m *manager) another(id *ID) bool {
	if !id.anyPort {
		return false
	}
	m.leave(id)
	return m.take(id, netip.AddrPortFrom(id.local.Addr(), 0)) == nil
}

// anyTries is how many ports are tried where the program asks for any.
const anyTries = 16

// anyPort is replaced by tests.
var anyPort = rand.IntN

// freePort looks for a port that nobody in this process has, from a random one on.
func (m *manager) freePort(ps PortSpace) (uint16, bool) {
	const n = lastEphemeral - firstEphemeral + 1
	start := anyPort(n)
	for i := range n {
		p := uint16(firstEphemeral + (start+i)%n)
		if m.ports[portKey{ps, p}] == nil {
			return p, true
		}
	}
	return 0, false
}

// leave gives up an id's port.
func (m *manager) leave(id *ID) {
	p := id.port
	if p == nil {
		return
	}
	id.port = nil
	if id.state == listening {
		p.listening = false
	}
	if p.users--; p.users == 0 {
		delete(m.ports, portKey{id.ps, id.local.Port()})
	}
}
