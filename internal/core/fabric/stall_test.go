// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/steer"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// post sends packets of 4 KiB to a slot of an adapter until the port has room for no more. It returns how many.
func (g *groupTest) post(from *program, adapter string, slot, most int) (n int) {
	g.t.Helper()
	lid := g.lid(adapter)
	for ; n < most; n++ {
		var p [1]*link.Packet
		if from.Alloc(p[:], []int{ib.LRHLen + ib.BTHLen + 4096 + ib.ICRCLen}) != nil {
			break
		}
		b := ib.LRH{LNH: ib.LNHLocal, DLID: lid, SLID: g.lid("host-3"),
			PktLen: uint16(len(p[0].Bytes()) / 4)}.Append(p[0].Bytes()[:0])
		ib.BTH{Opcode: ib.RCSendOnly, PKey: ib.DefaultPKey, DestQP: ib.QPN(slot<<(24-steer.Bits) | 2)}.Append(b)
		p[0].NoICRC = true
		if err := from.Send(1, p[:]); err != nil {
			g.t.Fatal(err)
		}
	}
	return n
}

// counted returns the bytes in the queue that hold buffer space of the ports, and the bytes that count against maxOwn.
func (p *program) counted() (held, own int) {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	return p.held, p.own
}

// drain receives all that waits, and returns how much that was.
func (p *program) drain() (n int) {
	var got [16]Arrival
	for {
		k, err := p.Receive(got[:])
		if err != nil {
			p.t.Fatal(err)
		}
		if k == 0 {
			return n
		}
		n += k
		p.Release(got[:k])
	}
}

// Programs that receive nothing, one after the other, hold the others at their adapter back for a bounded time in all.
// The memory that they can make the fabric hold is bounded, too, and when they have gone there is nothing left.
func TestStallsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroupTest(t)
		good := g.program("host-1")
		var bad []*program
		for range maxAttachments - 1 {
			bad = append(bad, g.program("host-1"))
		}
		var late time.Duration // in all
		const step = 10 * time.Millisecond
		for i, b := range bad {
			// A second of packets for a program that receives nothing; the good one gets a packet now and then.
			for range int(2 * time.Second / step) {
				g.post(g.admin, "host-1", b.Slot(), 100)
				g.post(g.admin, "host-1", good.Slot(), 1)
				time.Sleep(step)
				if good.drain() == 0 {
					late += step
				}
				if _, own := b.counted(); own > maxOwn {
					t.Fatalf("%d bytes are kept for a program that receives nothing", own)
				}
			}
			if i == 0 && late == 0 {
				t.Error("the first one held nobody back: the test shows nothing")
			}
		}
		total := 2 * time.Second * time.Duration(len(bad))
		if most := 2*time.Second + total/5; late > most {
			t.Errorf("the good program was held back for %v of %v, want %v at most", late, total, most)
		}
		t.Logf("held back for %v of %v", late, total)
		for _, b := range bad {
			b.Close()
		}
		good.drain()
		g.f.mu.Lock()
		defer g.f.mu.Unlock()
		port := g.f.byName["host-1"].node.Port(1)
		if n := port.BufferUsed(0); n != 0 {
			t.Errorf("%d blocks of the port's buffer are left in use", n)
		}
	})
}

// A slow member of a multicast group makes the fabric keep no more for it than its share, and costs the others nothing.
func TestSlowMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroupTest(t)
		slow, quick := g.program("host-1"), g.program("host-1")
		const packets = 4 * maxOwn / 4096
		taken := 0
		for range packets {
			var p [1]*link.Packet
			if err := g.admin.Alloc(p[:],
				[]int{ib.LRHLen + ib.GRHLen + ib.BTHLen + ib.DETHLen + 4096 + ib.ICRCLen}); err != nil {
				t.Fatal(err)
			}
			b := ib.LRH{LNH: ib.LNHGlobal, DLID: 0xc000, SLID: 3,
				PktLen: uint16(len(p[0].Bytes()) / 4)}.Append(p[0].Bytes()[:0])
			b = (&ib.GRH{IPVer: 6, NxtHdr: ib.GRHNextHeader}).Append(b)
			ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: ib.QPNMulticast}.Append(b)
			p[0].NoICRC = true
			g.f.mu.Lock()
			m := g.f.byName["host-1"]
			m.deliverMulticast(g.f, 1, p[0])
			if slow.own > maxOwn {
				t.Fatalf("%d bytes are kept for the slow member", slow.own)
			}
			g.f.mu.Unlock()
			taken += quick.drain()
		}
		if taken != packets {
			t.Errorf("the quick member has %d of %d", taken, packets)
		}
		if n := slow.drain(); n == 0 || n > maxOwn/4096 {
			t.Errorf("%d packets were kept for the slow member", n)
		}
		if held, own := slow.counted(); held != 0 || own != 0 {
			t.Errorf("%d and %d bytes are counted in an empty queue", held, own)
		}
	})
}

// A driver of a closed fabric sleeps, although packets wait for it: it would ask for them again and again.
func TestClosedWithPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroupTest(t)
		to := g.program("host-1")
		g.post(g.admin, "host-1", to.Slot(), 1)
		time.Sleep(time.Second)
		if !to.Ready() {
			t.Fatal("no packet has come")
		}
		to.f.Close()
		if _, err := to.Receive(make([]Arrival, 1)); err != ErrClosed || to.Ready() {
			t.Errorf("a packet is ready: %t, and Receive returns %v", to.Ready(), err)
		}
	})
}
