// SPDX-License-Identifier: Apache-2.0

package cdevices

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
)

// Programs find LIDs and the state of the link, as PortInfo has it.
func TestSysfsOfInfiniBand(t *testing.T) {
	f := softfabric.Start(t, "star:2")
	dev, err := f.Open("host-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	s := NewSysfs()
	if err := s.Add(0, Device{"host-1", "infiniband:host-1"}, dev); err != nil {
		t.Fatal(err)
	}
	const port = "sys/class/infiniband/host-1/ports/1/"
	for path, want := range map[string]string{
		"state":             "4: ACTIVE\n",
		"phys_state":        "5: LinkUp\n",
		"rate":              "100 Gb/sec (4X EDR)\n",
		"lid":               "0x2\n",
		"sm_lid":            "0x1\n",
		"lid_mask_count":    "0\n",
		"link_layer":        "InfiniBand\n",
		"gid_attrs/types/0": "IB/RoCE v1\n",
		"pkeys/0":           "0xffff\n",
	} {
		if got := s.Files[port+path]; got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
