// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/internal/app/explain"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
	"github.com/ramjet-rdma/ramjet/internal/testkit/machines"
)

var update = flag.Bool("update", false, "write the reports of testdata anew")

// soft are a machine's software devices.
func soft(machine string) []Soft {
	all := []Soft{
		{Kind: "roce", Text: "RoCEv2: UDP port 4791", Device: "roce:127.64.0.1", Works: true, Port: 4791},
		{Kind: "roce1", Needs: "needs CAP_NET_RAW"},
		{Kind: "shm", Text: "shared memory between processes of this host", Device: "shm:", Works: true, Host: true},
	}
	if machine == "guest" {
		all[0].Works, all[0].Problem, all[0].Taken = false, "port 4791 is in use", true
	}
	return all
}

// The report of each machine is that of testdata, and fits a terminal.
func TestReports(t *testing.T) {
	for _, machine := range machines.Names {
		f := &Facts{System: machines.Source(t, machine).Read(), Soft: soft(machine)}
		if machine == "mlx5-roce" {
			r := rdmasys.Route{From: netip.MustParseAddr("192.0.2.7"), NetDev: "ens1f0np0", MTU: 1500}
			f.Peer = &Peer{Addr: netip.MustParseAddr("192.0.2.9"), Route: r,
				Path: rdmasys.PathTest{Sent: 1500, Passed: 1120, Lost: 1500, RoCE: rdmasys.NoAnswer},
				Best: []kinds.Choice{{Name: "roce:192.0.2.7",
					Reason: "software; RoCEv2: UDP port 4791, from 192.0.2.7, from which the system would send"}},
				Not: []kinds.Choice{{Name: "mlx5_0",
					Reason: "RoCE: GID 3 is 192.0.2.7 on ens1f0np0, RoCE v2; but this program has no devices of the kernel"}}}
		}
		var b strings.Builder
		if err := Write(&b, f, Diagnose(f), Style{}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width+6 ||
				n > width && !strings.HasPrefix(line, "      ") {
				t.Errorf("%s: %d columns: %s", machine, n, line)
			}
		}
		path := filepath.Join("testdata", machine+".txt")
		if *update {
			if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if b.String() != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", machine, b.String(), want)
		}
	}
}

// healthy returns a machine with which nothing is wrong, as a peer's too.
func healthy() *Facts {
	port := rdmasys.Port{Number: 1, LinkLayer: "Ethernet", State: "ACTIVE", Physical: "LinkUp", NetDev: "eth0",
		GIDs: []rdmasys.GID{{Index: 1, Addr: netip.MustParseAddr("192.0.2.7"), Type: rdmasys.RoCEv2, NetDev: "eth0"}}}
	return &Facts{
		System: &rdmasys.System{
			Kernel: "6.12.0",
			Devices: []rdmasys.Device{{Name: "mlx5_0", NodeType: "CA", Driver: "mlx5_core", Hardware: true,
				Verbs: "uverbs0", Ports: []rdmasys.Port{port}}},
			Interfaces: []rdmasys.Interface{{Name: "eth0", Type: rdmasys.TypeEthernet, MTU: 9000, State: "up",
				Driver: "mlx5_core", Addrs: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/24")}}},
			Modules: rdmasys.Modules{Known: true,
				Loaded: map[string]bool{"mlx5_ib": true, "ib_uverbs": true, "rdma_ucm": true}},
			Files:   []rdmasys.File{{Name: "uverbs0", Mode: 0o666}, {Name: "rdma_cm", Mode: 0o666}},
			Memlock: rdmasys.Memlock{Known: true, Unlimited: true},
			Parameters: rdmasys.Parameters{RecvBufferMax: 8 << 20, PtraceScope: -1, UserNamespaces: 1000,
				UserNSAllowed: -1},
			Offloads:  &rdmasys.Offloads{GSO: true, GRO: true},
			Group:     rdmasys.Group{Memory: -1, Processes: -1, Processors: -1},
			SharedMem: -1, Injected: &rdmasys.Injected{Folder: "/opt/ramjet/lib", Path: "/opt/ramjet/lib", InPath: true,
				Libc: "/lib/libc.so.6", Version: "GLIBC_2.36",
				Sysfs: "/run/ramjet-sysfs", Described: []string{"roce0"},
				Libraries: []rdmasys.Library{{File: "/opt/ramjet/lib/libibverbs.so.1", Needs: "GLIBC_2.31"},
					{File: "/opt/ramjet/lib/libramjet-sysfs.so", Preloaded: true}}},
		},
		Soft: soft(""),
		Peer: &Peer{Addr: netip.MustParseAddr("192.0.2.9"),
			Route: rdmasys.Route{From: netip.MustParseAddr("192.0.2.7"), NetDev: "eth0", MTU: 9000},
			Best:  []kinds.Choice{{Name: "roce:192.0.2.7", Reason: "software"}},
			Path:  rdmasys.PathTest{Sent: 9000, Passed: 9000, RoCE: rdmasys.NoAnswer}},
	}
}

// Each thing that can be wrong is found, with its level and a command, and nothing else is.
func TestFindings(t *testing.T) {
	device := func(f *Facts) *rdmasys.Device { return &f.System.Devices[0] }
	port := func(f *Facts) *rdmasys.Port { return &f.System.Devices[0].Ports[0] }
	netdev := func(f *Facts) *rdmasys.Interface { return &f.System.Interfaces[0] }
	for _, c := range []struct {
		what  string
		ail   func(f *Facts)
		level Level
		want  string // of the finding: subject, what, and commands
	}{
		{"nothing", func(*Facts) {}, "", ""},
		{"a module of the NIC", func(f *Facts) { f.System.Devices = nil; f.System.Modules.Loaded = nil }, Problem,
			"modprobe mlx5_ib"},
		{"a NIC that may have RDMA", func(f *Facts) {
			f.System.Devices = nil
			f.System.Modules.Loaded = nil
			netdev(f).Driver = "ice"
		}, Note, "modprobe irdma"},
		{"ib_uverbs", func(f *Facts) { delete(f.System.Modules.Loaded, "ib_uverbs") }, Problem, "modprobe ib_uverbs"},
		{"ib_uverbs, and so no files", func(f *Facts) {
			delete(f.System.Modules.Loaded, "ib_uverbs")
			device(f).Verbs = ""
		}, Problem, "modprobe ib_uverbs"},
		{"rdma_ucm, whose file stays", func(f *Facts) {
			delete(f.System.Modules.Loaded, "rdma_ucm")
			f.System.Files[1].Problem = syscall.ENODEV
		}, Problem, "modprobe rdma_ucm"},
		{"rdma_ucm", func(f *Facts) { delete(f.System.Modules.Loaded, "rdma_ucm") }, Problem, "modprobe rdma_ucm"},
		{"no files", func(f *Facts) { f.System.Files = nil }, Problem,
			"/dev/infiniband/uverbs0, /dev/infiniband/rdma_cm: do not exist"},
		{"no files in a container", func(f *Facts) { f.System.Files = nil; f.System.Container = "/.dockerenv" },
			Problem, "docker run --device=/dev/infiniband"},
		{"no injected libraries", func(f *Facts) { f.System.Injected.Libraries = nil }, Problem,
			"/opt/ramjet/lib: there are no libraries in it"},
		{"libraries for a newer glibc", func(f *Facts) {
			f.System.Injected.Libraries[0].Problem = "it needs GLIBC_2.34, and the system has GLIBC_2.31"
		}, Problem, "libibverbs.so.1: it cannot be loaded: it needs GLIBC_2.34"},
		{"musl", func(f *Facts) {
			i := f.System.Injected
			i.Libc, i.Version, i.Libraries[0].Problem = "/lib/ld-musl-x86_64.so.1", "", "it needs glibc"
		}, Problem, "this system has musl"},
		{"a preloaded library that is not there",
			func(f *Facts) { f.System.Injected.Libraries[1].Problem = "file does not exist" }, Problem,
			"unset LD_PRELOAD"},
		{"another LD_LIBRARY_PATH", func(f *Facts) {
			f.System.Injected.Path, f.System.Injected.InPath = "/usr/local/lib", false
		}, Problem, "export LD_LIBRARY_PATH=/opt/ramjet/lib"},
		{"no description for /sys", func(f *Facts) { f.System.Injected.Described = nil }, Problem,
			"/run/ramjet-sysfs: it describes no device"},
		{"a fabric that answers", func(f *Facts) {
			f.CDevices = []CDevice{{Name: "ib0", Joins: &JoinedFabric{At: "fabric:7470", Managed: true}}}
		}, "", ""},
		{"a fabric that does not answer", func(f *Facts) {
			f.CDevices = []CDevice{{Name: "ib0",
				Joins: &JoinedFabric{At: "fabric:7470", Problem: "nobody answers within 8s"}}}
		}, Problem, "ib0: it does not join the fabric at fabric:7470: nobody answers within 8s"},
		{"a fabric without a manager", func(f *Facts) {
			f.CDevices = []CDevice{{Name: "ib0", Joins: &JoinedFabric{At: "fabric:7470"}}}
		}, Problem, "ib0: the fabric at fabric:7470 has no subnet manager"},
		{"little memory", func(f *Facts) { f.System.Container = "/.dockerenv"; f.System.Group.Memory = 32 << 20 }, Note,
			"memory: the control groups leave 32 MiB"},
		{"few processes", func(f *Facts) { f.System.Container = "/.dockerenv"; f.System.Group.Processes = 20 }, Note,
			"podPidsLimit"},
		{"half a processor", func(f *Facts) { f.System.Container = "/.dockerenv"; f.System.Group.Processors = 0.5 },
			Note, "0.5 of a processor"},
		{"a small /dev/shm", func(f *Facts) { f.System.Container = "/.dockerenv"; f.System.SharedMem = 64 << 20 }, Note,
			"/dev/shm: it has 64 MiB"},
		{"a service", func(f *Facts) { f.Peer.Service = &Service{"ml/db", "by DNS"} }, Problem,
			"it is the address of the service ml/db (by DNS)"},
		{"no reply", func(f *Facts) { f.Peer.Reply = &Reply{Device: "roce:192.0.2.7", Text: "no answer"} }, Note,
			"ramjet ping -s -P"},
		{"a reply", func(f *Facts) { f.Peer.Reply = &Reply{Device: "roce:192.0.2.7", Answered: true} }, "", ""},
		{"a file's mode", func(f *Facts) { f.System.Files[0].Problem = syscall.EACCES }, Problem,
			"chmod 666 /dev/infiniband/uverbs0"},
		{"all files' modes", func(f *Facts) {
			f.System.Files[0].Problem, f.System.Files[1].Problem = syscall.EACCES, syscall.EACCES
		}, Problem, "chmod 666 /dev/infiniband/uverbs0 /dev/infiniband/rdma_cm"},
		{"a device cgroup", func(f *Facts) { f.System.Files[0].Problem = syscall.EPERM }, Problem,
			"DeviceAllow='/dev/infiniband/uverbs0 rw'"},
		{"a device that is gone", func(f *Facts) { f.System.Files[0].Problem = syscall.ENXIO }, Problem, "dmesg"},
		{"little memory", func(f *Facts) { f.System.Memlock = rdmasys.Memlock{Known: true, Bytes: 65536} }, Problem,
			"memlock: this process may pin 64 KiB"},
		{"some memory", func(f *Facts) { f.System.Memlock = rdmasys.Memlock{Known: true, Bytes: 1 << 30} }, Note,
			"prlimit --memlock=unlimited"},
		{"rdma.max", func(f *Facts) {
			f.System.Limits = []rdmasys.RDMALimit{{File: "/sys/fs/cgroup/a/rdma.max", Device: "mlx5_0", Handles: 0,
				Objects: -1}}
		}, Problem, "echo 'mlx5_0 hca_handle=max hca_object=max' >/sys/fs/cgroup/a/rdma.max"},
		{"a link", func(f *Facts) { port(f).State, port(f).Physical = "DOWN", "Disabled" }, Problem,
			"ip link set dev eth0 up"},
		{"a second link", func(f *Facts) {
			f.System.Devices = append(f.System.Devices,
				rdmasys.Device{Name: "mlx5_1", NodeType: "CA", Verbs: "uverbs0",
					Ports: []rdmasys.Port{{Number: 1, LinkLayer: "Ethernet", State: "DOWN", Physical: "Disabled"}}})
		}, Note, "mlx5_1 port 1: it is DOWN"},
		{"no subnet manager", func(f *Facts) { port(f).LinkLayer, port(f).State = "InfiniBand", "INIT" }, Problem,
			"systemctl start opensm"},
		{"one lane", func(f *Facts) { port(f).LinkLayer, port(f).Rate = "InfiniBand", "25 Gb/sec (1X EDR)" }, Note,
			"one lane of four"},
		{"another namespace", func(f *Facts) { netdev(f).Name = "eth9" }, Problem,
			"its interface eth0 is not in this network namespace"},
		{"no GID", func(f *Facts) { port(f).GIDs[0].Addr = netip.MustParseAddr("192.0.2.8") }, Problem,
			"eth0 has the address 192.0.2.7, and the GID table does not"},
		{"RoCE v1", func(f *Facts) { port(f).GIDs[0].Type = "IB/RoCE v1" }, Problem,
			"its GID of 192.0.2.7 is of type RoCE v1 only"},
		{"no address", func(f *Facts) { netdev(f).Addrs = nil }, Note, "ip addr add"},
		{"default_roce_mode", func(f *Facts) { port(f).CMType = "IB/RoCE v1" }, Problem,
			"cma_roce_mode -d mlx5_0 -p 1 -m 2"},
		{"MTU 1500", func(f *Facts) { netdev(f).MTU = 1500 }, Note, "the MTU of eth0 is 1500, so the path MTU is 1024"},
		{"no PFC", func(f *Facts) { netdev(f).PFC = &rdmasys.PFC{Classes: 8} }, Note, "dcb pfc set dev eth0"},
		{"no ECN", func(f *Facts) { netdev(f).ECN = []rdmasys.ECN{{Role: "roce_np"}} }, Note,
			"echo 1 >/sys/class/net/eth0/ecn/roce_np/enable/3"},
		{"PFC and ECN apart", func(f *Facts) {
			netdev(f).PFC, netdev(f).ECN = &rdmasys.PFC{Enabled: 1 << 4},
				[]rdmasys.ECN{{Role: "roce_rp", Enabled: 1 << 3}}
		}, Note, "PFC is on for priorities [4], and roce_rp for [3]"},
		{"a firewall", func(f *Facts) {
			f.System.Filters = []rdmasys.Filter{{Family: "inet", Table: "filter", Chain: "input", Drops: true}}
		}, Note, "nft add rule inet filter input udp dport 4791 accept"},
		{"rmem_max", func(f *Facts) { f.System.Parameters.RecvBufferMax = 212992 }, Note,
			"sysctl -w net.core.rmem_max=8388608"},
		{"ptrace_scope", func(f *Facts) { f.System.Parameters.PtraceScope = 1 }, Note,
			"sysctl -w kernel.yama.ptrace_scope=0"},
		{"no GSO", func(f *Facts) { f.System.Offloads.GSO = false }, Note, "GSO: false"},
		{"no user namespaces", func(f *Facts) { f.System.Parameters.UserNamespaces = 0 }, Note, "user namespaces"},
		{"a kind that does not open", func(f *Facts) { f.Soft[0].Works, f.Soft[0].Problem = false, "no memory" },
			Problem, "roce: roce:127.64.0.1 cannot be opened: no memory"},
		{"a port that is taken", func(f *Facts) {
			f.Soft[0].Works, f.Soft[0].Problem, f.Soft[0].Taken = false, "in use", true
		}, Problem, "ss -ulpn 'sport = :4791'"},
		{"rxe has the port", func(f *Facts) {
			f.Soft[0].Works, f.Soft[0].Problem, f.Soft[0].Taken = false, "in use", true
			f.System.Ports = []rdmasys.UDPPort{{Addr: netip.IPv4Unspecified()}}
			device(f).Hardware, device(f).Name = false, "rxe0"
			f.System.Modules.Loaded["rdma_rxe"] = true
		}, Note, "rdma link delete rxe0\nmodprobe -r rdma_rxe"},
		{"the environment", func(f *Facts) { f.Named = &Named{"RAMJET_DEVICE", "roce:203.0.113.7", "no such address"} },
			Problem, "unset RAMJET_DEVICE"},
		{"a name too long for UCX", func(f *Facts) {
			f.Listed = &Listed{Variable: "RAMJET_DEVICES",
				Names: map[string]string{"roce_192.168.1.10": "roce:192.168.1.10",
					"fifteen-letters": "roce:192.168.1.11"}}
		}, Problem, "RAMJET_DEVICES: the name roce_192.168.1.10 of roce:192.168.1.10 has 17 characters"},
		{"a list with a mistake", func(f *Facts) {
			f.Listed = &Listed{Variable: "RAMJET_DEVICES", Problem: "no device kind"}
		}, Problem, "unset RAMJET_DEVICES"},
		{"no route", func(f *Facts) { f.Peer = &Peer{Addr: f.Peer.Addr, Problem: "there is no route"} }, Problem,
			"ip route get 192.0.2.9"},
		{"no device to the peer", func(f *Facts) { f.Peer.Best = nil }, Problem, "no device of this host reaches it"},
		{"a shorter MTU on the way", func(f *Facts) { f.Peer.Path.Passed, f.Peer.Path.Lost = 1120, 2144 }, Problem,
			"packets of 2144 bytes do not get there, although eth0 has an MTU of 9000; 1120 bytes do"},
		{"a closed port", func(f *Facts) { f.Peer.Path.RoCE = rdmasys.Arrived }, Note, "UDP port 4791 is closed"},
		{"a filter at the peer", func(f *Facts) { f.Peer.Path.RoCE = rdmasys.Refused }, Problem,
			"refuses packets to UDP port 4791"},
	} {
		f := healthy()
		c.ail(f)
		found := Diagnose(f)
		if c.want == "" {
			if len(found) > 0 {
				t.Errorf("%s: %+v", c.what, found)
			}
			continue
		}
		if len(found) != 1 {
			t.Errorf("%s: %d findings: %+v", c.what, len(found), found)
			continue
		}
		g := found[0]
		if text := g.Subject + ": " + g.What + "\n" + strings.Join(g.Mend, "\n"); g.Level != c.level ||
			!strings.Contains(text, c.want) {
			t.Errorf("%s: %s: %s; want %s: %s", c.what, g.Level, text, c.level, c.want)
		}
		if g.Why == "" || len(g.Mend) == 0 || strings.Count(g.Why, ".") == 0 {
			t.Errorf("%s: nobody is told why, or what to do: %+v", c.what, g)
		}
		if Problems(found) > 0 != (c.level == Problem) {
			t.Errorf("%s: %d problems", c.what, Problems(found))
		}
		if _, err := json.Marshal(struct {
			*Facts
			F []Finding
		}{f, found}); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// A finding fits a log if it can be the cause of the log's error.
func TestFits(t *testing.T) {
	for _, c := range []struct {
		log  string
		ail  func(f *Facts)
		fits int
	}{
		{"ibv_reg_mr: Cannot allocate memory",
			func(f *Facts) { f.System.Memlock = rdmasys.Memlock{Known: true, Bytes: 65536} }, 1},
		{"ibv_post_send: Cannot allocate memory",
			func(f *Facts) { f.System.Memlock = rdmasys.Memlock{Known: true, Bytes: 65536} }, 0},
		{"Failed to modify QP to RTR", func(f *Facts) { f.System.Devices[0].Ports[0].GIDs[0].Type = "IB/RoCE v1" }, 1},
		{"Failed to get IB devices list: Function not implemented",
			func(f *Facts) { delete(f.System.Modules.Loaded, "ib_uverbs") }, 1},
		{"transport retry counter exceeded (12)",
			func(f *Facts) { f.System.Interfaces[0].PFC = &rdmasys.PFC{Classes: 8} }, 1},
		{"transport retry counter exceeded (12)", func(f *Facts) {}, 0},
	} {
		f := healthy()
		c.ail(f)
		var err error
		if f.Log, err = explain.Log(strings.NewReader(c.log)); err != nil || f.Log == nil {
			t.Fatal(c.log, err)
		}
		found := Diagnose(f)
		if n := fitCount(found); n != c.fits {
			t.Errorf("%s: %d of %+v", c.log, n, found)
		}
		var b strings.Builder
		if err := Write(&b, f, found, Style{}); err != nil ||
			!strings.Contains(strings.Join(strings.Fields(b.String()), " "), "the log says") {
			t.Errorf("%v: %s", err, b.String())
		}
	}
}

// A report fits a narrow terminal, and has colors where they are wanted.
func TestStyle(t *testing.T) {
	f := healthy()
	f.System.Memlock = rdmasys.Memlock{Known: true, Bytes: 65536}
	f.System.Interfaces[0].MTU = 1500
	var b strings.Builder
	if err := Write(&b, f, Diagnose(f), Style{Width: 50, Color: true}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\x1b[31mproblem: ") || !strings.Contains(b.String(), "\x1b[33mnote: ") ||
		strings.Count(b.String(), "\x1b[0m") != 2 {
		t.Errorf("%q", b.String())
	}
	for line := range strings.Lines(b.String()) {
		line = strings.NewReplacer("\x1b[31m", "", "\x1b[33m", "", "\x1b[0m", "").Replace(strings.TrimRight(line, "\n"))
		if n := utf8.RuneCountInString(line); n > 50 && !strings.HasPrefix(line, "      ") &&
			!strings.HasPrefix(line, "                   ") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// On a narrow terminal a comment stands above its command, which is not broken.
func TestCommandsOfNarrowReports(t *testing.T) {
	f := healthy()
	f.System.Devices = nil
	for width, want := range map[int]string{
		80: "\n  ramjet run -- ib_write_bw    # a C program, unmodified, on Ramjet\n",
		40: "\n  # a C program, unmodified, on Ramjet\n  ramjet run -- ib_write_bw\n",
	} {
		var b strings.Builder
		if err := Write(&b, f, nil, Style{Width: width}); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%d columns: %v: no %q in\n%s", width, err, want, b.String())
		}
		for line := range strings.Lines(b.String()) {
			if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > width {
				t.Errorf("%d columns: %s", width, line)
			}
		}
	}
}
