// SPDX-License-Identifier: Apache-2.0

package iwarp_test

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/iwarp"
)

// linkLocal returns an IPv6 address of this host that is good for its link only, with the zone.
func linkLocal(t *testing.T) (netip.Addr, *net.Interface) {
	t.Helper()
	ifs, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range ifs {
		addrs, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 {
			continue
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is6() && p.Addr().IsLinkLocalUnicast() {
				return p.Addr().WithZone(i.Name), &i
			}
		}
	}
	t.Skip("no interface has an IPv6 link-local address")
	return netip.Addr{}, nil
}

// TestLinkLocal connects a device of a link-local address with itself. The zone is the
// device's, whether it is said or not.
func TestLinkLocal(t *testing.T) {
	addr, i := linkLocal(t)
	for name, opt := range map[string]*iwarp.Options{"TCP": nil, "SCTP": {SCTP: true}} {
		t.Run(name, func(t *testing.T) {
			if opt == nil && runtime.GOOS != "linux" {
				t.Skip("iWARP over TCP is for Linux")
			}
			for _, open := range []string{addr.String(), addr.WithZone("").String()} {
				dev, err := iwarp.Open(open, opt)
				if err != nil {
					t.Fatal(err)
				}
				defer dev.Close()
				if p, err := dev.Port(1); err != nil || p.NetDev != i.Name || p.LinkMTU != i.MTU {
					t.Errorf("%s: the port is %+v, %v", open, p, err)
				}
				ctx := bounded(t)
				at, err := netip.ParseAddrPort(pair.EchoAddress(t, dev))
				if err != nil {
					t.Fatal(err)
				}
				for _, to := range []netip.Addr{addr, addr.WithZone("")} {
					c, err := cm.Dial(ctx, dev, netip.AddrPortFrom(to, at.Port()).String())
					if err != nil {
						t.Fatal(err)
					}
					echoes(ctx, t, c)
					if c.PeerAddr().Addr().WithZone("") != addr.WithZone("") || c.PeerAddr().Port() != at.Port() {
						t.Errorf("connected to %v", c.PeerAddr())
					}
					c.Close()
				}
				elsewhere := netip.AddrPortFrom(addr.WithZone("none"), at.Port()).String()
				if _, err := cm.Dial(ctx, dev, elsewhere); !errors.Is(err, cm.ErrNoAddr) {
					t.Errorf("dialing an address of another link: %v", err)
				}
				dev.Close()
			}
			if _, err := iwarp.Open("fe80::83:83", opt); err == nil ||
				!strings.Contains(err.Error(), "not an address of this host") {
				t.Errorf("an address that nobody has: %v", err)
			}
		})
	}
}
