// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/internal/system/linkwatch"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// maxDepth is how many READs and atomics a stream answers at once, and may have in flight.
const maxDepth = 128

// setupTime is the minimum time that work requests wait for the set-up of TLS and SCTP.
const setupTime = 10 * time.Second

// basePort is the part of a device's network that is the same for all networks.
type basePort struct {
	addr  netip.Addr // without zone
	dev   string     // network interface
	index int        // its number
	mtu   int
	speed int64 // Mbit/s; 0: unknown
	opt   Options
	watch *linkwatch.Watch
}

// newLocal finds the interface of an address, and begins to watch it until StopFollowing.
func newLocal(addr netip.Addr, opt *Options) basePort {
	l, isUp := findLocal(addr, opt)
	index := 0
	if l.addr.Is6() && l.addr.IsLinkLocalUnicast() {
		index = l.index
	}
	l.watch = linkwatch.New(l.addr, index, isUp, l.mtu)
	return l
}

func findLocal(addr netip.Addr, opt *Options) (l basePort, isUp bool) {
	zone := addr.Zone()
	addr = addr.WithZone("")
	l = basePort{addr: addr, opt: *opt, mtu: 1500}
	ifs, err := net.Interfaces()
	if err != nil {
		return l, true // only a name and an MTU, for information
	}
	for _, i := range ifs {
		if zone != "" && zone != i.Name && zone != strconv.Itoa(i.Index) {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && (p.Addr().Unmap() == addr || i.Flags&net.FlagLoopback != 0 && p.Contains(addr)) {
				l.dev, l.index, l.mtu, l.speed = i.Name, i.Index, i.MTU, linkwatch.Speed(i.Name)
				const up = net.FlagUp | net.FlagRunning
				return l, i.Flags&up == up
			}
		}
	}
	return l, true
}

// onLink adds the link as the zone of a link-local address, as sockets require.
func onLink(a netip.Addr, link string) netip.Addr {
	if a.Is6() && a.IsLinkLocalUnicast() {
		return a.WithZone(link)
	}
	return a
}

// Ports: an address is one port.
func (l *basePort) Ports() int { return 1 }

// Info returns the attributes of the port. The path MTU has no meaning for a stream.
func (l *basePort) Info(int) softdev.PortInfo {
	mtu, linkMTU := verbs.MTU1024, l.watch.MTU()
	if linkMTU > 4096 {
		mtu = verbs.MTU4096
	}
	return softdev.PortInfo{
		PortAttr: verbs.PortAttr{State: l.watch.PortState(), Link: verbs.LinkEthernet, NetDev: l.dev,
			MaxMTU: verbs.MTU4096, ActiveMTU: mtu, LinkMTU: linkMTU, SpeedMbps: l.speed},
		GIDTable:  []verbs.GIDEntry{{GID: ib.GIDFromAddr(l.addr), Type: verbs.GIDiWARP, NetDev: l.dev}},
		PKeyTable: softdev.OnePartition,
	}
}

// Follow calls changed when the address or its interface goes away or comes back, and when the
// interface's MTU changes.
func (l *basePort) Follow(changed func(port int, events ...verbs.EventType)) {
	l.watch.Follow(func(e verbs.EventType) { changed(1, e) }, func() { changed(1) })
}

// CheckRoute reports whether the system has a route to an address.
func (l *basePort) CheckRoute(from, to netip.Addr) error {
	return linkwatch.CheckRoute(l.dev, from, to)
}

// StopFollowing ends Follow, and the watch.
func (l *basePort) StopFollowing() { l.watch.Close() }

// Resolve checks an address vector.
func (l *basePort) Resolve(a *verbs.AHAttr) error {
	to := a.DGID.Addr()
	switch {
	case a.SGIDIndex != 0:
		return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid,
			Detail: fmt.Sprintf("SGIDIndex is %d, the GID table has row 0 only", a.SGIDIndex)}
	case a.DGID == verbs.GID{} || to.IsUnspecified() || to.IsMulticast():
		return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid,
			Detail: fmt.Sprintf("DGID %v is no address of a host", to)}
	case to.Is4() != l.addr.Is4():
		return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid,
			Detail: fmt.Sprintf("DGID %v cannot be reached from %v: one is IPv4, the other IPv6", to, l.addr)}
	}
	return nil
}

// Proposal returns the parameters that the device requests in the set-up of streams.
func (l *basePort) Proposal() rdmap.Proposal {
	w := rdmap.Proposal{CRC: !l.opt.NoCRC, Markers: l.opt.Markers, ULPDU: rdmap.MaxULPDU, IRD: maxDepth, ORD: maxDepth}
	if l.opt.FPDU != 0 {
		w.ULPDU = rdmap.ULPDUFor(l.opt.FPDU)
	}
	return w
}
