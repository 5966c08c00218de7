// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"maps"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/conformance"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// fixture has each test run on a network of its own.
func fixture(open func(*Host) (*verbs.Device, error)) conformance.Fixture {
	var n *Net
	groups, hosts := byte(0), map[*verbs.Device]*Host{}
	return conformance.Fixture{
		Within: func(t *testing.T, test func(*testing.T)) {
			synctest.Test(t, func(t *testing.T) {
				n = New(1, nil)
				n.Default = Path{Delay: 10 * time.Microsecond, Rate: 10e9}
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

// TestConformanceRoCE and TestConformanceIWARP hold the network against what devices promise, and devices
// against a network on which everything takes time.
func TestConformanceRoCE(t *testing.T) {
	steady(t)
	f := fixture(func(h *Host) (*verbs.Device, error) { return h.OpenRoCE(), nil })
	f.Differs = ofSystems
	conformance.Run(t, f)
}

func TestConformanceIWARP(t *testing.T) {
	steady(t)
	f := fixture((*Host).OpenIWARP)
	f.Missing, f.Differs = conformance.OfIWARP()
	maps.Copy(f.Differs, ofSystems)
	f.Differs["Measure/IdleQP"] = "a stream's buffers, which are a system's elsewhere, are in the heap"
	conformance.Run(t, f)
}
