// SPDX-License-Identifier: Apache-2.0

package linkwatch

import (
	"encoding/binary"
	"iter"
	"math"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// addrReader follows one address.
type addrReader struct {
	*netlinkReader
	table *table
}

// newAddrFeed subscribes to changes of an address. It returns nil if it cannot.
func newAddrFeed(addr netip.Addr, index int) *addrReader {
	t := newTable(addr, index)
	groups := uint32(unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR)
	if addr.Is6() {
		groups = unix.RTMGRP_LINK | unix.RTMGRP_IPV6_IFADDR
	}
	f := newFeed(groups, []uint16{unix.RTM_GETLINK, unix.RTM_GETADDR}, t)
	if f == nil {
		return nil
	}
	return &addrReader{f, t}
}

// start begins to read. tell is called after each change with the new state and MTU.
func (f *addrReader) start(tell func(now state, mtu int)) {
	f.netlinkReader.start(func() { tell(f.table.state(), f.table.mtu()) })
}

// table is the state of an address and of the interfaces of its namespace, as rtnetlink(7) has reported it.
type table struct {
	addr  netip.Addr
	index int32 // the only interface that counts; 0: all do

	links       map[int32]link // by number
	assignments map[assignment]struct{}
}

// link is an interface: its flags, and its MTU; 0: not reported.
type link struct{ flags, mtu uint32 }

// assignment is an address of an interface: the watched address, or an address whose network contains it.
// On the loopback interface the latter is enough for IPv4.
type assignment struct {
	index int32
	addr  netip.Prefix
}

func newTable(addr netip.Addr, index int) *table {
	t := &table{addr: addr, index: int32(index)}
	t.reset()
	return t
}

// reset forgets everything.
func (t *table) reset() {
	t.links, t.assignments = make(map[int32]link), make(map[assignment]struct{})
}

// state returns the state according to the table.
func (t *table) state() (s state) {
	const running = unix.IFF_UP | unix.IFF_RUNNING
	for p := range t.assignments {
		l := t.links[p.index]
		if !t.has(p, l) {
			continue
		}
		s |= present
		if l.flags&running == running {
			s |= up
		}
	}
	return s
}

// has reports whether the interface l has the watched address because of its assignment p.
func (t *table) has(p assignment, l link) bool {
	return p.addr.Addr() == t.addr || l.flags&unix.IFF_LOOPBACK != 0 && t.addr.Is4()
}

// mtu returns the smallest MTU of the interfaces that have the address; 0: there is none.
func (t *table) mtu() (least int) {
	for p := range t.assignments {
		if l := t.links[p.index]; t.has(p, l) && l.mtu != 0 && (least == 0 || int(l.mtu) < least) {
			least = int(l.mtu)
		}
	}
	return least
}

// handle processes a message.
func (t *table) handle(m *syscall.NetlinkMessage) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		t.handleLink(m, m.Header.Type == unix.RTM_NEWLINK)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		t.handleAddr(m, m.Header.Type == unix.RTM_NEWADDR)
	}
}

// handleLink processes a struct ifinfomsg (family, type, index and flags) and its attributes. A
// message of the bridge family concerns a port of the bridge, not the interface itself.
func (t *table) handleLink(m *syscall.NetlinkMessage, exists bool) {
	b := m.Data
	if len(b) < unix.SizeofIfInfomsg || b[0] != unix.AF_UNSPEC {
		return
	}
	index := int32(binary.NativeEndian.Uint32(b[4:]))
	if t.index != 0 && index != t.index {
		return
	}
	if exists {
		mtu := mtuOf(m)
		if mtu == 0 { // a message about another attribute of the link
			mtu = t.links[index].mtu
		}
		t.links[index] = link{flags: binary.NativeEndian.Uint32(b[8:]), mtu: mtu}
		return
	}
	delete(t.links, index)
	for p := range t.assignments {
		if p.index == index {
			delete(t.assignments, p)
		}
	}
}

// mtuOf returns the MTU in a message about a link; 0: none.
func mtuOf(m *syscall.NetlinkMessage) uint32 {
	for typ, value := range attrs(m.Data, unix.SizeofIfInfomsg) {
		if typ == unix.IFLA_MTU && len(value) >= 4 {
			return min(binary.NativeEndian.Uint32(value), math.MaxInt32)
		}
	}
	return 0
}

// attrs returns the types and values of the attributes (struct rtattr) after a message's header, up to one that
// is cut off. The standard library's parser panics at an attribute without its padding.
func attrs(b []byte, header int) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		if len(b) < header {
			return
		}
		for b = b[header:]; len(b) >= unix.SizeofRtAttr; {
			n, typ := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])
			if n < unix.SizeofRtAttr || n > len(b) || !yield(typ, b[unix.SizeofRtAttr:n]) {
				return
			}
			b = b[min((n+3)&^3, len(b)):]
		}
	}
}

// handleAddr processes a struct ifaddrmsg (family, prefix length, flags, scope, index) and its
// attributes.
func (t *table) handleAddr(m *syscall.NetlinkMessage, exists bool) {
	b := m.Data
	if len(b) < unix.SizeofIfAddrmsg {
		return
	}
	p := assignment{index: int32(binary.NativeEndian.Uint32(b[4:]))}
	p.addr = netip.PrefixFrom(localOf(b), int(b[1]))
	if !p.addr.IsValid() || !p.addr.Contains(t.addr) || t.index != 0 && p.index != t.index {
		return
	}
	if exists && usable(b[2]) {
		t.assignments[p] = struct{}{}
	} else {
		delete(t.assignments, p)
	}
}

// localOf returns this side's address in a message about one: IFA_LOCAL, or without that IFA_ADDRESS.
// The zero Addr: there is none.
func localOf(b []byte) (local netip.Addr) {
	var address netip.Addr
	for typ, value := range attrs(b, unix.SizeofIfAddrmsg) {
		switch typ {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(value)
		case unix.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(value)
		}
	}
	if !local.IsValid() {
		return address
	}
	return local
}

// usable reports whether an address with these flags can be used. A tentative IPv6 address, not yet
// known to be unique, cannot (RFC 4862 section 5.4), unless it is an optimistic one (RFC 4429).
func usable(flags uint8) bool {
	return flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_OPTIMISTIC) != unix.IFA_F_TENTATIVE
}
