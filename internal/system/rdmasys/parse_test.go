// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"net/netip"
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	if got := parseModuleFiles("kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz: kernel/a.ko.xz\nupdates/ib-core.ko:\nnonsense\n"); !slices.Equal(got, []string{"rdma_rxe", "ib_core"}) {
		t.Errorf("module files: %q", got)
	}
	if got := parseDriver("MODALIAS=x\nDRIVER=mlx5_core\n"); got != "mlx5_core" {
		t.Errorf("driver %q", got)
	}
	udp := "  sl  local_address ...\n  1: 0702000A:12B7 00000000:0000 07 0:0 00:0 0 1000 0 77 2 0 0\n  2: 0100007F:0035 00000000:0000 07 0:0 00:0 0 0 0 78 2 0 0\n"
	if got := parseUDP(udp, 4791); len(got) != 1 || got[0] != (UDPPort{netip.MustParseAddr("10.0.2.7"), 1000, 77}) {
		t.Errorf("sockets: %+v", got)
	}
	for text, want := range map[string]string{
		"fe80:0000:0000:0000:5054:00ff:fe00:0001": "fe80::5054:ff:fe00:1",
		"0000:0000:0000:0000:0000:ffff:0a09:0002": "10.9.0.2",
		"0000:0000:0000:0000:0000:0000:0000:0000": "",
		"fe80::1%eth0": "",
		"10.9.0.2":     "",
		"":             "",
	} {
		if got, ok := parseGID(text); ok != (want != "") || ok && got.String() != want {
			t.Errorf("GID %q: %v, %v", text, got, ok)
		}
	}
	if got := ancestors("/a/../b/c"); !slices.Equal(got, []string{"/b/c", "/b", "/"}) {
		t.Errorf("groups: %q", got)
	}
}
