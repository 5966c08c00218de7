// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
)

// The diagnostic tools see the partitions and the M_Key that the manager has set.
func TestManagerOptionsByTools(t *testing.T) {
	f := managed(t, "star:4", infiniband.ManagerOptions{Partitions: partitions, MKey: 0x1234, Protect: 2, Lease: 60,
		Routing: "up-down"})
	d := &diagnosis{newTools(t, f, "smpquery", "saquery"), t, f}
	for node, want := range map[string]string{"host-1": "0x7fff 0x8010 0x0000", "host-3": "0x7fff 0x8020 0x0000",
		"host-4": "0x7fff 0x0020 0x0000"} {
		lid := number(findNode(t, f, node).Ports[0].LID)
		if out := d.run("smpquery", "-y", "0x1234", "pkeys", lid); !strings.Contains(out, want) {
			t.Errorf("%s: want %s in\n%s", node, want, out)
		}
	}
	lid := number(findNode(t, f, "host-4").Ports[0].LID)
	out := d.run("smpquery", "-y", "0x1234", "portinfo", lid)
	d.has(out, "ProtectBits", "2")
	d.has(out, "MkeyLeasePeriod", "60")
	// Without the key nothing is to be read.
	if out, err := d.try("smpquery", "-t", "500", "portinfo", lid); err == nil {
		t.Errorf("smpquery without the M_Key has got\n%s", out)
	}
	for node, key := range map[string]string{"host-1": "0x8010", "host-3": "0x8020", "host-4": "0x0020"} {
		lid := number(findNode(t, f, node).Ports[0].LID)
		if out := d.run("saquery", "PKTR", lid); !strings.Contains(out, key) {
			t.Errorf("saquery: no %s at %s in\n%s", key, node, out)
		}
	}
}
