// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"encoding/binary"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// FuzzSend has a program send any packets: in is packets, with a byte before each that says from which port, whether
// its ICRC is left out and whether its LRH is put right, and with its length. The fabric stands, and when all has been
// taken nothing is left in its buffers.
func FuzzSend(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	seed := func(all ...[]byte) {
		var in []byte
		for i, b := range all {
			in = append(binary.BigEndian.AppendUint16(append(in, byte(i)), uint16(len(b))), b...)
		}
		f.Add(in)
	}
	seed([]byte{}, []byte{1}, []byte{0, 2}, []byte{0, 3, 0, 1, 0, 2, 0, 1})
	for _, d := range []link.Datagram{
		{SLID: 0xffff, DLID: 0xffff},
		{SLID: 1, DLID: 3, Source: ib.QP1, Dest: ib.QP1, PKey: ib.DefaultPKey, QKey: ib.QKeyGSI},
		{SLID: 1, DLID: 1, Source: ib.QP1, Dest: ib.QP1, PKey: ib.DefaultPKey, QKey: ib.QKeyGSI},
	} {
		h := sa.NewHeader(mad.MethodSet, sa.AttrMCMemberRecord, 7, sa.MemberMGID|sa.MemberPortGID|sa.MemberJoinState)
		m := sa.MCMemberRecord{MGID: ib.GID{0: 0xff, 15: 1}, Join: 1}
		b := make([]byte, 0, mad.Size)
		b = m.Append(h.Append(b))
		p := link.New(link.Config{}).NewMAD(d, b[:mad.Size])
		seed(p.Bytes(), p.Bytes()[:len(p.Bytes())-1], p.Bytes()[:ib.LRHLen])
	}
	group := ib.LRH{LNH: ib.LNHGlobal, DLID: 0xc000, SLID: 1, PktLen: 19}.Append(nil)
	group = (&ib.GRH{IPVer: 6, NxtHdr: ib.GRHNextHeader}).Append(group)
	group = append(ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: ib.QPNMulticast}.Append(group),
		make([]byte, 16)...)
	seed(group, group)
	f.Fuzz(func(t *testing.T, in []byte) {
		g := newGroupTest(t)
		sender, beside := g.program("host-1"), g.program("host-1")
		other := g.program("host-2")
		for len(in) >= 3 {
			how, n := in[0], min(int(in[1])<<8|int(in[2]), len(in)-3, ib.MaxPacket)
			b := in[3 : 3+n]
			in = in[3+n:]
			var p [1]*link.Packet
			if err := sender.Alloc(p[:], []int{n}); err != nil {
				sender.drain()
				beside.drain()
				other.drain()
				g.admin.drain()
				continue
			}
			copy(p[0].Bytes(), b)
			p[0].NoICRC = how&2 != 0
			if c := p[0].Bytes(); how&4 != 0 && len(c) >= ib.LRHLen {
				binary.BigEndian.PutUint16(c[4:], uint16(len(c)/4))
			}
			if err := sender.Send(1, p[:]); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range []*program{sender, beside, other, g.admin} {
			if held, own := p.counted(); held < 0 || own < 0 || own > maxOwn {
				t.Errorf("%d and %d bytes are counted in a queue", held, own)
			}
			p.drain()
			if held, own := p.counted(); held != 0 || own != 0 {
				t.Errorf("%d and %d bytes are counted in an empty queue", held, own)
			}
		}
		sender.Close()
	})
}
