// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/app/localca"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A row has the facts that an open device reports itself.
func TestRows(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("iWARP over TCP needs Linux")
	}
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Table {
		t.Run(k.Name, func(t *testing.T) {
			if k.Link {
				t.Skip("its devices are not of the loopback interface: TestLinkRow")
			}
			if k.Hardware {
				t.Skip("its devices are the kernel's: TestKernelRow")
			}
			if k.Soft {
				t.Skip("its devices are on a fabric: TestFabricRow")
			}
			var name Name
			dev, addr := loopback.Open(t, func(addr string) (*verbs.Device, error) {
				o := &Options{}
				if k.TLS {
					if o.TLS, err = ca.Config(netip.MustParseAddr(addr)); err != nil {
						return nil, err
					}
				}
				name = k.NameAt(addr)
				return Open(name.String(), o)
			})
			if dev.Name() != name.String() {
				t.Errorf("it is called %q, opened as %q", dev.Name(), name)
			}
			a := dev.Query()
			if a.Transport != k.Transport || k.Transport.String() == "unknown" {
				t.Errorf("transport %v, the row says %v", a.Transport, k.Transport)
			}
			if guid, err := name.GUID(); err != nil || guid != a.NodeGUID {
				t.Errorf("GUID %x, %v before it was opened, %x then", guid, err, a.NodeGUID)
			}
			if ip, ok := name.IP(); !ok || ip != addr {
				t.Errorf("address %v, %v, opened as %v", ip, ok, addr)
			}
			if k.Text == "" || k.Passes == "" && !k.Host && !k.Soft || !k.Listed && k.Beyond == "" {
				t.Errorf("nobody is told what it is, or how to come by it: %+v", k)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ name, kind, address, options, ip, wrong string }{
		{"roce:192.0.2.7", "roce", "192.0.2.7", "", "192.0.2.7", ""},
		{"iwarp:fd09::1?crc=off", "iwarp", "fd09::1", "?crc=off", "fd09::1", ""},
		{"iwarp+sctp:fe80::1%eth0", "iwarp+sctp", "fe80::1%eth0", "", "fe80::1%eth0", ""},
		{"roce:::ffff:192.0.2.7", "roce", "::ffff:192.0.2.7", "", "192.0.2.7", ""},
		{"iwarps:?congestion=cubic", "iwarps", "", "?congestion=cubic", "invalid IP", ""},
		{"192.0.2.7", "", "", "", "", "needs a kind and a colon: did you mean roce:192.0.2.7?"},
		{"rose:192.0.2.7", "", "", "", "",
			"there are roce, roce1, infiniband, iwarp, iwarps, iwarp+sctp, shm and kernel"},
	} {
		n, err := Parse(c.name)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v", c.name, err)
			}
			if _, err := Open(c.name, &Options{}); err == nil || !strings.HasPrefix(err.Error(), "ramjet: ") ||
				!strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: opening says %v", c.name, err)
			}
			continue
		}
		if err != nil || n.String() != c.name || n.Kind.Name != c.kind {
			t.Errorf("%s: %v, %v", c.name, n, err)
			continue
		}
		address, options := n.Split()
		ip, _ := n.IP()
		if address != c.address || options != c.options || ip.String() != c.ip {
			t.Errorf("%s: address %q, options %q, IP %v", c.name, address, options, ip)
		}
	}
}

// Spare addresses are as many as asked for, different, and local.
func TestSpare(t *testing.T) {
	got, err := ipNaming{}.Spare(2)
	if err != nil {
		t.Skip(err)
	}
	seen := slices.Compact(slices.Sorted(slices.Values(got)))
	if len(got) < 2 || len(seen) != len(got) {
		t.Errorf("%q", got)
	}
	if dev, err := Open(Default().NameAt(got[0]).String(), &Options{}); err == nil {
		dev.Close()
	} else if !errors.Is(err, syscall.EADDRINUSE) {
		t.Error(err)
	}
	if runtime.GOOS != "linux" {
		if _, err := (ipNaming{}).Spare(1 << 10); err == nil {
			t.Error("this host has 1024 IPv4 addresses")
		}
	}
}
