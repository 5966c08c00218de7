// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/linkwatch"
	"github.com/ramjet-rdma/ramjet/internal/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// maxDepth is how many READs and atomics a stream answers at once, and has in flight.
const maxDepth = 128

// setupTime is how long work requests wait for TLS and SCTP at least.
const setupTime = 10 * time.Second

// local is the part of a device's network that is the same everywhere.
type local struct {
	addr  netip.Addr // without zone
	dev   string     // network interface
	index int        // its number
	mtu   int
	speed int64
	opt   Options
	watch *linkwatch.Watch
}

// newLocal finds what is to be known of an address, and begins to watch its interface:
// StopFollowing ends that.
func newLocal(addr netip.Addr, opt *Options) local {
	l, isUp := findLocal(addr, opt)
	index := 0
	if l.addr.Is6() && l.addr.IsLinkLocalUnicast() {
		index = l.index
	}
	l.watch = linkwatch.New(l.addr, index, isUp)
	return l
}

func findLocal(addr netip.Addr, opt *Options) (l local, isUp bool) {
	zone := addr.Zone()
	addr = addr.WithZone("")
	l = local{addr: addr, opt: *opt, mtu: 1500}
	ifs, err := net.Interfaces()
	if err != nil {
		return l, true // a name and a size for information only
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
				l.dev, l.index, l.mtu = i.Name, i.Index, i.MTU
				const up = net.FlagUp | net.FlagRunning
				return l, i.Flags&up == up
			}
		}
	}
	return l, true
}

// onLink gives an address that is good for its link only the link as zone, as sockets want it.
func onLink(a netip.Addr, link string) netip.Addr {
	if a.Is6() && a.IsLinkLocalUnicast() {
		return a.WithZone(link)
	}
	return a
}

// Attr returns the attributes of the port. The path MTU says nothing about a stream.
func (l *local) Attr() (verbs.PortAttr, []verbs.GIDEntry) {
	mtu := verbs.MTU1024
	if l.mtu > 4096 {
		mtu = verbs.MTU4096
	}
	return verbs.PortAttr{State: l.watch.PortState(), Link: verbs.LinkEthernet, NetDev: l.dev, MaxMTU: verbs.MTU4096, ActiveMTU: mtu, LinkMTU: l.mtu,
		SpeedMbps: l.speed}, []verbs.GIDEntry{{GID: ib.GIDFromAddr(l.addr), Type: verbs.GIDiWARP, NetDev: l.dev}}
}

// Follow has raise called when the address or its interface goes or comes back.
func (l *local) Follow(raise func(verbs.EventType)) { l.watch.Follow(raise) }

// StopFollowing ends Follow, and the watch with it.
func (l *local) StopFollowing() { l.watch.Close() }

// Resolve checks an address vector.
func (l *local) Resolve(a *verbs.AHAttr) error {
	to := a.DGID.Addr()
	switch {
	case a.SGIDIndex != 0:
		return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid, Detail: fmt.Sprintf("SGIDIndex is %d, the GID table has row 0 only", a.SGIDIndex)}
	case a.DGID == verbs.GID{} || to.IsUnspecified() || to.IsMulticast():
		return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid, Detail: fmt.Sprintf("DGID %v is no address of a host", to)}
	case to.Is4() != l.addr.Is4():
		return &verbs.OpError{Op: "modify_qp", Err: verbs.ErrInvalid, Detail: fmt.Sprintf("DGID %v cannot be reached from %v: one is IPv4, the other IPv6", to, l.addr)}
	}
	return nil
}

// Wishes are what the device brings to the set-up of streams.
func (l *local) Wishes() rdmap.Wishes {
	w := rdmap.Wishes{CRC: !l.opt.NoCRC, Markers: l.opt.Markers, Segment: rdmap.Large, IRD: maxDepth, ORD: maxDepth}
	if l.opt.FPDU != 0 {
		w.Segment = rdmap.SegmentOf(l.opt.FPDU)
	}
	return w
}
