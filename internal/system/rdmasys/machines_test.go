// SPDX-License-Identifier: Apache-2.0

package rdmasys_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
	"github.com/ramjet-rdma/ramjet/internal/testkit/machines"
)

// Devices are read as the machines' tools show them.
func TestDevices(t *testing.T) {
	for machine, want := range map[string]string{
		"none": "",
		"guest": "rxe0 CA uverbs0 hardware=false: 1 Ethernet ACTIVE LinkUp lid 0/0 eth0 [0 fe80::5054:ff:fe00:1 RoCE v2 eth0] [1 10.9.0.2 RoCE v2 eth0] [2 fd09::2 RoCE v2 eth0]\n" +
			"siw0 RNIC uverbs1 hardware=false: 1 Ethernet ACTIVE LinkUp lid 0/0 eth1 [0 5254:0:2:: IB/RoCE v1 eth1]\n",
		"mlx5-roce": "mlx5_0 CA uverbs0 hardware=true: 1 Ethernet ACTIVE LinkUp lid 0/0 ens1f0np0 [0 fe80::ba59:9fff:fea9:1c2e IB/RoCE v1 ens1f0np0] [1 fe80::ba59:9fff:fea9:1c2e RoCE v2 ens1f0np0] " +
			"[2 192.0.2.7 IB/RoCE v1 ens1f0np0] [3 192.0.2.7 RoCE v2 ens1f0np0] [4 2001:db8::7 IB/RoCE v1 ens1f0np0] [5 2001:db8::7 RoCE v2 ens1f0np0] " +
			"[6 198.51.100.7 IB/RoCE v1 ens1f0np0.100] [7 198.51.100.7 RoCE v2 ens1f0np0.100]\n" +
			"mlx5_1 CA uverbs1 hardware=true: 1 Ethernet DOWN Disabled lid 0/0 ens1f1np1 [0 fe80::ba59:9fff:fea9:1c2f IB/RoCE v1 ens1f1np1] [1 fe80::ba59:9fff:fea9:1c2f RoCE v2 ens1f1np1]\n",
		"mlx5-ib": "mlx5_0 CA uverbs0 hardware=true: 1 InfiniBand ACTIVE LinkUp lid 17/1  [0 fe80::506b:4b03:f7:a1b2 IB/RoCE v1 ]\n" +
			"mlx5_1 CA uverbs1 hardware=true: 1 InfiniBand INIT LinkUp lid 65535/0  [0 fe80::506b:4b03:f7:a1b3 IB/RoCE v1 ]\n",
		"container": "mlx5_0 CA uverbs0 hardware=true: 1 Ethernet ACTIVE LinkUp lid 0/0 ens1f0np0 [0 192.0.2.7 IB/RoCE v1 ens1f0np0] [1 192.0.2.7 RoCE v2 ens1f0np0]\n",
	} {
		var b strings.Builder
		for _, d := range machines.Source(t, machine).Read().Devices {
			fmt.Fprintf(&b, "%s %s %s hardware=%v:", d.Name, d.NodeType, d.Verbs, d.Hardware)
			for _, p := range d.Ports {
				fmt.Fprintf(&b, " %d %s %s %s lid %d/%d %s", p.Number, p.LinkLayer, p.State, p.Physical, p.LID, p.SMLID,
					p.NetDev)
				for _, g := range p.GIDs {
					fmt.Fprintf(&b, " [%d %v %s %s]", g.Index, g.Addr, g.Type, g.NetDev)
				}
			}
			b.WriteByte('\n')
		}
		if got := b.String(); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", machine, got, want)
		}
	}
}

// The facts around the devices are read, too.
func TestHost(t *testing.T) {
	guest := machines.Source(t, "guest").Read()
	if guest.Kernel != "6.12.117+deb13-amd64" || guest.Container != "" || !guest.Modules.Has("rdma_rxe") ||
		guest.Modules.Has("mlx5_ib") || !guest.Modules.Available["siw"] {
		t.Errorf("guest: kernel %q, container %q, %+v", guest.Kernel, guest.Container, guest.Modules)
	}
	if len(guest.Ports) != 2 || guest.Ports[0].Addr != netip.IPv4Unspecified() ||
		guest.Ports[1].Addr != netip.IPv6Unspecified() || guest.Ports[0].Inode != 450 {
		t.Errorf("guest: port 4791: %+v", guest.Ports)
	}
	if i := guest.Interface("eth0"); i == nil || i.MTU != 9000 || i.State != "up" || i.Type != rdmasys.TypeEthernet {
		t.Errorf("guest: %+v", i)
	}
	roce := machines.Source(t, "mlx5-roce").Read()
	i := roce.Interface("ens1f0np0")
	if i == nil || i.Driver != "mlx5_core" || i.PFC == nil || i.PFC.Classes != 8 || len(i.ECN) != 2 ||
		i.ECN[1] != (rdmasys.ECN{Role: "roce_rp", Enabled: 8}) {
		t.Errorf("mlx5-roce: %+v", i)
	}
	if len(roce.Files) != 3 || !errors.Is(roce.Files[1].Problem, syscall.EACCES) || roce.Files[2].Problem != nil ||
		roce.Memlock.Bytes != 65536 {
		t.Errorf("mlx5-roce: %+v, %+v", roce.Files, roce.Memlock)
	}
	if d := roce.Device("mlx5_0"); d.Ports[0].CMType != "IB/RoCE v1" || d.Driver != "mlx5_core" {
		t.Errorf("mlx5-roce: %+v", d)
	}
	if len(roce.Filters) != 1 || !roce.Filters[0].Drops {
		t.Errorf("mlx5-roce: %+v", roce.Filters)
	}
	c := machines.Source(t, "container").Read()
	if c.Container != "/.dockerenv" || len(c.Files) != 0 || len(c.Limits) != 1 ||
		c.Limits[0] != (rdmasys.RDMALimit{File: "/sys/fs/cgroup/rdma.max", Device: "mlx5_0", Handles: 0,
			Objects: 2000}) {
		t.Errorf("container: %q, %+v, %+v", c.Container, c.Files, c.Limits)
	}
	if len(c.Unread) != 1 || c.Unread[0].What != "packet filters" {
		t.Errorf("container: %+v", c.Unread)
	}
	if n := machines.Source(t, "none").Read(); n.Parameters.PtraceScope != 1 || n.Parameters.RecvBufferMax != 212992 ||
		n.Parameters.UserNSAllowed != -1 {
		t.Errorf("none: %+v", n.Parameters)
	}
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// The device of a route is found with the right GID, or it is said why there is none.
func TestWays(t *testing.T) {
	for _, c := range []struct {
		machine string
		route   rdmasys.Route
		want    string
	}{
		{"none", rdmasys.Route{From: addr("192.0.2.7"), NetDev: "eth0"}, ""},
		{"guest", rdmasys.Route{From: addr("10.9.0.2"), NetDev: "eth0"},
			"rxe0/1 gid 1: RoCE: GID 1 is 10.9.0.2 on eth0, RoCE v2\n"},
		{"guest", rdmasys.Route{From: addr("fd09::2"), NetDev: "eth0"},
			"rxe0/1 gid 2: RoCE: GID 2 is fd09::2 on eth0, RoCE v2\n"},
		{"guest", rdmasys.Route{From: addr("fe80::5054:ff:fe00:1%eth0"), NetDev: "eth0"},
			"rxe0/1 gid 0: RoCE: GID 0 is fe80::5054:ff:fe00:1 on eth0, RoCE v2\n"},
		{"guest", rdmasys.Route{From: addr("10.9.0.3"), NetDev: "eth0"},
			"not rxe0/1: it is on eth0, but its GID table has no 10.9.0.3\n"},
		{"guest", rdmasys.Route{From: addr("10.9.1.2"), NetDev: "eth1"}, "siw0/1 gid 0: iWARP on eth1\n"},
		{"guest", rdmasys.Route{From: addr("10.9.0.2"), NetDev: "lo", Local: true},
			"rxe0/1 gid 1: RoCE: GID 1 is 10.9.0.2 on eth0, RoCE v2\n"},
		{"guest", rdmasys.Route{From: addr("127.0.0.1"), NetDev: "lo", Local: true}, ""},
		{"mlx5-roce", rdmasys.Route{From: addr("192.0.2.7"), NetDev: "ens1f0np0"},
			"mlx5_0/1 gid 3: RoCE: GID 3 is 192.0.2.7 on ens1f0np0, RoCE v2\n"},
		{"mlx5-roce", rdmasys.Route{From: addr("2001:db8::7"), NetDev: "ens1f0np0"},
			"mlx5_0/1 gid 5: RoCE: GID 5 is 2001:db8::7 on ens1f0np0, RoCE v2\n"},
		{"mlx5-roce", rdmasys.Route{From: addr("198.51.100.7"), NetDev: "ens1f0np0.100"},
			"mlx5_0/1 gid 7: RoCE: GID 7 is 198.51.100.7 on ens1f0np0.100, RoCE v2\n"},
		{"mlx5-roce", rdmasys.Route{From: addr("fe80::ba59:9fff:fea9:1c2f"), NetDev: "ens1f1np1"},
			"not mlx5_1/1: RoCE: GID 1 is fe80::ba59:9fff:fea9:1c2f on ens1f1np1, RoCE v2, but its port 1 is DOWN\n"},
		{"mlx5-ib", rdmasys.Route{From: addr("192.0.2.7"), NetDev: "ib0"},
			"mlx5_0/1 gid 0: InfiniBand: ib0 is IPoIB on this port\n"},
		{"mlx5-ib", rdmasys.Route{From: addr("192.0.2.8"), NetDev: "ib1"},
			"not mlx5_1/1: InfiniBand: ib1 is IPoIB on this port, but its port 1 is INIT\n"},
		{"container", rdmasys.Route{From: addr("172.17.0.2"), NetDev: "eth0"}, ""},
	} {
		ways, not := machines.Source(t, c.machine).ReadDevices().Candidates(c.route)
		got := ""
		for _, w := range ways {
			got += fmt.Sprintf("%s/%d gid %d: %s\n", w.Device, w.Port, w.GID, w.Reason)
		}
		for _, n := range not {
			got += fmt.Sprintf("not %s/%d: %s\n", n.Device, n.Port, n.Reason)
		}
		if got != c.want {
			t.Errorf("%s, %+v:\n%swant\n%s", c.machine, c.route, got, c.want)
		}
	}
}

// A table that has an address for RoCE v1 alone is no way, and hardware comes before software.
func TestWaysOrder(t *testing.T) {
	gid := func(typ string) []rdmasys.GID {
		return []rdmasys.GID{{Index: 2, Addr: addr("192.0.2.7"), Type: typ, NetDev: "eth0"}}
	}
	port := func(typ string) []rdmasys.Port {
		return []rdmasys.Port{{Number: 1, LinkLayer: "Ethernet", State: "ACTIVE", NetDev: "eth0", GIDs: gid(typ)}}
	}
	s := &rdmasys.System{Interfaces: []rdmasys.Interface{{Name: "eth0", Type: rdmasys.TypeEthernet}},
		Devices: []rdmasys.Device{
			{Name: "rxe0", Ports: port(rdmasys.RoCEv2)}, {Name: "old0", Hardware: true, Ports: port("IB/RoCE v1")},
			{Name: "new0", Hardware: true, Ports: port(rdmasys.RoCEv2)},
		}}
	ways, not := s.Candidates(rdmasys.Route{From: addr("192.0.2.7"), NetDev: "eth0"})
	if len(ways) != 2 || ways[0].Device != "new0" || ways[1].Device != "rxe0" || ways[0].GID != 2 {
		t.Errorf("%+v", ways)
	}
	if len(not) != 1 || not[0].Device != "old0" || !strings.Contains(not[0].Reason, "IB/RoCE v1 only") {
		t.Errorf("%+v", not)
	}
}

// An interface is found by the MAC address in an iWARP GID where the table does not name it.
func TestInterfaceByMAC(t *testing.T) {
	src := machines.Source(t, "guest")
	delete(src.Root.(fstest.MapFS), "sys/class/infiniband/siw0/ports/1/gid_attrs/ndevs/0")
	if p := src.Read().Device("siw0").Ports[0]; p.NetDev != "eth1" {
		t.Errorf("siw0 is on %q", p.NetDev)
	}
}

func TestPathMTU(t *testing.T) {
	for mtu, want := range map[int]int{0: 0, 351: 0, 352: 256, 1500: 1024, 4191: 2048, 4192: 4096, 9000: 4096} {
		if got := rdmasys.PathMTU(mtu); got != want {
			t.Errorf("MTU %d: path MTU %d, want %d", mtu, got, want)
		}
	}
}

// This machine can be read.
func TestThisHost(t *testing.T) {
	s := rdmasys.Host().Read()
	r, err := rdmasys.RouteTo(addr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	if r.From != addr("127.0.0.1") || r.NetDev == "" {
		t.Errorf("the route to 127.0.0.1: %+v", r)
	}
	if s.Kernel != "" && s.Interface(r.NetDev) == nil {
		t.Errorf("no interface %s among %+v", r.NetDev, s.Interfaces)
	}
}

// Reading files with any contents ends without a panic, and returns names that Ways can use.
func FuzzRead(f *testing.F) {
	f.Add("4: ACTIVE", "fe80:0000:0000:0000:5054:00ff:fe00:0001", "RoCE v2", "0::/a/b",
		"24 27 0:22 / /cg rw - cgroup2 cgroup2 rw", "rxe0 hca_handle=2 hca_object=max")
	f.Add("x", "0000:0000:0000:0000:0000:ffff:0a09:0002", "", "9:rdma,devices:/",
		"24 27 0:22 /x /cg rw - cgroup cgroup rw,rdma", "rxe0")
	f.Fuzz(func(t *testing.T, state, gid, typ, cgroup, mounts, limits string) {
		const at = "sys/class/infiniband/d/"
		file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
		src := rdmasys.Source{Root: fstest.MapFS{
			at + "node_type": file(state), at + "ports/1/state": file(state), at + "ports/1/gids/0": file(gid),
			at + "ports/1/lid":               file(limits),
			at + "ports/1/gid_attrs/types/0": file(typ), "proc/self/cgroup": file(cgroup),
			"proc/self/mountinfo": file(mounts), "cg/rdma.max": file(limits),
			"cg/a/rdma.max": file(limits), "proc/modules": file(cgroup), "proc/net/udp": file(mounts),
			"proc/net/udp6":       file(limits),
			"sys/class/net/e/mtu": file(state), "sys/class/net/e/address": file(gid),
			"sys/class/net/e/type": file("32"), "proc/sys/kernel/osrelease": file(typ),
		}}
		s := src.Read()
		for _, g := range s.Devices[0].Ports[0].GIDs {
			if !g.Addr.IsValid() || g.Addr.IsUnspecified() {
				t.Errorf("%v of %q", g.Addr, gid)
			}
			s.Candidates(rdmasys.Route{From: g.Addr, NetDev: "e"})
		}
		for _, l := range s.Limits {
			if l.Handles < -1 || l.Objects < -1 {
				t.Errorf("%+v of %q", l, limits)
			}
		}
	})
}
