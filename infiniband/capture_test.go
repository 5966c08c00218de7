// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/internal/testkit/tshark"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// capture opens an adapter whose packets are recorded. The function that it returns ends the recording and
// returns the file.
func capture(t *testing.T, f *infiniband.Fabric, adapter string) (*verbs.Device, func() []byte) {
	t.Helper()
	var file bytes.Buffer
	w, err := trace.NewWriter(&file, "infiniband:"+adapter)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := f.Open(adapter, &infiniband.Options{Trace: w})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev, func() []byte {
		t.Helper()
		if err := dev.Close(); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if n := w.Dropped(); n != 0 {
			t.Errorf("%d packets are not in the recording", n)
		}
		return file.Bytes()
	}
}

// frame is a recorded packet: LRH to VCRC.
type frame struct {
	outbound bool
	bytes    []byte
}

// frames returns the InfiniBand packets of a recording.
func frames(t *testing.T, file []byte) (all []frame) {
	t.Helper()
	const packetBlock, head, recordHead, infiniBand = 6, 28, 16, 21
	for len(file) > 0 {
		n := int(binary.LittleEndian.Uint32(file[4:]))
		b := file[:n]
		file = file[n:]
		if binary.LittleEndian.Uint32(b) != packetBlock {
			continue
		}
		size := int(binary.LittleEndian.Uint32(b[20:]))
		r := b[head : head+size]
		if r[8] != infiniBand || int(binary.BigEndian.Uint16(r[14:])) != size-recordHead {
			t.Fatalf("a record of %d bytes has the header %x", size, r[:recordHead])
		}
		options := b[head+(size+3)&^3:]
		all = append(all, frame{binary.LittleEndian.Uint32(options[4:]) == uint32(trace.Outbound), r[recordHead:]})
	}
	return all
}

// icrc computes the ICRC of a packet by the text of section 7.8.1: fields that may change on the way count as ones.
func icrc(packet []byte) uint32 {
	b := bytes.Clone(packet)
	b[0] |= 0xf0 // the virtual lane
	at := ib.LRHLen
	if b[1]&3 == byte(ib.LNHGlobal) {
		b[at] |= 0x0f // traffic class and flow label
		b[at+1], b[at+2], b[at+3] = 0xff, 0xff, 0xff
		b[at+7] = 0xff // hop limit
		at += ib.GRHLen
	}
	b[at+4] = 0xff // reserved
	return crc32.ChecksumIEEE(b)
}

// vcrc computes the VCRC of a packet bit by bit (section 7.8.2).
func vcrc(packet []byte) uint16 {
	c := uint16(0xffff)
	for _, v := range packet {
		for i := range 8 {
			bit := c&1 ^ uint16(v>>i&1)
			c >>= 1
			if bit != 0 {
				c ^= 0xd008
			}
		}
	}
	return ^c
}

// TestCapture: both ends record every packet as it would be on a cable, and tshark reads it.
func TestCapture(t *testing.T) {
	f := softfabric.Start(t, "star:2")
	d1, end1 := capture(t, f, "host-1")
	d2, end2 := capture(t, f, "host-2")
	a, b := newSide(t, d1, 10_000), newSide(t, d2, 10_000)
	connect(t, a, b)
	const writes = 20
	for range writes {
		a.write(t, b)
	}
	a.wait(t, writes)
	join(t, f, d1, group()) // a question to the administrator, and its answer
	// On a busy machine some packets were sent twice, and the second ones may be on their way still.
	eventually(t, "what was sent has come", func() bool {
		from, err := a.qp.Stats()
		to, err2 := b.qp.Stats()
		if err = errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return from.SentPackets == to.RecvPackets
	})
	one, two := end1(), end2()

	// The second adapter received the packets of the first, byte by byte and in their order.
	sent, received := frames(t, one), frames(t, two)
	var from, to [][]byte
	for _, p := range sent {
		if p.outbound && binary.BigEndian.Uint16(p.bytes[2:]) == lidOf(t, d2) {
			from = append(from, p.bytes)
		}
	}
	for _, p := range received {
		if !p.outbound {
			to = append(to, p.bytes)
		}
	}
	if len(from) < 3*writes || len(from) != len(to) {
		t.Fatalf("%d packets sent, %d received, want the same, and %d or more", len(from), len(to), 3*writes)
	}
	for i := range from {
		if !bytes.Equal(from[i], to[i]) {
			t.Fatalf("packet %d was sent as %x and has come as %x", i, from[i], to[i])
		}
	}
	datagrams := 0
	var want []string
	for i, p := range sent {
		n := len(p.bytes) - ib.VCRCLen
		if got := binary.LittleEndian.Uint16(p.bytes[n:]); got != vcrc(p.bytes[:n]) {
			t.Errorf("packet %d has the VCRC %#x, want %#x", i, got, vcrc(p.bytes[:n]))
		}
		n -= ib.ICRCLen
		if got := binary.LittleEndian.Uint32(p.bytes[n:]); got != icrc(p.bytes[:n]) {
			t.Errorf("packet %d has the ICRC %#x, want %#x", i, got, icrc(p.bytes[:n]))
		}
		var h ib.LRH
		var bth ib.BTH
		h.Decode(p.bytes)
		bth.Decode(p.bytes[ib.LRHLen:])
		shown := fmt.Sprintf("0x%08x\t0x%04x", binary.BigEndian.Uint32(p.bytes[n:]),
			binary.BigEndian.Uint16(p.bytes[n+4:]))
		if bth.DestQP == ib.QP1 {
			datagrams++
			shown = "\t" // tshark shows no CRCs behind messages of the administrator
		}
		direction := "0x00000001"
		if p.outbound {
			direction = "0x00000002"
		}
		want = append(want, fmt.Sprintf("%s\t0x%02x\t%d\t%d\t%d\t%d\t0x%06x\t%d\t%s", direction, h.VL, h.DLID, h.SLID,
			h.PktLen, bth.Opcode, uint32(bth.DestQP), bth.PSN, shown))
	}
	if datagrams != 2 {
		t.Errorf("%d datagrams to queue pair 1, want a question and its answer", datagrams)
	}
	dissect(t, one, want)
}

// dissect compares the fields that tshark reads from a file with the rows wanted.
func dissect(t *testing.T, file []byte, want []string) {
	t.Helper()
	tshark.Need(t)
	name := filepath.Join(t.TempDir(), "infiniband.pcapng")
	if err := os.WriteFile(name, file, 0o644); err != nil {
		t.Fatal(err)
	}
	read := func(args ...string) string {
		return strings.TrimSuffix(tshark.Read(t, name, args...), "\n")
	}
	args := []string{"-T", "fields", "-e", "frame.packet_flags_direction"}
	for _, f := range []string{"lrh.vl", "lrh.dlid", "lrh.slid", "lrh.pktlen", "bth.opcode", "bth.destqp", "bth.psn",
		"invariant.crc", "variant.crc"} {
		args = append(args, "-e", "infiniband."+f)
	}
	got := strings.Split(read(args...), "\n")
	if len(got) != len(want) {
		t.Fatalf("tshark reads %d packets, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("tshark reads packet %d as\n%s, want\n%s", i, got[i], want[i])
		}
	}
	if bad := read("-Y", "_ws.malformed"); bad != "" {
		t.Errorf("malformed packets:\n%s", bad)
	}
	if name := read("-c", "1", "-T", "fields", "-e", "frame.interface_name"); name != "infiniband:host-1" {
		t.Errorf("interface name %q", name)
	}
}
