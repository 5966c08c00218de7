// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
	"github.com/ramjet-rdma/ramjet/internal/testkit/machines"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// on returns the naming on a machine.
func on(t *testing.T, machine string) kernelNaming {
	return kernelNaming{func() *rdmasys.System { return machines.Source(t, machine).ReadDevices() }}
}

// Devices of the kernel are the ones in sysfs.
func TestKernelRow(t *testing.T) {
	found, err := on(t, "mlx5-ib").Local()
	if err != nil || len(found) != 2 || found[0].Address != "mlx5_0" || !found[0].Up || found[0].GID[0] != 0xfe ||
		found[1].Up {
		t.Errorf("%+v, %v", found, err)
	}
	k := on(t, "guest")
	if found, err := k.Local(); err != nil || len(found) != 2 || found[0].NetDev != "eth0" || found[0].LinkMTU != 9000 {
		t.Errorf("%+v, %v", found, err)
	}
	for ip, want := range map[string]string{"10.9.0.2": "rxe0", "fd09::2": "rxe0", "10.9.1.2": "siw0",
		"192.0.2.7": "192.0.2.7", "eth0": "eth0"} {
		if got := k.At(ip); got != want {
			t.Errorf("at %s there is %s, want %s", ip, got, want)
		}
	}
	for address, want := range map[string]string{"rxe0": "10.9.0.2", "siw0": "10.9.1.2", "": "invalid IP",
		"rxe1": "invalid IP"} {
		if got, _ := k.IP(address); got.String() != want {
			t.Errorf("%s has %v, want %s", address, got, want)
		}
	}
	// A device is its own peer, and devices that connect by number come first.
	if spare, err := k.Spare(2); err != nil || !slices.Equal(spare, []string{"rxe0", "rxe0", "siw0", "siw0"}) {
		t.Errorf("%q, %v", spare, err)
	}
	if spare, err := on(t, "mlx5-ib").Spare(1); err != nil || !slices.Equal(spare, []string{"mlx5_0"}) {
		t.Errorf("%q, %v", spare, err)
	}
	if _, err := on(t, "none").Spare(1); err == nil || !strings.Contains(err.Error(), "type rxe") {
		t.Errorf("spare devices: %v", err)
	}
	if found, err := on(t, "none").Local(); err != nil || len(found) != 0 {
		t.Errorf("without RDMA: %v, %v", found, err)
	}
}

// "kernel:" is the only device there is, or the one that has a way.
func TestKernelUnnamed(t *testing.T) {
	const whole = "kernel:"
	for _, c := range []struct {
		what, machine, from, netdev string // from: where the route begins
		name, want, says            string
	}{
		{"RoCE", "guest", "10.9.0.2", "eth0", whole, "kernel:rxe0",
			"using kernel:rxe0 of 2 devices, because it leads to 192.0.2.9 (RoCE: GID 1 is 10.9.0.2 on eth0"},
		{"RoCE by IPv6", "guest", "fd09::2", "eth0", whole, "kernel:rxe0", "GID 2 is fd09::2"},
		{"iWARP", "guest", "10.9.1.2", "eth1", whole, "kernel:siw0", "iWARP on eth1"},
		{"a name", "guest", "10.9.1.2", "eth1", "kernel:rxe0", "kernel:rxe0", ""},
		{"no device there", "guest", "127.0.0.1", "lo", whole, "",
			"none of kernel:rxe0, kernel:siw0 leads to 192.0.2.9: name one"},
		{"a port that is down", "mlx5-ib", "192.0.2.8", "ib1", whole, "",
			"mlx5_1: InfiniBand: ib1 is IPoIB on this port, but its port 1 is INIT: name one"},
		{"one device", "container", "127.0.0.1", "lo", whole, whole, ""},
		{"none", "none", "127.0.0.1", "lo", whole, whole, ""},
	} {
		n, err := Parse(c.name)
		if err != nil {
			t.Fatal(err)
		}
		sys := machines.Source(t, c.machine).ReadDevices()
		got, why := n, ""
		if n.Unnamed() {
			got, why, err = n.chooseAmong(sys, rdmasys.Route{From: netip.MustParseAddr(c.from), NetDev: c.netdev},
				"leads to 192.0.2.9")
		}
		if c.want == "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %s", c.what, err, c.says)
			}
			continue
		}
		if err != nil || got.String() != c.want || !strings.Contains(why, c.says) || (why == "") != (c.says == "") {
			t.Errorf("%s: %v, %q, %v; want %s, %s", c.what, got, why, err, c.want, c.says)
		}
	}
	for _, name := range []string{"roce:192.0.2.7", "shm:"} {
		if n, err := Parse(name); err != nil || n.Unnamed() {
			t.Errorf("%s leaves nothing open: %v", name, err)
		}
	}
}

// Only programs that name the package open devices of the kernel, and nothing records them.
func TestKernelOpen(t *testing.T) {
	if _, err := Open("kernel:mlx5_0", &Options{}); !errors.Is(err, verbs.ErrNotSupported) ||
		!strings.Contains(err.Error(), "ramjet.WithKernel(kernel.Open)") {
		t.Errorf("without the package: %v", err)
	}
	if _, err := Open("kernel:mlx5_0", &Options{Trace: &trace.Writer{}}); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("with a recording: %v", err)
	}
	asked, failed := "", errors.New("no such device")
	_, err := Open("kernel:mlx5_0", &Options{Kernel: func(name string) (*verbs.Device, error) {
		asked = name
		return nil, failed
	}})
	if asked != "mlx5_0" || !errors.Is(err, failed) {
		t.Errorf("asked for %q: %v", asked, err)
	}
}
