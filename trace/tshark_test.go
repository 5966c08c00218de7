// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/tshark"
	"github.com/ramjet-rdma/ramjet/trace"
)

// tshark dissects Linux's packets as RoCEv2, over IPv4 as they were and over IPv6
// with the same payload, and finds nothing wrong with it. It shows the ICRC and
// does not verify it; TestRxeFramesComeOutTheSame does.
func TestTshark(t *testing.T) {
	tshark.Need(t)
	name := filepath.Join(t.TempDir(), "rxe.pcapng")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := newWriter(t, file)

	const good, notPresent = "1", "3" // a checksum's status
	ip6 := netip.MustParseAddrPort("[fd09::1]:4791")
	// of testdata/rxe.pcap, in order
	opcodes := []string{"0", "2", "17", "100", "6", "12", "13", "19", "18", "20", "11"}
	var want []string
	for i, f := range rxeFrames(t) {
		h := f.header()
		h.Comment = "as it was"
		if err := w.WriteUDP(h, f.payload); err != nil {
			t.Fatal(err)
		}
		want = append(want, strings.Join([]string{good, notPresent, "0x00000001", "as it was", opcodes[i]}, "|"))
		h.Src, h.Dst, h.Direction, h.Comment = ip6, ip6, trace.Outbound, ""
		if err := w.WriteUDP(h, f.payload); err != nil {
			t.Fatal(err)
		}
		want = append(want, strings.Join([]string{"", good, "0x00000002", "", opcodes[i]}, "|"))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	fields := tshark.Read(t, name, "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
		"-T", "fields", "-E", "separator=|",
		"-e", "ip.checksum.status", "-e", "udp.checksum.status",
		"-e", "frame.packet_flags_direction", "-e", "frame.comment", "-e", "infiniband.bth.opcode")
	got := strings.Split(strings.TrimSuffix(fields, "\n"), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d packets, want %d:\n%s", len(got), len(want), fields)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("packet %d: %q, want %q", i+1, got[i], want[i])
		}
	}
	if bad := tshark.Read(t, name, "-Y",
		"_ws.malformed || _ws.expert.severity >= warning || !infiniband.invariant.crc"); bad != "" {
		t.Errorf("packets with something wrong:\n%s", bad)
	}
	if name := tshark.Read(t, name, "-c", "1", "-T", "fields", "-e",
		"frame.interface_name"); name != "roce:127.0.0.2\n" {
		t.Errorf("interface name %q", name)
	}
}
