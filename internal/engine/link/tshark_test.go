// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/testkit/tshark"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// erf appends a frame as a record of the ERF format, which has types for packets and for flow-control
// packets.
func erf(b []byte, now clock.Time, frame []byte) []byte {
	typ := byte(21)
	if len(frame) == ib.FlowControlLen {
		typ = 25
		frame = append(append([]byte(nil), frame...), 0, 0) // the dissector wants eight bytes
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(now)<<10|1<<60) // seconds in the upper half: only the order matters
	b = append(b, typ, 4)
	b = binary.BigEndian.AppendUint16(b, uint16(len(frame)+16))
	b = append(b, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(frame)))
	return append(b, frame...)
}

// TestTshark: tshark reads recorded packets as we do.
func TestTshark(t *testing.T) {
	tshark.Need(t)
	var records []byte
	var packets, credits []string
	f, a, b, s1, s2 := managed(t)
	f.net.Record(func(now clock.Time, from *Port, frame []byte) {
		records = erf(records, now, frame)
		if len(frame) == ib.FlowControlLen {
			var c ib.FlowControl
			c.Decode(frame)
			credits = append(credits, fmt.Sprintf("%d\t%d\t%d\t%d\t0x%04x", c.Op, c.FCTBS, c.VL, c.FCCL,
				binary.BigEndian.Uint16(frame[4:])))
			return
		}
		var h ib.LRH
		var bth ib.BTH
		h.Decode(frame)
		bth.Decode(frame[ib.LRHLen:])
		end := len(frame) - ib.VCRCLen
		packets = append(packets, fmt.Sprintf("0x%02x\t%d\t%d\t%d\t%d\t0x%06x\t0x%08x\t0x%04x", h.VL, h.SL, h.DLID,
			h.SLID, h.PktLen, uint32(bth.DestQP), binary.BigEndian.Uint32(frame[end-4:]),
			binary.BigEndian.Uint16(frame[end:])))
	})
	f.routes(s1, s2)
	for _, lid := range []uint16{2, 0x101} {
		smp := [MADLen]byte{1, classLID, 1, 1}
		f.ask(a, Datagram{SLID: 1, DLID: lid, PKey: ib.DefaultPKey}, smp[:])
	}
	activate(append(ports(s1, s2), a, b)...)
	f.run(f.now + 1000)
	for i := range 5 {
		f.send(a, f.packet(a, 2, uint8(i), 64+256*i, uint64(i)))
	}
	if len(packets) != 3+3+2+15 {
		t.Errorf("%d packets recorded", len(packets))
	}
	name := filepath.Join(t.TempDir(), "links.erf")
	if err := os.WriteFile(name, records, 0o644); err != nil {
		t.Fatal(err)
	}
	read := func(filter string, fields ...string) []string {
		args := []string{"-Y", filter, "-T", "fields"}
		for _, f := range fields {
			args = append(args, "-e", f)
		}
		return strings.Split(strings.TrimSpace(tshark.Read(t, name, args...)), "\n")
	}
	lrh := "infiniband.lrh."
	got := read("infiniband", lrh+"vl", lrh+"sl", lrh+"dlid", lrh+"slid", lrh+"pktlen", "infiniband.bth.destqp",
		"infiniband.invariant.crc", "infiniband.variant.crc")
	compare(t, got, packets)
	link := "infiniband_link."
	got = read("infiniband_link", link+"op", link+"fctbs", link+"vl", link+"fccl", link+"lpcrc")
	compare(t, got, credits)
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("tshark reads %d rows, want %d; row %d is\n%s, want\n%s", len(got), len(want), i, at(got, i),
				at(want, i))
			return
		}
	}
}

func at(rows []string, i int) string {
	if i < len(rows) {
		return rows[i]
	}
	return "missing"
}
