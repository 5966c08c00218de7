// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// sharer gives every region of a table its memory in segment 5.
type sharer struct{ dir *Publisher }

func (s sharer) Allocate(_ memory.PD, size int, _ verbs.Access) ([]byte, func(), uint64) {
	return make([]byte, size), func() {}, 5
}
func (s sharer) Began(r *memory.Region) {
	s.dir.Publish(Entry{Key: uint32(r.Key()), Access: uint32(r.Access()), Segment: 5, Base: r.Addr(), Length: uint64(len(r.Bytes()))})
}
func (s sharer) Ended(r *memory.Region, _ bool) { s.dir.Withdraw(uint32(r.Key())) }
func (s sharer) Dropped(memory.PD)              {}

// source gives a side a region that its peer has mapped, or not.
func (s *side) source(peer *side, n int, mapped bool) *memory.Region {
	s.t.Helper()
	s.dev.Memory.ShareWith(sharer{s.dir})
	r, err := s.dev.Memory.Allocate(1, n, verbs.LocalWrite|verbs.RemoteRead)
	if err != nil {
		s.t.Fatal(err)
	}
	if mapped {
		peer.mapped.segments[5] = r.Bytes()
		peer.mapped.generation++
	}
	return r
}

// TestReference sends long messages from memory that the receiver has mapped, and from memory that it
// cannot reach and asks for; between short ones, all in order.
func TestReference(t *testing.T) {
	const n = 700_000
	for _, mapped := range []bool{true, false} {
		a, b := newPair(t, false)
		src := a.source(b, n, mapped)
		pattern(src.Bytes(), 5)
		dst, err := b.dev.Memory.Register(1, make([]byte, n), all)
		if err != nil {
			t.Fatal(err)
		}
		for i, length := range []int{100, n, refFrom, 8, refFrom - 1} {
			wr := verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{{Addr: dst.Addr(), Length: uint32(length), LKey: dst.Key()}}}
			if i == 1 { // in two pieces
				wr.SGL = []verbs.SGE{{Addr: dst.Addr(), Length: 1000, LKey: dst.Key()}, {Addr: dst.Addr() + 1000, Length: n - 1000, LKey: dst.Key()}}
			}
			clear(dst.Bytes())
			send := verbs.SendWR{ID: uint64(i), Op: verbs.SendImm, Imm: uint32(i), SGL: []verbs.SGE{{Addr: src.Addr() + uint64(i), Length: uint32(min(length, n-i)), LKey: src.Key()}}}
			a.post(send)
			settle(a, b)
			if got := a.completions(); len(got) > 0 {
				t.Fatalf("mapped %v, %d bytes: the SEND is done without a receive: %v", mapped, length, got[0].Status)
			}
			if _, err := b.qp.PostRecv([]verbs.RecvWR{wr}); err != nil {
				t.Fatal(err)
			}
			b.qp.Resume()
			settle(a, b)
			a.completes(verbs.Success)
			got := b.completes(verbs.Success)
			if want := send.SGL[0].Length; got[0].ByteLen != want || got[0].Imm != uint32(i) || !bytes.Equal(dst.Bytes()[:want], src.Bytes()[i:][:want]) {
				t.Errorf("mapped %v, %d bytes: received as %+v, or with other bytes", mapped, length, got[0])
			}
		}
		if sent := a.dev.Counters.SentBytes; mapped && sent != b.dev.Counters.RecvBytes {
			t.Errorf("%d bytes sent, %d received", sent, b.dev.Counters.RecvBytes)
		}
	}
}

// TestReferenceRefused sends more than the receive holds, and what is withdrawn meanwhile.
func TestReferenceRefused(t *testing.T) {
	a, b := newPair(t, false)
	src := a.source(b, 100_000, true)
	b.recv(1, 0, 99_999)
	send := verbs.SendWR{Op: verbs.Send, SGL: []verbs.SGE{{Addr: src.Addr(), Length: 100_000, LKey: src.Key()}}}
	a.post(send)
	settle(a, b)
	a.completes(verbs.RemoteInvalidRequestError)
	b.completes(verbs.LocalLengthError)

	a, b = newPair(t, false)
	src = a.source(b, 100_000, true)
	send.SGL[0] = verbs.SGE{Addr: src.Addr(), Length: 100_000, LKey: src.Key()}
	a.post(send)
	settle(a, b)
	if err := a.dev.Memory.Deregister(src); err != nil {
		t.Fatal(err)
	}
	b.recv(1, 0, 100_000)
	settle(a, b)
	a.completes(verbs.LocalProtectionError)
	if a.qp.State() != verbs.Err {
		t.Errorf("the sender is in %v", a.qp.State())
	}
}

// TestFetch has a peer ask for memory that no SEND names.
func TestFetch(t *testing.T) {
	a, b := newPair(t, false)
	for range 2 {
		body, err := b.peer.requests.Reserve(readFields, uint32(opFetch))
		if err != nil || body == nil {
			t.Fatal(err)
		}
		put32(body, 0, uint32(a.region.Key()))
		put32(body, 4, 100)
		put64(body, 8, a.region.Addr())
		b.peer.requests.Publish()
	}
	a.step()
	if a.qp.State() != verbs.Err || a.dev.Counters.SentBytes != 0 {
		t.Errorf("the queue pair is in %v, and %d bytes were sent", a.qp.State(), a.dev.Counters.SentBytes)
	}
}
