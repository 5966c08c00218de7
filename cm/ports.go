// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"crypto/rand"
	"encoding/binary"
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
	reuse     bool // all of them allow sharing it
	listening bool
}

// Ports that are assigned if a program does not ask for a particular one (Linux's range).
const (
	firstEphemeral = 32768
	lastEphemeral  = 60999
)

// bindPort binds an id to a port; 0 stands for a free one.
func (m *manager) bindPort(id *ID, at netip.AddrPort) error {
	n := at.Port()
	if n == 0 {
		free, ok := m.freePort(id.ps)
		if !ok {
			return opErr("bind_addr", ErrAddrInUse, "all ports of %v from %d to %d are in use", at.Addr(),
				firstEphemeral, lastEphemeral)
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

// rebindPort gives an id whose program did not choose a port another one, because its port is taken
// outside this process. It reports whether there is one.
func (m *manager) rebindPort(id *ID) bool {
	if !id.anyPort {
		return false
	}
	m.unbindPort(id)
	return m.bindPort(id, netip.AddrPortFrom(id.local.Addr(), 0)) == nil
}

// anyTries is how many ports are tried if the program asks for any.
const anyTries = 16

// anyPort is replaced by tests. Its numbers come from the same source as all others that peers see.
var anyPort = func(n int) int {
	var b [4]byte
	rand.Read(b[:])
	return int(binary.NativeEndian.Uint32(b[:]) % uint32(n))
}

// freePort finds a port that is free in this process, starting at a random one.
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

// unbindPort releases an id's port.
func (m *manager) unbindPort(id *ID) {
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
