// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"bytes"
	"io"
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/internal/system/netio"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// FuzzTake takes the packets that may come to a port's socket: datagrams of one size in a buffer, from one sender. Each
// is delivered, or counted as dropped.
func FuzzTake(f *testing.F) {
	f.Add([]byte{}, uint16(0), byte(0))
	f.Add([]byte{1}, uint16(1), byte(0))
	f.Add([]byte{1, 2, 3}, uint16(1), byte(1))
	from, to := netip.MustParseAddrPort("127.0.0.1:4791"), netip.MustParseAddrPort("127.0.0.2:4791")
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: ib.QP1},
		DETH: ib.DETH{QKey: ib.QKeyGSI, SrcQP: 1}}
	frame := append(p.AppendHeader(nil), make([]byte, 256+ib.ICRCLen)...)
	f.Add(frame, uint16(len(frame)), byte(2))
	f.Add(bytes.Repeat(frame, 3), uint16(len(frame)), byte(0))
	flush := ib.Packet{BTH: ib.BTH{Opcode: ib.RCFlush, PKey: ib.DefaultPKey, DestQP: 9}}
	f.Add(append(flush.AppendHeader(nil), make([]byte, ib.ICRCLen)...), uint16(100), byte(3))
	f.Fuzz(func(t *testing.T, data []byte, size uint16, how byte) {
		record, err := trace.NewWriter(io.Discard, "port")
		if err != nil {
			t.Fatal(err)
		}
		p := &port{local: to, trace: record}
		p.receiver.init(to, netio.Features{Batch: 1})
		d := netio.Datagrams{From: from, Data: bytes.Clone(data), SegmentSize: max(1, int(size)), TOS: how, TTL: how,
			HasHeaders: how&1 != 0}
		if how&2 != 0 {
			d.To = netip.MustParseAddr("224.0.0.7")
		}
		want := uint64(d.Len())
		if len(data) == 0 {
			want = 0
		}
		var c ibta.Counters
		got := uint64(0)
		p.take(&d, &c, func(pkt *ib.Packet, a *ibta.Arrival) {
			got++
			a.Header.AppendGRH(nil)
		})
		for _, n := range c.Dropped {
			got += n
		}
		if got != want {
			t.Errorf("%d of %d datagrams are accounted for", got, want)
		}
	})
}
