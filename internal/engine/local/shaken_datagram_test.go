// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// shakenDatagrams has a device receive datagrams to one queue pair or to a group, and send, while the test changes
// words of the link's segments.
func shakenDatagrams(t testing.TB, seed uint64, rate int) {
	const room = ib.GRHLen + datagramMTU
	r := rand.New(rand.NewPCG(seed, 2))
	e := newDatagramEnd(t)
	own := make([]byte, SegmentBytes)
	link, err := NewPeer(own, e.theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := e.dev.Memory.Register(1, make([]byte, 4*room), verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	slots := make([]slot, 4)
	for i := range slots {
		slots[i].mem = mem.Bytes()[i*room:][:room]
	}
	body := make([]byte, datagramFields+datagramMTU+8)
	received := 0
	d := datagram{from: 5, qkey: datagramKey, hops: 1}
	for range 60 {
		for i := range slots {
			if s := &slots[i]; !s.busy && r.IntN(2) == 0 {
				s.busy = true
				fill(s.mem, byte(r.Uint32()))
				e.qp.PostRecv([]verbs.RecvWR{{ID: uint64(i),
					SGL: []verbs.SGE{{Addr: mem.Addr() + uint64(i*room), Length: room, LKey: mem.Key()}}}})
			}
		}
		n := datagramFields + []int{0, 1, r.IntN(datagramMTU), datagramMTU}[r.IntN(4)]
		if b, err := e.sender.Reserve(n, uint32(opDatagram)); b != nil && err == nil {
			d.to = verbs.QPN(r.IntN(3))
			d.put(body)
			copy(b, body)
			e.sender.Publish()
		}
		// and the other way, where no device sends
		if b, err := link.requests.Reserve(8, uint32(opDatagram)); b != nil && err == nil {
			link.requests.Publish()
		}
		for r.IntN(100) < rate {
			segment := [][]byte{own, e.theirs}[r.IntN(2)]
			at := r.IntN(len(segment)/4) * 4
			if r.IntN(2) == 0 {
				segment, at = e.theirs, inRing(atRequests, requestBytes, link.inRequests.next+uint64(r.IntN(10)*4))
			}
			*half(segment, at) = anyWord(r)
		}
		err := link.CheckDatagrams(true)
		if err == nil {
			_, _, _, err = e.dev.ReceiveDatagrams(&e.lane, link, ib.GID{15: 1}, ib.GID{15: 2}, 1+r.IntN(1<<15),
				func(n, _ verbs.QPN) []*DatagramQP {
					return []*DatagramQP{e.qp, e.qp}[:n%3] // to no queue pair, or to members of a group
				})
		}
		for i := range e.lane.Outbox.Completions {
			slots[e.lane.Outbox.Completions[i].WC.ID].complete()
			received++
		}
		e.lane.Outbox.Reset()
		if err != nil {
			break
		}
		for i := range slots {
			if s := &slots[i]; !s.busy && s.then != nil && !bytes.Equal(s.then, s.mem) {
				t.Fatal("memory of a receive was written to after it had completed")
			}
		}
	}
	if rate == 0 && received == 0 {
		t.Error("nothing was received, though nobody changed anything")
	}
}

// TestShakenDatagrams is a second of FuzzShakenDatagrams.
func TestShakenDatagrams(t *testing.T) {
	for seed := range uint64(1000) {
		shakenDatagrams(t, seed, int(seed%40))
	}
}

func FuzzShakenDatagrams(f *testing.F) {
	f.Add(uint64(1), uint8(10))
	f.Fuzz(func(t *testing.T, seed uint64, rate uint8) { shakenDatagrams(t, seed, int(rate%90)) })
}

// FuzzDoorbell has a peer write anything to a doorbell: its owner looks at connections that there are, and a look
// ends.
func FuzzDoorbell(f *testing.F) {
	f.Add(uint64(1), uint16(100))
	f.Add(uint64(2), uint16(0))
	f.Fuzz(func(t *testing.T, seed uint64, limit uint16) {
		r := rand.New(rand.NewPCG(seed, 3))
		mem := make([]byte, DoorbellBytes)
		b := NewDoorbell(mem)
		for range 8 {
			for range 20 {
				*half(mem, r.IntN(len(mem)/4)*4) = r.Uint32()
			}
			b.Ring(r.Uint32())
			b.Take(int(limit), func(slot int) {
				if slot < 0 || slot >= int(limit) {
					t.Fatalf("connection %d of %d", slot, limit)
				}
				if r.IntN(8) == 0 { // while it looks
					*half(mem, r.IntN(len(mem)/4)*4) = r.Uint32()
				}
			})
			b.Sleep(int(limit))
			b.Wake()
		}
	})
}
