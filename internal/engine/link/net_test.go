// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// fabric is a network for tests, whose ports are configured by hand instead of by a manager.
type fabric struct {
	tb   testing.TB
	net  *Net
	now  clock.Time
	buf  []Wake
	spec node.Spec // of the nodes to be added
}

func newFabric(tb testing.TB, cfg Config) *fabric {
	return &fabric{tb: tb, net: New(cfg), spec: node.DefaultSpec}
}

// adapter adds a channel adapter with one port.
func (f *fabric) adapter(lid uint16, a Agent) *Port {
	nd := f.net.Add(node.New(node.CA, uint64(lid)<<8, "adapter", 1, f.spec), a)
	nd.Port(1).State().Address.LID = lid
	return nd.Port(1)
}

// switchNode adds a switch.
func (f *fabric) switchNode(lid uint16, ports int, a Agent) *Node {
	nd := f.net.Add(node.New(node.Switch, uint64(lid)<<8, "switch", ports, f.spec), a)
	nd.Port(0).State().Address.LID = lid
	nd.State().Tables.Top = 0xbfff
	return nd
}

func (f *fabric) plug(a, b *Port, delay clock.Time) *Cable {
	f.tb.Helper()
	c, err := f.net.Plug(f.now, a, b, delay)
	if err != nil {
		f.tb.Fatal(err)
	}
	return c
}

// activate makes all ports that are up active.
func activate(ports ...*Port) {
	for _, p := range ports {
		if p.State().Link.Logical != node.Down {
			p.State().Link.Logical = node.Active
		}
		p.State().Lanes.Operational = 8
		for i := range p.State().Lanes.SLtoVL {
			for sl := range 8 {
				p.State().Lanes.SLtoVL[i][sl] = uint8(sl)
			}
		}
		p.State().Lanes.Low = nil
		for vl := range uint8(8) {
			p.State().Lanes.Low = append(p.State().Lanes.Low, node.ArbEntry{VL: vl, Weight: 64})
		}
		p.node.state.Changed(p.num)
	}
}

// run lets the network come to rest, or until a time in virtual time.
func (f *fabric) run(until clock.Time) {
	for range 100_000_000 {
		if f.net.Run(f.now, 1000) {
			continue
		}
		next := f.net.Deadline()
		if next == 0 || next > until {
			f.now = max(f.now, until)
			return
		}
		f.now = next
	}
	f.tb.Fatal("the network does not come to rest")
}

const testQP = 77

// packet returns a datagram-like packet with size bytes of payload, the first eight of which are id.
func (f *fabric) packet(from *Port, dlid uint16, sl uint8, size int, id uint64) *Packet {
	total := ib.LRHLen + ib.BTHLen + size + ib.ICRCLen
	p := f.net.Alloc(total)
	b := ib.LRH{SL: sl, LNH: ib.LNHLocal, DLID: dlid, SLID: from.State().Address.LID,
		PktLen: uint16(total / 4)}.Append(p.bytes[:0])
	b = ib.BTH{Opcode: ib.RCWriteMiddle, PKey: ib.DefaultPKey, DestQP: testQP}.Append(b)
	binary.BigEndian.PutUint64(b[len(b):len(b)+8], id)
	p.NoICRC = true
	return p
}

func idOf(p *Packet) uint64 {
	return binary.BigEndian.Uint64(p.Bytes()[ib.LRHLen+ib.BTHLen:])
}

// star is adapters on one switch: LID 1 at port 1, and so on.
func (f *fabric) star(adapters int, delay clock.Time) (*Node, []*Port) {
	sw := f.switchNode(0x100, adapters, nil)
	var as []*Port
	for i := range adapters {
		a := f.adapter(uint16(i+1), nil)
		f.plug(a, sw.Port(i+1), delay)
		sw.State().Tables.Linear[i+1] = uint8(i + 1)
		as = append(as, a)
	}
	f.run(f.now + 1000)
	activate(append(as, sw.ports[1:]...)...)
	f.run(f.now + 1000)
	return sw, as
}

func TestOneSwitch(t *testing.T) {
	for _, cfg := range []Config{{}, {Paced: true}} {
		f := newFabric(t, cfg)
		_, as := f.star(2, 0)
		next := uint64(0)
		for sent := uint64(0); next < 1000 && f.now < 1e9; {
			for sent < 1000 {
				p := f.packet(as[0], 2, 0, 1024, sent)
				if !f.net.Send(f.now, as[0], p) {
					f.net.Release(p)
					break
				}
				sent++
			}
			f.run(f.now + 1_000_000)
			for p := f.net.Receive(as[1]); p != nil; p = f.net.Receive(as[1]) {
				if idOf(p) != next {
					t.Fatalf("packet %d came, want %d", idOf(p), next)
				}
				next++
				f.net.Release(p)
			}
		}
		if next != 1000 {
			t.Fatalf("%d came: %+v", next, as[0].State().Counters)
		}
	}
}
