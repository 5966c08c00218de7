// SPDX-License-Identifier: Apache-2.0

package cdevices

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
		{"roce:192.0.2.7, iwarp:fd09::1", []Device{{"roce_192.0.2.7", "roce:192.0.2.7"}, {"iwarp_fd09__1", "iwarp:fd09::1"}}, ""},
		{"rdma0=roce:192.0.2.7,roce:fe80::1%eth0", []Device{{"rdma0", "roce:192.0.2.7"}, {"roce_fe80__1_eth0", "roce:fe80::1%eth0"}}, ""},
		{"shm:127.0.0.1?copies=off", []Device{{"shm_127.0.0.1_copies_off", "shm:127.0.0.1?copies=off"}}, ""},
		{"shm:127.0.0.1?dir=/run/x", []Device{{"shm_127.0.0.1_dir__run_x", "shm:127.0.0.1?dir=/run/x"}}, ""},
		{"ib=infiniband:host-1?fabric=lab", []Device{{"ib", "infiniband:host-1?fabric=lab"}}, ""},
		{long + "=roce:::1", []Device{{long, "roce:::1"}}, ""},
		{"a=roce:::1 a=roce:::2", []Device{{"a", "roce:::1"}}, "a=roce:::2"},
		{"=roce:::1 ../a=roce:::2 x" + long + "=roce:::3 b=roce:::4", []Device{{"b", "roce:::4"}}, `""`},
		{"", nil, ""},
	} {
		got, err := List(c.names, true)
		if !slices.Equal(got, c.want) || (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q: %q, %v", c.names, got, err)
		}
	}
	if got, err := List("", false); err != nil || !slices.Contains(got, Device{"roce_127.0.0.1", "roce:127.0.0.1"}) {
		t.Logf("without a list: %q, %v", got, err)
	}
}

func TestSysfs(t *testing.T) {
	dev, addr := loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	s := NewSysfs()
	name := nameOf("roce:" + addr.String())
	if err := s.Add(3, name, dev); err != nil {
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
	} {
		if got, err := os.ReadFile(filepath.Join(root, path)); string(got) != want {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	if fi, err := os.Stat(filepath.Join(root, "dev/infiniband/uverbs3")); err != nil || fi.Mode()&os.ModeCharDevice == 0 {
		t.Error("there is no device in /dev:", err)
	}
	if fi, err := os.Stat(filepath.Join(root, "sys/class/infiniband", name, "device/net/lo")); err != nil || !fi.IsDir() {
		t.Error("its network interface is not there:", err)
	}
	at, err := filepath.EvalSymlinks(filepath.Join(root, "sys/class/infiniband", name, "device"))
	if filepath.Base(at) != "ffff:00:03.0" {
		t.Errorf("it is at %q, which is no PCI address: %v", at, err)
	}
}
