// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"io/fs"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
	"github.com/ramjet-rdma/ramjet/internal/testkit/machines"
)

// Devices come in order, each with its reason, and unusable devices with the reason why not.
func TestChoose(t *testing.T) {
	row := &Kind{Name: "nic", Hardware: true, Naming: ipNaming{}}
	software := []*Kind{
		{Name: "udp", Text: "over UDP", Port: rdmasys.RoCEPort, Listed: true, Naming: ipNaming{}},
		{Name: "tcp", Text: "over TCP", Listed: true, Naming: ipNaming{}},
		{Name: "unlisted", Naming: ipNaming{}},
		{Name: "raw", Link: true, Listed: true, Naming: linkNaming{}},
		{Name: "mem", Host: true, Listed: true, Naming: memoryNaming{}},
	}
	with := append([]*Kind{row}, software...)
	at := func(from, netdev string) rdmasys.Route {
		return rdmasys.Route{From: netip.MustParseAddr(from), NetDev: netdev}
	}
	own := at("192.0.2.7", "lo")
	own.Local = true
	for _, c := range []struct {
		what, machine string
		route         rdmasys.Route
		table         []*Kind
		best, not     string // names and words of the reasons
	}{
		{"no RDMA", "none", at("192.0.2.7", "eth0"), with,
			"udp:192.0.2.7|software; over UDP tcp:192.0.2.7|software", ""},
		{"no RDMA, this host", "none", own, with, "mem:|this host's udp:192.0.2.7|software tcp:192.0.2.7|software", ""},
		{"a NIC", "mlx5-roce", at("192.0.2.7", "ens1f0np0"), with,
			"nic:mlx5_0|hardware; RoCE: GID 3 udp:192.0.2.7|software tcp:192.0.2.7|software", ""},
		{"a NIC by IPv6", "mlx5-roce", at("2001:db8::7", "ens1f0np0"), with,
			"nic:mlx5_0|GID 5 is 2001:db8::7 udp:2001:db8::7|software tcp:2001:db8::7|software", ""},
		{"this host with a NIC", "mlx5-roce", own, with,
			"mem:|this host's nic:mlx5_0|GID 3 udp:192.0.2.7|software tcp:192.0.2.7|software", ""},
		{"InfiniBand", "mlx5-ib", at("192.0.2.7", "ib0"), with,
			"nic:mlx5_0|IPoIB udp:192.0.2.7|software tcp:192.0.2.7|software", ""},
		{"InfiniBand without a manager", "mlx5-ib", at("192.0.2.8", "ib1"), with,
			"udp:192.0.2.8|software tcp:192.0.2.8|software", "mlx5_1|is INIT"},
		{"rxe", "guest", at("10.9.0.2", "eth0"), with, "nic:rxe0|software of the kernel; tcp:10.9.0.2|software",
			"udp:10.9.0.2|modprobe -r rdma_rxe"},
		{"siw", "guest", at("10.9.1.2", "eth1"), with, "nic:siw0|iWARP on eth1 tcp:10.9.1.2|software",
			"udp:10.9.1.2|rdma_rxe has UDP port 4791"},
	} {
		src := machines.Source(t, c.machine)
		src.Open = nil // every file opens
		got := choose(c.route, src.ReadDevices(), c.table)
		expect(t, c.what, got.Best, c.best)
		expect(t, c.what+", not", got.Unusable, c.not)
	}
}

// A device is not on the list whose files this process cannot open.
func TestChooseBarred(t *testing.T) {
	table := []*Kind{{Name: "nic", Hardware: true, Naming: ipNaming{}}}
	route := rdmasys.Route{From: netip.MustParseAddr("192.0.2.7"), NetDev: "ens1f0np0"}
	for _, c := range []struct {
		file    string
		problem error // nil: there is no such file
		not     string
	}{
		{"uverbs0", &fs.PathError{Op: "open", Path: "/dev/infiniband/uverbs0", Err: syscall.EACCES},
			"but /dev/infiniband/uverbs0 cannot be opened: permission denied"},
		{"rdma_cm", &fs.PathError{Op: "open", Path: "/dev/infiniband/rdma_cm", Err: syscall.ENODEV},
			"but /dev/infiniband/rdma_cm cannot be opened: no such device"},
		{"rdma_cm", nil, "but /dev/infiniband/rdma_cm does not exist"},
	} {
		src := machines.Source(t, "mlx5-roce")
		src.Open = nil
		sys := src.ReadDevices()
		if f := sys.File(c.file); c.problem == nil {
			f.Name = "other"
		} else {
			f.Problem = c.problem
		}
		got := choose(route, sys, table)
		expect(t, c.file, got.Best, "")
		expect(t, c.file+", not", got.Unusable, "mlx5_0|"+c.not)
	}
}

// check compares choices with names, and with texts in their reasons.
func expect(t *testing.T, what string, got []Choice, want string) {
	t.Helper()
	rest := want
	for i, g := range got {
		name, ok := strings.CutPrefix(rest, g.Name+"|")
		if !ok {
			t.Errorf("%s: number %d is %+v, want %s", what, i, g, rest)
			return
		}
		reason := name
		if i+1 < len(got) {
			if at := strings.Index(name, " "+got[i+1].Name+"|"); at >= 0 {
				reason, name = name[:at], name[at+1:]
			}
		} else {
			name = ""
		}
		if !strings.Contains(g.Reason, reason) {
			t.Errorf("%s: %s: %q does not say %q", what, g.Name, g.Reason, reason)
		}
		rest = name
	}
	if rest != "" {
		t.Errorf("%s: %+v lacks %s", what, got, rest)
	}
}
