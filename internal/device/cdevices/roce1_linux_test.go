// SPDX-License-Identifier: Apache-2.0

package cdevices

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce1"
)

// Programs find the type of RoCE v1's GIDs, and an empty row where there is none.
func TestSysfsOfRoCEv1(t *testing.T) {
	if !loopback.InNamespace(t, 65536) {
		return
	}
	if err := roce1.Permitted(); err != nil {
		t.Skip(err)
	}
	loopback.SetUp(t, "link add left type veth peer name right", "addr add 192.0.2.7/24 dev left")
	dev, err := roce1.Open("left", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	s := NewSysfs()
	if err := s.Add(0, Device{"rdma0", "roce1:left"}, dev); err != nil {
		t.Fatal(err)
	}
	const port = "sys/class/infiniband/rdma0/ports/1/"
	for path, want := range map[string]string{
		"gid_attrs/types/0": "IB/RoCE v1\n",
		"gid_attrs/types/1": "IB/RoCE v1\n",
		"gid_attrs/types/2": "",
		"gids/1":            "0000:0000:0000:0000:0000:ffff:c000:0207\n",
		"link_layer":        "Ethernet\n",
	} {
		if got := s.Files[port+path]; got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
