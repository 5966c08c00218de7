// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/conformance"
	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// fixture has each test run on a network of its own.
func fixture(open func(*simnet.Host) (*verbs.Device, error)) conformance.Fixture {
	var n *simnet.Net
	groups, hosts := byte(0), map[*verbs.Device]*simnet.Host{}
	return conformance.Fixture{
		Within: func(t *testing.T, test func(*testing.T)) {
			synctest.Test(t, func(t *testing.T) {
				n = simnet.New(1, nil)
				n.Default = simnet.Path{Delay: 10 * time.Microsecond, Rate: 10e9}
				t.Cleanup(n.Close)
				test(t)
			})
		},
		Open: func(t testing.TB) *verbs.Device {
			h := n.NewHost()
			dev, err := open(h)
			if err != nil {
				t.Fatal(err)
			}
			hosts[dev] = h
			t.Cleanup(func() { dev.Close(); delete(hosts, dev) })
			return dev
		},
		Group: func() verbs.GID {
			groups++
			return ib.GIDFromAddr(netip.AddrFrom4([4]byte{239, 255, 0, groups}))
		},
		SetLink: func(dev *verbs.Device, up bool) { hosts[dev].SetLink(up) },
		Serial:  true,
	}
}

// Tests of the suite that are of a system's devices only.
var ofSystems = map[string]string{
	"Measure/Allocations": "the network allocates each packet",
	"MR/AnySlice":         "regions have addresses that are the same each time, and not those of their memory",
}

// TestConformanceRoCE and TestConformanceIWARP hold the network against the promises of devices, and devices
// against a network on which everything takes time.
func TestConformanceRoCE(t *testing.T) {
	steady(t)
	f := fixture(func(h *simnet.Host) (*verbs.Device, error) { return h.OpenRoCE(), nil })
	f.Differs = ofSystems
	conformance.Run(t, f)
}

func TestConformanceIWARP(t *testing.T) {
	steady(t)
	f := fixture((*simnet.Host).OpenIWARP)
	f.Missing, f.Differs = conformance.OfIWARP()
	maps.Copy(f.Differs, ofSystems)
	f.Differs["Measure/IdleQP"] = "a stream's buffers, which are a system's elsewhere, are in the heap"
	conformance.Run(t, f)
}

// TestConformanceInfiniBand has adapters of a fabric whose links take their time.
func TestConformanceInfiniBand(t *testing.T) {
	steady(t)
	var n *simnet.Net
	var f *simnet.Fabric
	group, opened := byte(0), 0
	cables := map[*verbs.Device][2]infiniband.End{}
	x := conformance.Fixture{
		Within: func(t *testing.T, test func(*testing.T)) {
			synctest.Test(t, func(t *testing.T) {
				n = simnet.New(1, nil)
				t.Cleanup(n.Close)
				var err error
				if f, err = n.NewFabric("line:2,8", 1); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(f.Close)
				f.AwaitActive()
				opened = 0
				test(t)
			})
		},
		Open: func(t testing.TB) *verbs.Device {
			opened++
			name := fmt.Sprintf("host-%d", (opened-1)%16+1)
			dev, err := n.NewHost().OpenInfiniBand(f, name)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range f.View().Cables {
				if c.A.Node == name || c.B.Node == name {
					cables[dev] = [2]infiniband.End{c.A, c.B}
				}
			}
			t.Cleanup(func() { dev.Close(); delete(cables, dev) })
			return dev
		},
		Group: func() verbs.GID {
			group++
			return verbs.GID{0: 0xff, 1: 0x12, 2: 0x50, 3: 0x1b, 15: group}
		},
		Join: func(t testing.TB, dev *verbs.Device, g verbs.GID) uint16 {
			lid := conformance.JoinSubnet(t, dev, g)
			f.AwaitActive() // until the switches have it
			return lid
		},
		SetLink: func(dev *verbs.Device, up bool) {
			c := cables[dev]
			if up {
				f.Plug(c[0], c[1])
			} else {
				f.Pull(c[0])
			}
		},
		Serial:  true,
		Differs: ofSystems,
	}
	conformance.Run(t, x)
}
