// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Bind gives the id a local address (rdma_bind_addr). An address that is not set or
// unspecified (0.0.0.0, ::) stands for the device's; port 0 for any port that is free, which
// is certain after Listen or Connect: others of the system may take it until then.
// ErrNoAddr if the address is not the device's, ErrAddrInUse if the port is taken.
func (id *ID) Bind(addr netip.AddrPort) error {
	if err := id.in("bind_addr", idle); err != nil {
		return err
	}
	defer id.m.unlock()
	return id.bind(addr)
}

func (id *ID) bind(addr netip.AddrPort) error {
	a, err := id.m.local(addr.Addr())
	if err != nil {
		return &verbs.OpError{Op: "bind_addr", Err: err}
	}
	if err := id.m.take(id, netip.AddrPortFrom(a, addr.Port())); err != nil {
		return err
	}
	id.state = bound
	return nil
}

// ResolveAddr finds the way to an address (rdma_resolve_addr), and binds the id if that has
// not happened: to src, or to any port if src is not set. AddrResolved or AddrError follows,
// for a device over IP at once; an address that cannot be reached by the device's is also
// refused at once. A port is needed to connect only.
func (id *ID) ResolveAddr(src, dst netip.AddrPort, timeout time.Duration) error {
	const op = "resolve_addr"
	if err := id.in(op, idle, bound); err != nil {
		return err
	}
	defer id.m.unlock()
	if !dst.IsValid() {
		return opErr(op, verbs.ErrInvalid, "%v is no address", dst)
	}
	if id.state == idle {
		if err := id.bind(src); err != nil {
			return err
		}
	}
	to := dst.Addr().Unmap().WithZone("")
	if to.IsUnspecified() {
		to = id.local.Addr()
	}
	if to.Is4() != id.local.Addr().Is4() {
		return opErr(op, ErrNoAddr, "%v cannot be reached from %v: one is IPv4, the other IPv6", to, id.local.Addr())
	}
	id.peer = netip.AddrPortFrom(to, dst.Port())
	if err := id.reachable(dst.Addr().Zone()); err != nil {
		id.tell(&Event{Type: AddrError, ID: id, Err: err})
		return nil
	}
	id.state = addrResolved
	id.tell(&Event{Type: AddrResolved, ID: id})
	return nil
}

// reachable asks the system whether there is a route from the device's address to the
// peer's, which may be said to be of a link; nothing is sent.
func (id *ID) reachable(zone string) error {
	port, err := id.m.dev.Port(1)
	if err != nil || port.Link != verbs.LinkEthernet {
		return err
	}
	from, to := id.local.Addr(), id.peer.Addr()
	if to.Is6() && to.IsLinkLocalUnicast() {
		if zone == "" || zone == port.NetDev {
			return nil // of the device's own link
		}
		if i, err := net.InterfaceByName(port.NetDev); err == nil && zone != strconv.Itoa(i.Index) {
			return opErr("resolve_addr", ErrNoAddr, "%v is of the link %s, and %v of %s", to, zone, from, i.Name)
		}
		return nil
	}
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
	if err == nil {
		return c.Close()
	}
	var sys *net.OpError
	if errors.As(err, &sys) {
		err = sys.Err
	}
	return &verbs.OpError{Op: "resolve_addr", Err: ErrNoAddr, Detail: fmt.Sprintf("no route from %v to %v: %v", from, to, err)}
}

// ResolveRoute finds the path to the resolved address (rdma_resolve_route). RouteResolved
// or RouteError follows, for a device over IP at once.
func (id *ID) ResolveRoute(timeout time.Duration) error {
	if err := id.in("resolve_route", addrResolved); err != nil {
		return err
	}
	defer id.m.unlock()
	id.state = routeResolved
	id.tell(&Event{Type: RouteResolved, ID: id})
	return nil
}

// SetTOS sets the type of service of the connection's packets (RDMA_OPTION_ID_TOS). To be
// called before Connect or Accept.
func (id *ID) SetTOS(tos uint8) error {
	if err := id.in("set_option", idle, bound, addrResolved, routeResolved, listening, requested); err != nil {
		return err
	}
	defer id.m.unlock()
	id.tos = tos
	return nil
}

// SetReuseAddr lets a port be bound that is bound already by ids that have it set too,
// unless somebody listens there (RDMA_OPTION_ID_REUSEADDR). To be called before Bind.
func (id *ID) SetReuseAddr(on bool) error {
	if err := id.in("set_option", idle); err != nil {
		return err
	}
	defer id.m.unlock()
	id.reuse = on
	return nil
}

// SetAckTimeout sets the local acknowledgement timeout, 4.096 µs × 2^t
// (RDMA_OPTION_ID_ACK_TIMEOUT): before Connect that of both sides' queue pairs, before Accept that
// of this side's, also for all requests to a listening id.
func (id *ID) SetAckTimeout(t uint8) error {
	if t == 0 || t > 31 {
		return opErr("set_option", verbs.ErrInvalid, "acknowledgement timeout %d: 1 to 31", t)
	}
	if err := id.in("set_option", idle, bound, addrResolved, routeResolved, listening, requested); err != nil {
		return err
	}
	defer id.m.unlock()
	id.ackTimeout = t
	return nil
}
