// SPDX-License-Identifier: Apache-2.0

package linkwatch

import (
	"encoding/binary"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// table is what rtnetlink(7) has told of an address and of the interfaces of its namespace.
type table struct {
	addr  netip.Addr
	index int32 // the only interface that counts; 0: all do

	links  map[int32]uint32 // their flags, by number
	places map[place]struct{}
}

// place is an address of an interface that is the watched one, or whose network the watched
// one is of, which for IPv4 is enough on the loopback interface.
type place struct {
	index int32
	addr  netip.Prefix
}

func newTable(addr netip.Addr, index int) table {
	t := table{addr: addr, index: int32(index)}
	t.reset()
	return t
}

// reset forgets everything.
func (t *table) reset() {
	t.links, t.places = make(map[int32]uint32), make(map[place]struct{})
}

// state returns what the table says.
func (t *table) state() (s state) {
	const running = unix.IFF_UP | unix.IFF_RUNNING
	for p := range t.places {
		flags := t.links[p.index]
		if p.addr.Addr() != t.addr && (flags&unix.IFF_LOOPBACK == 0 || t.addr.Is6()) {
			continue
		}
		s |= present
		if flags&running == running {
			s |= up
		}
	}
	return s
}

// handle takes a message.
func (t *table) handle(m *syscall.NetlinkMessage) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		t.handleLink(m.Data, m.Header.Type == unix.RTM_NEWLINK)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		t.handleAddr(m, m.Header.Type == unix.RTM_NEWADDR)
	}
}

// handleLink takes a struct ifinfomsg: family, type, index and flags. One whose family is a
// bridge's is about a port of the bridge, not about the interface itself.
func (t *table) handleLink(b []byte, is bool) {
	if len(b) < unix.SizeofIfInfomsg || b[0] != unix.AF_UNSPEC {
		return
	}
	index := int32(binary.NativeEndian.Uint32(b[4:]))
	if t.index != 0 && index != t.index {
		return
	}
	if is {
		t.links[index] = binary.NativeEndian.Uint32(b[8:])
		return
	}
	delete(t.links, index)
	for p := range t.places {
		if p.index == index {
			delete(t.places, p)
		}
	}
}

// handleAddr takes a struct ifaddrmsg (family, prefix length, flags, scope, index) and its
// attributes. The address of this side is IFA_LOCAL, and without it IFA_ADDRESS.
func (t *table) handleAddr(m *syscall.NetlinkMessage, is bool) {
	b := m.Data
	if len(b) < unix.SizeofIfAddrmsg {
		return
	}
	attrs, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return
	}
	p := place{index: int32(binary.NativeEndian.Uint32(b[4:]))}
	var local, address netip.Addr
	for _, a := range attrs {
		switch a.Attr.Type {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(a.Value)
		case unix.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(a.Value)
		}
	}
	if !local.IsValid() {
		local = address
	}
	p.addr = netip.PrefixFrom(local, int(b[1]))
	if !p.addr.IsValid() || !p.addr.Contains(t.addr) || t.index != 0 && p.index != t.index {
		return
	}
	// While it is not known that nobody else has an IPv6 address, it cannot be used (RFC 4862
	// section 5.4), unless it is an optimistic one (RFC 4429).
	flags := b[2]
	if is && flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_OPTIMISTIC) != unix.IFA_F_TENTATIVE {
		t.places[p] = struct{}{}
	} else {
		delete(t.places, p)
	}
}
