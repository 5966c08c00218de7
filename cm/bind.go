// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Bind gives the id a local address (rdma_bind_addr). An address that is not set or unspecified
// (0.0.0.0, ::) stands for the device's; port 0 for any free port. That port is certain only after
// Listen or Connect: other processes may take it until then. Bind returns ErrNoAddr if the address
// is not the device's, ErrAddrInUse if the port is taken.
func (id *ID) Bind(addr netip.AddrPort) (ret error) {
	defer id.begin("rdma_bind_addr", arg("addr", addr))(&ret)
	if err := id.lockIn("bind_addr", idle); err != nil {
		return err
	}
	defer id.m.unlock()
	return id.bind(addr, netip.Addr{})
}

// bind binds the id, to reach a peer; the zero Addr: none in particular.
func (id *ID) bind(addr netip.AddrPort, to netip.Addr) error {
	a, err := id.m.local(addr.Addr(), to)
	if err != nil {
		return &verbs.OpError{Op: "bind_addr", Err: err}
	}
	if err := id.m.bindPort(id, netip.AddrPortFrom(a, addr.Port())); err != nil {
		return err
	}
	id.anyAddr = !addr.Addr().IsValid() || addr.Addr().IsUnspecified()
	id.state = bound
	return nil
}

// ResolveAddr resolves an address (rdma_resolve_addr), and binds the id if it is not bound: to src,
// or to any port if src is not set. AddrResolved or AddrError follows: for a device over IP at
// once, for others within timeout, or a minute if that is longer or 0. An address that cannot be in
// the device's network is refused at once. After AddrError the id is bound. A port is required only
// to connect.
func (id *ID) ResolveAddr(src, dst netip.AddrPort, timeout time.Duration) (ret error) {
	defer id.begin("rdma_resolve_addr", arg("src_addr", src), arg("dst_addr", dst), timeoutArg(timeout))(&ret)
	const op = "resolve_addr"
	if err := id.lockIn(op, idle, bound); err != nil {
		return err
	}
	defer id.m.unlock()
	if !dst.IsValid() {
		return opErr(op, verbs.ErrInvalid, "%v is no address", dst)
	}
	if id.state == idle {
		if err := id.bind(src, dst.Addr().Unmap()); err != nil {
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
	resolved := func(err error) {
		if err != nil {
			id.state = bound
			id.deliver(&Event{Type: AddrError, ID: id, Err: err})
			return
		}
		id.state = addrResolved
		id.deliver(&Event{Type: AddrResolved, ID: id})
	}
	q, err := id.ep.resolveAddr(dst.Addr().Zone())
	if err != nil {
		resolved(err)
		return nil
	}
	q = faulted(id.m.drv, "resolve_addr", q)
	id.state = addrQuery
	id.ask(q, timeout, resolved)
	return nil
}

// ResolveRoute resolves the path to the resolved address (rdma_resolve_route). RouteResolved or
// RouteError follows: for a device over IP at once, for others within timeout, or a minute if that
// is longer or 0. After RouteError the id is as it was before.
func (id *ID) ResolveRoute(timeout time.Duration) (ret error) {
	defer id.begin("rdma_resolve_route", timeoutArg(timeout))(&ret)
	if err := id.lockIn("resolve_route", addrResolved); err != nil {
		return err
	}
	defer id.m.unlock()
	resolved := func(err error) {
		if err != nil {
			id.state = addrResolved
			id.deliver(&Event{Type: RouteError, ID: id, Err: err})
			return
		}
		id.state = routeResolved
		id.deliver(&Event{Type: RouteResolved, ID: id})
	}
	q, err := id.ep.resolveRoute()
	if err != nil {
		resolved(err)
		return nil
	}
	q = faulted(id.m.drv, "resolve_route", q)
	id.state = routeQuery
	id.ask(q, timeout, resolved)
	return nil
}

// SetTOS sets the type of service of the connection's packets (RDMA_OPTION_ID_TOS). It must be
// called before Connect or Accept.
func (id *ID) SetTOS(tos uint8) (ret error) {
	defer id.begin("rdma_set_option", arg("tos", tos))(&ret)
	if err := id.lockIn("set_option", idle, bound, addrResolved, routeResolved, listening, requested); err != nil {
		return err
	}
	defer id.m.unlock()
	id.tos = tos
	return nil
}

// SetReuseAddr allows binding a port that is bound by ids that have it set too, unless one of them
// listens (RDMA_OPTION_ID_REUSEADDR). It must be called before Bind.
func (id *ID) SetReuseAddr(on bool) (ret error) {
	defer id.begin("rdma_set_option", arg("reuseaddr", on))(&ret)
	if err := id.lockIn("set_option", idle); err != nil {
		return err
	}
	defer id.m.unlock()
	id.reuse = on
	return nil
}

// SetAckTimeout sets the local acknowledgement timeout, 4.096 µs × 2^t (RDMA_OPTION_ID_ACK_TIMEOUT). Called before
// Connect it holds for both sides' queue pairs, before Accept for this side's. On a listening id it holds for all
// requests.
func (id *ID) SetAckTimeout(t uint8) (ret error) {
	defer id.begin("rdma_set_option", arg("ack_timeout", t))(&ret)
	if t == 0 || t > 31 {
		return opErr("set_option", verbs.ErrInvalid, "acknowledgement timeout %d: 1 to 31", t)
	}
	if err := id.lockIn("set_option", idle, bound, addrResolved, routeResolved, listening, requested); err != nil {
		return err
	}
	defer id.m.unlock()
	id.ackTimeout = t
	return nil
}

// SetRNRRetry sets how often this side's queue pair tries again when the peer has no receive posted,
// whatever the peer's [ConnParam.RNRRetryCount] asks for: 0 to 7, where 7 stands for unlimited. It is
// for protocols whose peers ask for none, and may be late in posting receives. It must be called
// before Connect or Accept. On a listening id it holds for all requests. Over iWARP, where a message waits
// for a receive without limit, it has no effect.
func (id *ID) SetRNRRetry(n uint8) (ret error) {
	defer id.begin("rdma_set_option", arg("rnr_retry", n))(&ret)
	if n > endlessRNR {
		return opErr("set_option", verbs.ErrInvalid, "%d RNR retries: 0 to 7", n)
	}
	if err := id.lockIn("set_option", idle, bound, addrResolved, routeResolved, listening, requested); err != nil {
		return err
	}
	defer id.m.unlock()
	id.rnrRetry = &n
	return nil
}
