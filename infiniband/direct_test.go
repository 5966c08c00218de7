// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
)

// direct is two adapters without a switch, so that the built-in manager is at the first one's port, as programs
// are.
func direct(t *testing.T) *infiniband.Fabric {
	t.Helper()
	f, err := infiniband.NewFabric("direct", "Hca 1 \"one\"\n[1] \"two\"[1]\n\nHca 1 \"two\"\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	softfabric.AwaitActive(t, f)
	return f
}

// Programs at the manager's own port connect and join groups as others do.
func TestDirect(t *testing.T) {
	f := direct(t)
	group := netip.MustParseAddr("239.255.77.6")
	one, ud := joinGroup(t, f, "one", group)
	two, _ := joinGroup(t, f, "two", group)
	one.send(one.id.QP(), ud, "to both")
	one.received("to both")
	two.received("to both")
	for i, host := range []string{"one", "two"} {
		l := pair.Echo(t, device(t, f, host), fmt.Sprintf("198.18.0.%d:0", i+1))
		for _, from := range []string{"one", "two"} {
			c, err := cm.Dial(within(t), device(t, f, from), l.Addr().String())
			if err != nil {
				t.Fatalf("from %s to %s: %v", from, host, err)
			}
			if err := talk(within(t), c, 3); err != nil {
				t.Errorf("from %s to %s: %v", from, host, err)
			}
			c.Close()
		}
	}
}
