// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
)

// partitions is a file: adapters 1 and 2 have a partition, and 3 and 4 another one.
const partitions = `
red = 0x10, ipoib, defmember=full : host-1, host-2;
blue = 0x20 : host-3=full, host-4;
`

// managed starts a fabric with options of its manager.
func managed(t *testing.T, shape string, o infiniband.ManagerOptions) *infiniband.Fabric {
	t.Helper()
	f, err := infiniband.GenerateFabric(shape, &infiniband.FabricOptions{Manager: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	softfabric.AwaitActive(t, f)
	return f
}

// meet connects two adapters, one of which echoes, and returns the P_Key of the queue pair.
func meet(t *testing.T, f *infiniband.Fabric, from, to string, limit time.Duration) (uint16, error) {
	t.Helper()
	a, b := device(t, f, from), device(t, f, to)
	l := pair.Echo(t, b, net.JoinHostPort(findNode(t, f, to).IP, "0"))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c, err := cm.Dial(ctx, a, l.Addr().String())
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := talk(ctx, c, 10); err != nil {
		t.Errorf("%s to %s: %v", from, to, err)
	}
	attr := c.QP().Query()
	keys, err := a.PKeys(1)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(keys[attr.PKeyIndex]), nil
}

// Connections are in the partition that both ends share, and there are none between partitions.
func TestPartitions(t *testing.T) {
	f := managed(t, "star:4", infiniband.ManagerOptions{PartitionFile: "parts", Partitions: partitions})
	for _, c := range []struct {
		from, to string
		key      uint16
	}{{"host-1", "host-2", 0x8010}, {"host-4", "host-3", 0x0020}, {"host-3", "host-4", 0x8020}} {
		if key, err := meet(t, f, c.from, c.to, time.Minute); err != nil || key != c.key {
			t.Errorf("%s to %s: P_Key %#x, %v; want %#x", c.from, c.to, key, err, c.key)
		}
	}
	if _, err := meet(t, f, "host-1", "host-3", time.Minute); err == nil || !strings.Contains(err.Error(), "path") {
		t.Errorf("between partitions: %v, want that there is no path", err)
	}
}

// Errors in the options are reported before a fabric runs.
func TestManagerOptions(t *testing.T) {
	for want, o := range map[string]infiniband.ManagerOptions{
		`parts:2: member "host-9"`:   {Partitions: "\nA=1 : host-9;", PartitionFile: "parts"},
		`there is no routing "best"`: {Routing: "best"},
		"M_Key protection 4":         {MKey: 1, Protect: 4},
		"belong to an M_Key":         {Lease: 3},
		"priority 16":                {Priority: 16},
	} {
		f, err := infiniband.GenerateFabric("star:2", &infiniband.FabricOptions{Manager: o})
		if err == nil {
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
