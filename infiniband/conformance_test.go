// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/conformance"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(guestFabric); name != "" {
		guest(name)
		return
	}
	testrun.Waits()
	os.Exit(m.Run())
}

var groups atomic.Uint32

// group returns a multicast group that was not used before.
func group() verbs.GID {
	n := groups.Add(1)
	return verbs.GID{0: 0xff, 1: 0x12, 2: 0x50, 3: 0x1b, 14: byte(n >> 8), 15: byte(n)}
}

// join asks the subnet administrator to make the port of a device a member of a group.
func join(t testing.TB, f *infiniband.Fabric, dev *verbs.Device, g verbs.GID) (lid uint16) {
	t.Helper()
	lid = conformance.JoinSubnet(t, dev, g)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := f.AwaitActive(ctx); err != nil { // until the switches have it
		t.Fatal(err)
	}
	return lid
}

// adapters is how many the fabric of conformance tests has: more than there are devices at a time.
const adapters = 256

// fixture opens devices at adapters of a fabric that have no other: programs at one adapter share its packets
// that have no destination there.
func fixture(f *infiniband.Fabric, open func(adapter string) (*verbs.Device, error)) conformance.Fixture {
	free := make(chan string, adapters) // least recently used first
	for i := range adapters {
		free <- fmt.Sprintf("host-%d", i+1)
	}
	joins := func(t testing.TB, dev *verbs.Device, g verbs.GID) uint16 { return join(t, f, dev, g) }
	return conformance.Fixture{Group: group, Join: joins, Open: func(t testing.TB) *verbs.Device {
		t.Helper()
		adapter := <-free
		t.Cleanup(func() { free <- adapter })
		d, err := open(adapter)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}}
}

// TestConformance runs the suite between adapters at two levels of switches.
func TestConformance(t *testing.T) {
	f := softfabric.Start(t, "fat-tree:16,2")
	conformance.Run(t, fixture(f, func(a string) (*verbs.Device, error) { return f.Open(a, nil) }))
}

// TestConformanceAttached runs it as programs of other processes do, over a socket.
func TestConformanceAttached(t *testing.T) {
	f := softfabric.Start(t, "fat-tree:16,2")
	name := fmt.Sprintf("test-%d", os.Getpid())
	if err := f.Serve(t.Context(), name); err != nil {
		t.Skip(err)
	}
	x := fixture(f, func(a string) (*verbs.Device, error) { return infiniband.Open(name, a, nil) })
	// Each packet passes five goroutines of both sides. With hundreds of devices in one process their turns
	// come later than the 2 s after which a queue pair gives up.
	x.Serial, x.Variant = true, true
	conformance.Run(t, x)
}
