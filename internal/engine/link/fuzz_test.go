// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// FuzzFrame gives a switch and an adapter any frames: in is frames with a byte before each that says to
// which of the two, whether its CRCs are put right, and how long it is. Buffers never hold more than
// fits, and everything can be taken and released.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	add := func(frames ...[]byte) {
		var in []byte
		for i, b := range frames {
			in = append(append(in, byte(i&1)|2, byte(len(b)>>8), byte(len(b))), b...)
		}
		f.Add(in)
	}
	fab := newFabric(f, Config{})
	a := fab.adapter(2, nil)
	data := fab.packet(a, 1, 0, 64, 1)
	data.lane = 0
	group := fab.packet(a, 0xc000, 1, 64, 1)
	group.lane = 1
	smp := fab.net.Alloc(madPacket)
	b := ib.LRH{VL: 15, LNH: ib.LNHLocal, DLID: 0xffff, SLID: 0xffff, PktLen: madPacket / 4}.Append(smp.bytes[:0])
	b = ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey}.Append(b)
	b = ib.DETH{}.Append(b)
	copy(b[len(b):cap(b)], []byte{1, classDirected, 1, 1})
	smp.NoICRC, smp.lane = true, managementLane
	perf := fab.net.Alloc(madPacket)
	b = ib.LRH{LNH: ib.LNHLocal, DLID: 1, SLID: 2, PktLen: madPacket / 4}.Append(perf.bytes[:0])
	b = ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: 1}.Append(b)
	b = ib.DETH{QKey: ib.QKeyGSI, SrcQP: 1}.Append(b)
	copy(b[len(b):cap(b)], []byte{1, classPerf, 1, 1})
	perf.NoICRC = true
	credit := ib.FlowControl{FCTBS: 3, VL: 1, FCCL: 4000}.Append(nil)
	for _, p := range []*Packet{data, group, smp, perf} {
		add(p.appendFrame(nil), p.appendFrame(nil), credit)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		f := newFabric(t, Config{})
		swAgent, caAgent := &fakeAgent{}, &fakeAgent{}
		sw, ca := f.switchNode(0x101, 3, swAgent), f.adapter(1, caAgent)
		swAgent.nd, caAgent.nd = sw, ca.node
		other := f.adapter(3, nil)
		f.plug(sw.Port(2), other, 0)
		targets := [2]*Port{ca, sw.Port(1)}
		for _, p := range targets {
			if err := f.net.RemoteUp(0, p, node.Width4x, node.EDR); err != nil {
				t.Fatal(err)
			}
		}
		all := append(ports(sw), ca, other)
		activate(all...)
		sw.State().Tables.Linear[1], sw.State().Tables.Linear[2], sw.State().Tables.Linear[3] = 1, 1, 2
		sw.State().Tables.Multicast[0][0] = 7
		sent := 0
		for len(in) >= 3 {
			how, size := in[0], min(int(in[1])<<8|int(in[2]), len(in)-3, 2*MaxFrame)
			frame := append([]byte(nil), in[3:3+size]...)
			in = in[3+size:]
			if how&2 != 0 {
				repair(frame)
			}
			f.net.HandleFrame(f.now, targets[how&1], frame)
			f.net.Run(f.now, 1000)
			for _, p := range all {
				for lane := range p.in {
					if p.in[lane].used > p.in[lane].size {
						t.Fatalf("lane %d holds %d of %d blocks", lane, p.in[lane].used, p.in[lane].size)
					}
				}
			}
			if how&4 != 0 {
				f.now += 1000
			}
			if how&8 != 0 { // otherwise packets wait for credits, or for the test to take them
				for range 100 {
					if frame, ok := f.net.NextFrame(f.now, targets[how>>4&1], nil); !ok {
						break
					} else if _, ok := ib.CheckVCRC(frame); !ok {
						t.Fatalf("sent %x", frame)
					}
					sent++
				}
			}
		}
		for _, p := range []*Port{ca, other} {
			f.came(p)
		}
		for _, p := range targets {
			f.net.RemoteDown(f.now, p)
		}
		f.net.Run(f.now, 1000)
		f.came(ca)
		f.came(other)
		for _, p := range all {
			for lane := range p.in {
				if p.in[lane].used != 0 || p.out[lane].n != 0 {
					t.Fatalf("port %d, lane %d: %d blocks, %d packets left", p.num, lane, p.in[lane].used,
						p.out[lane].n)
				}
			}
		}
	})
}

// repair puts the CRCs of a frame right, as far as there is room for them, and the length in its LRH.
func repair(frame []byte) {
	if n := len(frame); n == ib.FlowControlLen {
		binary.LittleEndian.PutUint16(frame[4:], ib.VCRC(frame[:4]))
	} else if n >= ib.LRHLen+ib.ICRCLen+ib.VCRCLen {
		body := frame[:n-ib.VCRCLen]
		words := uint16(len(body) / 4)
		binary.BigEndian.PutUint16(body[4:], binary.BigEndian.Uint16(body[4:])&0xf800|words&0x7ff)
		if state, ok := ib.LocalICRC(body[:len(body)-ib.ICRCLen]); ok {
			binary.LittleEndian.PutUint32(body[len(body)-ib.ICRCLen:], state)
		}
		binary.LittleEndian.PutUint16(frame[n-ib.VCRCLen:], ib.VCRC(body))
	}
}
