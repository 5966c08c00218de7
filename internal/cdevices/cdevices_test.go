// SPDX-License-Identifier: Apache-2.0

package cdevices

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func TestList(t *testing.T) {
	if got := List("roce:192.0.2.7, iwarp:fd09::1", true); !slices.Equal(got, []string{"roce:192.0.2.7", "iwarp:fd09::1"}) {
		t.Errorf("%q", got)
	}
	if got := List("", true); len(got) != 0 {
		t.Errorf("no devices are %q", got)
	}
	if got := List("", false); !slices.Contains(got, "roce:127.0.0.1") {
		t.Logf("without a list: %q", got)
	}
	if got := Name("roce:fe80::1%eth0"); got != "roce_fe80__1_eth0" {
		t.Errorf("%q", got)
	}
}

func TestSysfs(t *testing.T) {
	dev, addr := loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	s := NewSysfs()
	name := Name("roce:" + addr.String())
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
}
