// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/captured"
	"github.com/ramjet-rdma/ramjet/wire/iwarp"
)

// read returns the packets of a file, without memory that is only valid during the call.
func read(t *testing.T, name string) ([]Packet, Counts) {
	t.Helper()
	var all []Packet
	counts, err := Read(name, func(p *Packet) {
		q := *p
		if p.Stream != nil {
			it := *p.Stream
			it.Body = append([]byte(nil), it.Body...)
			q.Stream = &it
		}
		q.IB.Payload = append([]byte(nil), p.IB.Payload...)
		all = append(all, q)
	})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return all, counts
}

// TestRxe: the captures of Linux rxe have the packets that another reader finds there, and every ICRC is right.
func TestRxe(t *testing.T) {
	for _, name := range []string{"roce-mtu1024.pcap", "roce-mtu4096.pcap"} {
		name = "../../../wire/ib/testdata/" + name
		want := captured.RoCE(t, name)
		got, _ := read(t, name)
		if len(got) != len(want) || len(want) < 200 {
			t.Fatalf("%s: %d packets, want %d", name, len(got), len(want))
		}
		for i, p := range got {
			w := &want[i]
			if p.Frame != w.Num || p.From.Addr != w.Src.Addr() || p.To.Addr != w.Dst.Addr() ||
				p.FromPort != w.Src.Port() || p.Fabric != RoCEv2 {
				t.Errorf("%s: packet %d is %d %v:%d > %v, want %d %v > %v", name, i, p.Frame, p.From, p.FromPort, p.To,
					w.Num, w.Src, w.Dst)
			}
			if p.Broken != "" || p.BadCRC || p.Missing != 0 {
				t.Errorf("%s: frame %d: %q, ICRC wrong: %v, %d bytes missing", name, p.Frame, p.Broken, p.BadCRC,
					p.Missing)
			}
			if b := p.IB.Append(nil); string(b) != string(w.Transport[:len(w.Transport)-4]) {
				t.Errorf("%s: frame %d is encoded to other bytes", name, p.Frame)
			}
		}
	}
}

// TestSiw: connections of Linux siw are put together from TCP's segments.
func TestSiw(t *testing.T) {
	got, _ := read(t, "../../../wire/iwarp/testdata/iwarp.pcap")
	kinds, ops, connections := map[ItemKind]int{}, map[iwarp.Opcode]int{}, map[int]bool{}
	for _, p := range got {
		if p.Fabric != IWARP || p.BadCRC {
			t.Fatalf("frame %d: %+v", p.Frame, p)
		}
		kinds[p.Stream.Kind]++
		connections[p.Stream.Connection] = true
		if p.Stream.Kind == Segment {
			ops[p.Stream.Header.Opcode]++
		}
	}
	t.Log(kinds, ops)
	if len(connections) < 9 || kinds[TCPOpen] != len(connections) || kinds[SetUp] != 2*len(connections) ||
		kinds[Segment] < 200 {
		t.Errorf("%d connections, items %v", len(connections), kinds)
	}
	if kinds[TCPHole]+kinds[MalformedStream] != 0 {
		t.Errorf("holes or malformed streams: %v", kinds)
	}
	for _, op := range []iwarp.Opcode{iwarp.OpWrite, iwarp.OpReadRequest, iwarp.OpReadResponse, iwarp.OpSend} {
		if ops[op] == 0 {
			t.Errorf("no %v", op)
		}
	}
}
