// SPDX-License-Identifier: Apache-2.0

package linkwatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// MAC is an Ethernet address.
type MAC [6]byte

// Link is an Ethernet interface as it is at one time.
type Link struct {
	Index int
	MAC   MAC
	MTU   int // bytes of an Ethernet frame's payload
	Up    bool
	Addrs []netip.Addr // without zones, in the order in which they came
}

// Interface follows one Ethernet interface, its addresses and its neighbors. Like a [Watch] it is of
// the network namespace in which it was created.
type Interface struct {
	feed  *netlinkReader // nil: nothing changes
	state linkState
	neighbors

	changed func(before, after Link)

	mu   sync.Mutex
	link Link
}

// ErrNotEthernet says that an interface has no Ethernet address.
var ErrNotEthernet = errors.New("no Ethernet interface")

// NewInterface returns the interface of a name, to be followed. The caller closes it.
func NewInterface(name string) (*Interface, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	if len(i.HardwareAddr) != len(MAC{}) || i.Flags&net.FlagLoopback != 0 {
		return nil, ErrNotEthernet
	}
	const up = net.FlagUp | net.FlagRunning
	now := Link{Index: i.Index, MAC: MAC(i.HardwareAddr), MTU: i.MTU, Up: i.Flags&up == up}
	nets, err := i.Addrs()
	if err != nil {
		return nil, fmt.Errorf("listing the addresses of %s: %w", name, err)
	}
	for _, n := range nets {
		if p, err := netip.ParsePrefix(n.String()); err == nil {
			now.Addrs = append(now.Addrs, p.Addr().Unmap().WithZone(""))
		}
	}
	w := &Interface{link: now}
	if err := w.neighbors.init(name); err != nil {
		return nil, err
	}
	w.state = linkState{link: now, neighbors: &w.neighbors}
	w.feed = newFeed(unix.RTMGRP_LINK|unix.RTMGRP_IPV4_IFADDR|unix.RTMGRP_IPV6_IFADDR|unix.RTMGRP_NEIGH,
		[]uint16{unix.RTM_GETLINK, unix.RTM_GETADDR, unix.RTM_GETNEIGH}, &w.state)
	return w, nil
}

// Link returns the interface as it is now. Its addresses are not modified.
func (w *Interface) Link() Link {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.link
}

// Follow starts following the interface and its neighbors. changed is called after each change since
// NewInterface, by one goroutine until the interface is closed.
func (w *Interface) Follow(changed func(before, after Link)) {
	w.changed = changed
	if w.feed != nil {
		w.feed.start(w.take)
	}
}

// take publishes the state that the feed has read.
func (w *Interface) take() {
	now := w.state.link
	now.Addrs = slices.Clone(now.Addrs)
	w.mu.Lock()
	before := w.link
	same := before.MAC == now.MAC && before.MTU == now.MTU && before.Up == now.Up &&
		slices.Equal(before.Addrs, now.Addrs)
	if !same {
		w.link = now
	}
	w.mu.Unlock()
	if !same {
		w.changed(before, now)
	}
}

// Close ends it. changed is not called any more once Close has returned, and waits for neighbors fail.
// Closing twice is harmless.
func (w *Interface) Close() {
	w.neighbors.close()
	if w.feed != nil {
		w.feed.close()
	}
}

// linkState is the state of one interface, as rtnetlink(7) has reported it.
type linkState struct {
	link      Link
	neighbors *neighbors
}

// reset forgets the state and the addresses. Known neighbors stay.
func (b *linkState) reset() { b.link.Up, b.link.Addrs = false, nil }

func (b *linkState) handle(m *syscall.NetlinkMessage) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		b.handleLink(m, m.Header.Type == unix.RTM_NEWLINK)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		b.handleAddr(m, m.Header.Type == unix.RTM_NEWADDR)
	case unix.RTM_NEWNEIGH:
		b.handleNeighbor(m)
	}
}

// handleLink processes a struct ifinfomsg, see [table.handleLink].
func (b *linkState) handleLink(m *syscall.NetlinkMessage, exists bool) {
	d := m.Data
	if len(d) < unix.SizeofIfInfomsg || d[0] != unix.AF_UNSPEC ||
		int(int32(binary.NativeEndian.Uint32(d[4:]))) != b.link.Index {
		return
	}
	if !exists {
		b.reset()
		return
	}
	const running = unix.IFF_UP | unix.IFF_RUNNING
	b.link.Up = binary.NativeEndian.Uint32(d[8:])&running == running
	if mtu := mtuOf(m); mtu != 0 {
		b.link.MTU = int(mtu)
	}
	for typ, value := range attrs(d, unix.SizeofIfInfomsg) {
		if typ == unix.IFLA_ADDRESS && len(value) == len(MAC{}) {
			b.link.MAC = MAC(value)
		}
	}
}

// maxAddrs limits the addresses of an interface that count.
const maxAddrs = 128

// handleAddr processes a struct ifaddrmsg (family, prefix length, flags, scope, index).
func (b *linkState) handleAddr(m *syscall.NetlinkMessage, exists bool) {
	d := m.Data
	if len(d) < unix.SizeofIfAddrmsg || int(int32(binary.NativeEndian.Uint32(d[4:]))) != b.link.Index {
		return
	}
	addr := localOf(d)
	if !addr.IsValid() {
		return
	}
	at := slices.Index(b.link.Addrs, addr)
	switch exists = exists && usable(d[2]); {
	case exists && at < 0 && len(b.link.Addrs) < maxAddrs:
		b.link.Addrs = append(b.link.Addrs, addr)
	case !exists && at >= 0:
		b.link.Addrs = slices.Delete(b.link.Addrs, at, at+1)
	}
}

// handleNeighbor processes a struct ndmsg (family, index, state, flags, type) and its attributes.
func (b *linkState) handleNeighbor(m *syscall.NetlinkMessage) {
	const known = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_PERMANENT |
		unix.NUD_NOARP
	d := m.Data
	if len(d) < unix.SizeofNdMsg || int(int32(binary.NativeEndian.Uint32(d[4:]))) != b.link.Index ||
		binary.NativeEndian.Uint16(d[8:])&known == 0 {
		return
	}
	var addr netip.Addr
	var mac []byte
	for typ, value := range attrs(d, unix.SizeofNdMsg) {
		switch typ {
		case unix.NDA_DST:
			addr, _ = netip.AddrFromSlice(value)
		case unix.NDA_LLADDR:
			mac = value
		}
	}
	if addr.IsValid() && len(mac) == len(MAC{}) {
		b.neighbors.learn(addr, MAC(mac), true)
	}
}
