// SPDX-License-Identifier: Apache-2.0

package cdevices

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func TestList(t *testing.T) {
	long := strings.Repeat("x", MaxName)
	for _, c := range []struct {
		names string
		want  []Device
		wrong string
	}{
		{"roce:192.0.2.7, iwarp:fd09::1", []Device{{"roce0", "roce:192.0.2.7"}, {"iwarp0", "iwarp:fd09::1"}}, ""},
		{"roce:192.0.2.7 iwarp:fd09::1 roce:192.0.2.8",
			[]Device{{"roce0", "roce:192.0.2.7"}, {"iwarp0", "iwarp:fd09::1"}, {"roce1", "roce:192.0.2.8"}}, ""},
		{"rdma0=roce:192.0.2.7,roce:fe80::1%eth0",
			[]Device{{"rdma0", "roce:192.0.2.7"}, {"roce0", "roce:fe80::1%eth0"}}, ""},
		{"roce:::1 roce:::2 roce1=roce:::3", []Device{{"roce0", "roce:::1"}, {"roce2", "roce:::2"},
			{"roce1", "roce:::3"}}, ""},
		{"roce1:eth0 infiniband: iwarps:::1 iwarp+sctp:::1",
			[]Device{{"roce1_0", "roce1:eth0"}, {"infiniband0", "infiniband:"},
				{"iwarps0", "iwarps:::1"}, {"iwarp_sctp0", "iwarp+sctp:::1"}}, ""},
		{"shm:127.0.0.1?copies=off shm:?dir=/run/x",
			[]Device{{"shm0", "shm:127.0.0.1?copies=off"}, {"shm1", "shm:?dir=/run/x"}}, ""},
		{"roce_192.0.2.7 iwarp_fd09__1 roce1_eth0",
			[]Device{{"roce_192.0.2.7", "roce:192.0.2.7"}, {"iwarp_fd09__1", "iwarp:fd09::1"},
				{"roce1_eth0", "roce1:eth0"}}, ""},
		{"ib=infiniband:host-1?fabric=lab", []Device{{"ib", "infiniband:host-1?fabric=lab"}}, ""},
		{long + "=roce:::1", []Device{{long, "roce:::1"}}, ""},
		{"a=roce:::1 a=roce:::2", []Device{{"a", "roce:::1"}}, "a=roce:::2"},
		{"=roce:::1 ../a=roce:::2 x" + long + "=roce:::3 b=roce:::4", []Device{{"b", "roce:::4"}}, `""`},
		{"", nil, ""},
	} {
		got, err := List(c.names, true)
		if !slices.Equal(got, c.want) || (err != nil) != (c.wrong != "") ||
			err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q: %q, %v", c.names, got, err)
		}
	}
	got, err := List("", false)
	if err != nil || !slices.ContainsFunc(got, func(d Device) bool { return d.Address == "roce:127.0.0.1" }) {
		t.Logf("without a list: %q, %v", got, err)
	}
	for i := range got { // the first device is one that reaches other hosts, if there is any
		isLoopback := func(d Device) bool {
			return strings.HasPrefix(d.Address, "roce:127.") || d.Address == "roce:::1"
		}
		if i > 0 && isLoopback(got[i-1]) && !isLoopback(got[i]) || got[i].Name != fmt.Sprint("roce", i) {
			t.Errorf("without a list: %q", got)
		}
	}
}

// A kind without an address stands for its devices of all addresses, as RoCEv2 does without a list.
func TestListOfAllAddresses(t *testing.T) {
	roce, _ := List("", false)
	if len(roce) == 0 {
		t.Skip("there is no address")
	}
	var want []Device
	for i, d := range roce {
		want = append(want, Device{fmt.Sprint("iwarp", i), "iwarp:" + strings.TrimPrefix(d.Address, "roce:")})
	}
	if got, err := List("iwarp:", true); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	want = append(append([]Device{{"x", "shm:"}}, want...), Device{fmt.Sprint("iwarp", len(roce)), "iwarp:192.0.2.9"})
	if got, err := List("x=shm: iwarp: iwarp:192.0.2.9", true); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	name := addressName(want[1].Address)
	if list, listed := Named("iwarp:", true, []string{"-d " + name}); !listed ||
		!strings.Contains(list, name+"="+want[1].Address) {
		t.Errorf("the list in which a program finds %s: %q", name, list)
	}
}

// UCX keeps 15 characters of a name, and MPI with it.
func TestNamesAreShort(t *testing.T) {
	var all []Device
	for _, k := range kinds.Table {
		all = append(all, many(k.Name+":2001:db8:1234:5678:9abc:def0:1234:", 1000)...)
	}
	new(Names).number(all, nil)
	seen := map[string]bool{}
	for _, d := range all {
		if len(d.Name) > MaxPortableName || check(d.Name) != nil || seen[d.Name] {
			t.Errorf("%s: its name is %q", d.Address, d.Name)
		}
		seen[d.Name] = true
	}
}

func many(address string, n int) (all []Device) {
	for i := range n {
		all = append(all, Device{Address: fmt.Sprint(address, i)})
	}
	return all
}

// An address of a device keeps its name while others come and go.
func TestDefaultNamesStay(t *testing.T) {
	var n Names
	for _, c := range []struct{ before, after []Device }{
		{[]Device{{"", "roce:a"}, {"", "roce:b"}}, []Device{{"roce0", "roce:a"}, {"roce1", "roce:b"}}},
		{[]Device{{"", "roce:b"}}, []Device{{"roce1", "roce:b"}}},
		{[]Device{{"", "roce:c"}, {"", "roce:b"}, {"", "roce:a"}},
			[]Device{{"roce2", "roce:c"}, {"roce1", "roce:b"}, {"roce0", "roce:a"}}},
	} {
		if n.number(c.before, nil); !slices.Equal(c.before, c.after) {
			t.Errorf("%q, want %q", c.before, c.after)
		}
	}
}

// A program that sets another list does not find another device under a name that it knows.
func TestNamesOfLists(t *testing.T) {
	var n Names
	for _, c := range []struct {
		list string
		want []Device
	}{
		{"roce:a", []Device{{"roce0", "roce:a"}}},
		{"roce:b roce:a", []Device{{"roce1", "roce:b"}, {"roce0", "roce:a"}}},
		{"roce0=roce:c roce:a", []Device{{"roce0", "roce:c"}, {"roce2", "roce:a"}}},
	} {
		if got, err := n.List(c.list, true); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v; want %q", c.list, got, err, c.want)
		}
	}
}

// A program that names a device by its address, as all were named once, finds it.
func TestNamed(t *testing.T) {
	for _, c := range []struct{ names, words, want string }{
		{"roce:192.0.2.7 iwarp:fd09::1", "ib_write_bw -d roce_192.0.2.7",
			"roce_192.0.2.7=roce:192.0.2.7 iwarp:fd09::1"},
		{"roce:192.0.2.7,iwarp:fd09::1", "UCX_NET_DEVICES=mlx5_0:1,iwarp_fd09__1:1",
			"roce:192.0.2.7 iwarp_fd09__1=iwarp:fd09::1"},
		{"roce:192.0.2.7", "cat /sys/class/infiniband/roce_192.0.2.7/node_guid", "roce_192.0.2.7=roce:192.0.2.7"},
		{"roce:192.0.2.7", "ib_write_bw -d roce_192.0.2.77", "roce:192.0.2.7"},
		{"roce:192.0.2.7", "ib_write_bw -d roce0", "roce:192.0.2.7"},
		{"a=roce:192.0.2.7", "ib_write_bw -d roce_192.0.2.7", "a=roce:192.0.2.7"},
		{"", "ib_write_bw -d roce_192.0.2.7", ""},
	} {
		if got, set := Named(c.names, true, strings.Fields(c.words)); got != c.want || !set {
			t.Errorf("%q, %q: %q, %v; want %q", c.names, c.words, got, set, c.want)
		}
	}
	if got, set := Named("", false, []string{"ib_write_bw"}); got != "" || set {
		t.Errorf("without a list: %q, %v", got, set)
	}
	if all, _ := List("", false); len(all) > 0 {
		old := addressName(all[0].Address)
		if got, set := Named("", false, []string{"-d", old}); !set ||
			!strings.HasPrefix(got+" ", old+"="+all[0].Address+" ") {
			t.Errorf("without a list, but with %s: %q, %v", old, got, set)
		}
	}
}

func TestSysfs(t *testing.T) {
	dev, addr := loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	s := NewSysfs()
	const name = "roce0"
	if err := s.Add(3, Device{name, "roce:" + addr.String()}, dev); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := s.Write(root); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"sys/class/infiniband/" + name + "/ports/1/gid_attrs/types/0": "RoCE v2\n",
		"sys/class/infiniband/" + name + "/ports/1/state":             "4: ACTIVE\n",
		"sys/class/infiniband/" + name + "/ports/1/pkeys/0":           "0xffff\n",
		"sys/class/infiniband_verbs/uverbs3/ibdev":                    name + "\n",
		"sys/class/infiniband/" + name + "/board_id":                  "roce:" + addr.String() + "\n",
		"sys/class/infiniband/" + name + "/node_desc":                 "Ramjet roce:" + addr.String() + "\n",
	} {
		if got, err := os.ReadFile(filepath.Join(root, path)); string(got) != want {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	if fi, err := os.Stat(filepath.Join(root, "dev/infiniband/uverbs3")); err != nil ||
		fi.Mode()&os.ModeCharDevice == 0 {
		t.Error("there is no device in /dev:", err)
	}
	if fi, err := os.Stat(filepath.Join(root, "sys/class/infiniband", name, "device/net/lo")); err != nil ||
		!fi.IsDir() {
		t.Error("its network interface is not there:", err)
	}
	at, err := filepath.EvalSymlinks(filepath.Join(root, "sys/class/infiniband", name, "device"))
	if filepath.Base(at) != "ffff:00:03.0" {
		t.Errorf("it is at %q, which is no PCI address: %v", at, err)
	}
}
