// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	tracePort = 33434 // where traceroute's datagrams go: no program listens there
	probeTime = time.Second
	probes    = 2 // of each length: hosts limit how often they answer
)

// Path finds out how long a packet may be on the path to a peer, up to the MTU of the route. It sends
// datagrams, which may not be fragmented, to a port where no program listens; the peer answers
// datagrams that arrive by ICMP (RFC 1191, RFC 8201, as RFC 8899 does it). A peer may also answer
// nothing. It takes some seconds at most, and ends with ctx.
func Path(ctx context.Context, r Route, peer netip.Addr) PathTest {
	var t PathTest
	headers := 20 + 8
	if peer.Unmap().Is6() {
		headers = 40 + 8
	}
	lengths := []int{min(r.MTU, 9000)}
	for _, m := range pathMTUs {
		if l := LinkMTU(m); l < lengths[0] {
			lengths = append(lengths, l)
		}
	}
	if t.RoCE = probe(ctx, r, peer, RoCEPort, 4, 1); ctx.Err() != nil {
		return t
	}
	// First whether it answers at all.
	least := slices.Min(lengths)
	switch probe(ctx, r, peer, tracePort, max(0, least-headers), probes) {
	case Arrived:
		t.Sent, t.Passed = least, least
	case TooLong:
		t.Sent, t.Lost = least, least
		return t
	default:
		t.Problem = "the peer does not answer datagrams to a closed port, so nothing can be said"
		return t
	}
	for _, l := range lengths {
		if ctx.Err() != nil || l <= t.Passed {
			break
		}
		t.Sent = max(t.Sent, l)
		if probe(ctx, r, peer, tracePort, l-headers, probes) == Arrived {
			t.Passed = l
			break
		}
		t.Lost = l
	}
	return t
}

// probe sends a datagram of n bytes to a port of a peer, again if there is no answer, and waits for
// one.
func probe(ctx context.Context, r Route, peer netip.Addr, port uint16, n, times int) Answer {
	d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.From, 0)), Control: dontFragment}
	c, err := d.DialContext(ctx, "udp", netip.AddrPortFrom(peer, port).String())
	if err != nil {
		return NotSent
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	answer := NoAnswer
	for range times {
		if ctx.Err() != nil {
			return answer
		}
		c.SetReadDeadline(time.Now().Add(probeTime))
		_, err := c.Write(make([]byte, n))
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		switch {
		case errors.Is(err, unix.ECONNREFUSED):
			return Arrived
		case errors.Is(err, unix.EMSGSIZE):
			return TooLong
		case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EACCES):
			answer = Refused
		case errors.Is(err, unix.EPERM): // by a filter of this host
			return NotSent
		}
	}
	return answer
}

// dontFragment sets that packets are sent whole or not at all, without regard to the path MTU that the system knows.
func dontFragment(network, _ string, c syscall.RawConn) error {
	var err error
	cerr := c.Control(func(fd uintptr) {
		if network == "udp6" {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
			if err == nil {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
			}
			return
		}
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
		if err == nil {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1)
		}
	})
	return errors.Join(cerr, err)
}
