// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// All LIDs of a port lead to it, as any of the sender's; the tools see them.
func TestLMC(t *testing.T) {
	f := managed(t, "fat-tree:4,2", infiniband.ManagerOptions{LMC: 2})
	a, b := device(t, f, "host-1"), device(t, f, "host-16")
	pa, pb := waitPort(t, a, 1, verbs.PortActive), waitPort(t, b, 1, verbs.PortActive)
	if pa.LMC != 2 || pb.LMC != 2 {
		t.Fatalf("LMC %d and %d", pa.LMC, pb.LMC)
	}
	for bits := range uint16(4) {
		x, y := newRCEnd(t, a), newRCEnd(t, b)
		x.connectBy(verbs.AHAttr{DLID: pb.LID + bits, SrcPathBits: uint8(3 - bits), Port: 1}, y)
		y.connectBy(verbs.AHAttr{DLID: pa.LID + 3 - bits, SrcPathBits: uint8(bits), Port: 1}, x)
		if s := x.write(y); s != verbs.StatusSuccess {
			t.Errorf("to LID %d: %v", pb.LID+bits, s)
		}
	}
	d := &diagnosis{newTools(t, f, "smpquery", "saquery"), t, f}
	d.has(d.run("smpquery", "portinfo", number(pb.LID)), "LMC", "2")
	out := d.run("saquery", "-p", "--slid", number(pa.LID), "--dlid", number(pb.LID+1))
	if !strings.Contains(out, "dlid...................."+number(pb.LID+1)) {
		t.Errorf("saquery:\n%s", out)
	}
}
