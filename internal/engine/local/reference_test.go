// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// sharer gives every region of a table its memory in segment 5.
type sharer struct{ dir *Publisher }

func (s sharer) Allocate(_ memory.PD, size int, _ verbs.Access) ([]byte, func(), uint64) {
	return make([]byte, size), func() {}, 5
}
func (s sharer) RegionAdded(r *memory.Region) {
	s.dir.Publish(Entry{Key: uint32(r.Key()), Access: uint32(r.Access()), Segment: 5, Base: r.Addr(),
		Length: uint64(len(r.Bytes()))})
}
func (s sharer) RegionRemoved(r *memory.Region, _ bool) { s.dir.Withdraw(uint32(r.Key())) }
func (s sharer) DomainRemoved(memory.PD)                {}

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
			wr := verbs.RecvWR{ID: uint64(i),
				SGL: []verbs.SGE{{Addr: dst.Addr(), Length: uint32(length), LKey: dst.Key()}}}
			if i == 1 { // in two pieces
				wr.SGL = []verbs.SGE{{Addr: dst.Addr(), Length: 1000, LKey: dst.Key()},
					{Addr: dst.Addr() + 1000, Length: n - 1000, LKey: dst.Key()}}
			}
			clear(dst.Bytes())
			send := verbs.SendWR{ID: uint64(i), Op: verbs.OpSendImm, Imm: uint32(i),
				SGL: []verbs.SGE{{Addr: src.Addr() + uint64(i), Length: uint32(min(length, n-i)), LKey: src.Key()}}}
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
			a.completes(verbs.StatusSuccess)
			got := b.completes(verbs.StatusSuccess)
			if want := send.SGL[0].Length; got[0].ByteLen != want || got[0].Imm != uint32(i) ||
				!bytes.Equal(dst.Bytes()[:want], src.Bytes()[i:][:want]) {
				t.Errorf("mapped %v, %d bytes: received as %+v, or with other bytes", mapped, length, got[0])
			}
		}
		if sent := a.lane.Counters.SentBytes; mapped && sent != b.lane.Counters.RecvBytes {
			t.Errorf("%d bytes sent, %d received", sent, b.lane.Counters.RecvBytes)
		}
	}
}

// TestReferenceRefused sends a payload that is longer than the receive, and one that is withdrawn meanwhile.
func TestReferenceRefused(t *testing.T) {
	a, b := newPair(t, false)
	src := a.source(b, 100_000, true)
	b.recv(1, 0, 99_999)
	send := verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{{Addr: src.Addr(), Length: 100_000, LKey: src.Key()}}}
	a.post(send)
	settle(a, b)
	a.completes(verbs.StatusRemoteInvalidRequestError)
	b.completes(verbs.StatusLocalLengthError)

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
	a.completes(verbs.StatusLocalProtectionError)
	if a.qp.State() != verbs.StateError {
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
	if a.qp.State() != verbs.StateError || a.lane.Counters.SentBytes != 0 {
		t.Errorf("the queue pair is in %v, and %d bytes were sent", a.qp.State(), a.lane.Counters.SentBytes)
	}
}

// locate gives a side a region that is in no segment, which its peer can copy from as the system would let
// it, and counts the copies.
func (s *side) locate(peer *side, n int) (r *memory.Region, copies *int) {
	s.t.Helper()
	s.dev.Memory.ShareWith(revoker{sharer{s.dir}, s})
	r, err := s.dev.Memory.Register(1, make([]byte, n), verbs.LocalWrite)
	if err != nil {
		s.t.Fatal(err)
	}
	copies = new(int)
	at, _ := r.HostMemory()
	peer.mapped.cross = func(local []byte, addr uint64, write bool) bool {
		mem := r.Bytes()
		if write || mem == nil || s.peer.Work()%2 == 0 {
			s.t.Error("a copy of memory that has ended, or without a word of it")
			return false
		}
		*copies++
		copy(local, mem[addr-at:])
		return true
	}
	s.mapped.cross = func([]byte, uint64, bool) bool { return false } // it may, and its peer therefore, too
	return r, copies
}

// revoker revokes the payloads that a side has named when a region ends, as the device does.
type revoker struct {
	sharer
	s *side
}

func (v revoker) Allocate(memory.PD, int, verbs.Access) ([]byte, func(), uint64) { return nil, nil, 0 }
func (v revoker) RegionAdded(*memory.Region)                                     {}
func (v revoker) RegionRemoved(*memory.Region, bool)                             { v.s.peer.Revoke() }

// TestLocated sends long messages from memory that is in no segment: the receiver copies them once. Where
// it cannot it asks, and is not told again.
func TestLocated(t *testing.T) {
	const n = 700_000
	for _, can := range []bool{true, false} {
		a, b := newPair(t, false)
		src, copies := a.locate(b, n)
		pattern(src.Bytes(), 5)
		if !can {
			b.mapped.cross = func([]byte, uint64, bool) bool { return false }
		}
		dst, err := b.dev.Memory.Register(1, make([]byte, n), all)
		if err != nil {
			t.Fatal(err)
		}
		for i, length := range []int{n, refFrom, 8, refFrom - 1, n} {
			clear(dst.Bytes())
			a.post(verbs.SendWR{Op: verbs.OpSendImm, Imm: uint32(i),
				SGL: []verbs.SGE{{Addr: src.Addr(), Length: uint32(length), LKey: src.Key()}}})
			settle(a, b)
			if got := a.completions(); len(got) > 0 && length >= refFrom && can {
				t.Fatalf("%d bytes: the SEND is done without a receive: %v", length, got[0].Status)
			}
			wr := verbs.RecvWR{SGL: []verbs.SGE{{Addr: dst.Addr(), Length: 1000, LKey: dst.Key()},
				{Addr: dst.Addr() + 1000, Length: n - 1000, LKey: dst.Key()}}}
			if _, err := b.qp.PostRecv([]verbs.RecvWR{wr}); err != nil {
				t.Fatal(err)
			}
			b.qp.Resume()
			settle(a, b)
			a.completes(verbs.StatusSuccess)
			got := b.completes(verbs.StatusSuccess)
			if got[0].ByteLen != uint32(length) || got[0].Imm != uint32(i) ||
				!bytes.Equal(dst.Bytes()[:length], src.Bytes()[:length]) {
				t.Errorf("the receiver can copy: %v, %d bytes: received as %+v, or with other bytes", can, length,
					got[0])
			}
		}
		if want := can; (*copies > 0) != want || a.qp.uncrossed == want {
			t.Errorf("the receiver can copy: %v; %d copies, and the sender names no more: %v", can, *copies,
				a.qp.uncrossed)
		}
	}
}

// TestLocatedEnded ends a region that a SEND names: the receiver does not copy from it any more. Another
// region's end has it ask for this one once.
func TestLocatedEnded(t *testing.T) {
	for _, same := range []bool{true, false} {
		a, b := newPair(t, false)
		src, copies := a.locate(b, 100_000)
		send := verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{{Addr: src.Addr(), Length: 100_000, LKey: src.Key()}}}
		a.post(send)
		settle(a, b)
		ends := src
		if !same {
			ends = a.region
		}
		if err := a.dev.Memory.Deregister(ends); err != nil {
			t.Fatal(err)
		}
		b.recv(1, 0, 100_000)
		settle(a, b)
		if *copies != 0 {
			t.Errorf("the region that ended is the SEND's: %v; %d copies after that", same, *copies)
		}
		if same {
			a.completes(verbs.StatusLocalProtectionError)
			continue
		}
		a.completes(verbs.StatusSuccess)
		b.completes(verbs.StatusSuccess)
		a.post(send)
		b.recv(2, 0, 100_000)
		settle(a, b)
		a.completes(verbs.StatusSuccess)
		b.completes(verbs.StatusSuccess)
		if *copies == 0 {
			t.Error("the next SEND is not copied")
		}
	}
}

// TestLocatedWhileHeld names a payload while a message of the receiver waits for a receive of the sender's:
// that holds back the receiver's operations in the sender's memory, but not the SEND.
func TestLocatedWhileHeld(t *testing.T) {
	a, b := newPair(t, false)
	src, copies := a.locate(b, 100_000)
	b.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{b.sge(0, 8)}})
	settle(a, b)
	if !a.qp.Paused() {
		t.Fatal("no message waits")
	}
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{{Addr: src.Addr(), Length: 100_000, LKey: src.Key()}}})
	b.recv(1, 0, 100_000)
	settle(a, b)
	a.completes(verbs.StatusSuccess)
	b.completes(verbs.StatusSuccess)
	if *copies == 0 {
		t.Error("the SEND was not copied")
	}
}

// TestWriteReference has long WRITEs behind a SEND that was not taken: the target copies them once, from memory that it
// has mapped, from memory that the system lets it copy, or it asks for them.
func TestWriteReference(t *testing.T) {
	const n = 700_000
	for _, how := range []string{"mapped", "asked for", "copied by the system"} {
		for _, op := range []verbs.SendOp{verbs.OpWrite, verbs.OpWriteImm} {
			cut := 0               // times that the immediate data had no room behind the WRITE
			for fill := range 16 { // less and less room in the ring
				a, b := newPair(t, false)
				var src *memory.Region
				copies := new(int)
				if how == "copied by the system" {
					src, copies = a.locate(b, n)
				} else {
					src = a.source(b, n, how == "mapped")
				}
				pattern(src.Bytes(), 5)
				dst, err := b.dev.Memory.Register(1, make([]byte, n), all)
				if err != nil {
					t.Fatal(err)
				}
				length := n - fill
				for i := range 4 + fill {
					send := verbs.SendWR{Op: verbs.OpSend}
					if i < 4 {
						send.SGL = []verbs.SGE{a.sge(0, piece-8)}
					}
					a.post(send)
				}
				a.post(verbs.SendWR{Op: op, Imm: 9,
					SGL:    []verbs.SGE{{Addr: src.Addr(), Length: uint32(length), LKey: src.Key()}},
					Remote: verbs.Remote{Addr: dst.Addr(), Key: dst.Key()}})
				settle(a, b)
				if a.completes(); a.qp.off == length {
					cut++
				}
				for i := range 5 + fill {
					b.recv(uint64(i), 0, piece)
				}
				settle(a, b)
				a.completes(slices.Repeat([]verbs.Status{verbs.StatusSuccess}, 5+fill)...)
				got := b.completions()
				if want := 4 + fill + int(op-verbs.OpWrite); len(got) != want {
					t.Fatalf("%v, %s: %d receives completed, want %d", op, how, len(got), want)
				}
				if last := got[len(got)-1]; op == verbs.OpWriteImm &&
					(last.Imm != 9 || last.ByteLen != uint32(length)) {
					t.Errorf("%v, %s: announced as %+v", op, how, last)
				}
				if !bytes.Equal(dst.Bytes()[:length], src.Bytes()[:length]) ||
					!bytes.Equal(dst.Bytes()[length:], make([]byte, fill)) {
					t.Errorf("%v, %s: not what was written", op, how)
				}
				if c := b.lane.Counters; how == "copied by the system" && *copies == 0 ||
					how != "asked for" && c.RecvMessages > uint64(6+fill) {
					t.Errorf("%v, %s: %d copies, %d messages", op, how, *copies, c.RecvMessages)
				}
			}
			if op == verbs.OpWriteImm && cut == 0 {
				t.Errorf("%s: the ring was never full between a WRITE and its immediate data", how)
			}
		}
	}
}

// TestWriteReferenceRefused writes where it is not allowed, and ends regions while a WRITE is under way.
func TestWriteReferenceRefused(t *testing.T) {
	const n = 700_000
	for what, c := range map[string]struct {
		spoil func(a, b *side, src, dst *memory.Region) error
		late  bool // after a part
		want  verbs.Status
	}{
		"no right": {spoil: func(a, b *side, src, dst *memory.Region) error {
			return b.qp.Modify(&verbs.QPAttr{Access: verbs.RemoteRead}, verbs.MaskAccess)
		}, want: verbs.StatusRemoteInvalidRequestError},
		"the target's region ends": {spoil: func(a, b *side, src,
			dst *memory.Region) error {
			return b.dev.Memory.Deregister(dst)
		}, want: verbs.StatusRemoteAccessError},
		"the target's region ends meanwhile": {spoil: func(a, b *side, src,
			dst *memory.Region) error {
			return b.dev.Memory.Deregister(dst)
		}, late: true, want: verbs.StatusRemoteAccessError},
		"the initiator's region ends": {spoil: func(a, b *side, src,
			dst *memory.Region) error {
			return a.dev.Memory.Deregister(src)
		}, want: verbs.StatusLocalProtectionError},
	} {
		a, b := newPair(t, false)
		src := a.source(b, n, true)
		dst, err := b.dev.Memory.Register(1, make([]byte, n), all)
		if err != nil {
			t.Fatal(err)
		}
		a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{{Addr: src.Addr(), Length: n, LKey: src.Key()}},
			Remote: verbs.Remote{Addr: dst.Addr(), Key: dst.Key()}})
		a.step()
		if c.late {
			if b.qp.Receive(1); b.qp.ref.phase != copying {
				t.Fatalf("%s: nothing is under way", what)
			}
		}
		if err := c.spoil(a, b, src, dst); err != nil {
			t.Fatal(err)
		}
		settle(a, b)
		if a.completes(c.want); a.qp.State() != verbs.StateError ||
			b.qp.State() != verbs.StateError && c.want != verbs.StatusLocalProtectionError {
			t.Errorf("%s: the queue pairs are in %v and %v", what, a.qp.State(), b.qp.State())
		}
	}
}

// TestMessageChanges has a message become another one while its payload is copied: the connection ends, and the
// receive with it.
func TestMessageChanges(t *testing.T) {
	const n = 2 * stride
	for what, to := range map[string]uint64{
		"a short SEND":   uint64(opSend|first|last)<<32 | there | sendFields,
		"immediate data": uint64(opImm|first)<<32 | there | immFields,
		"a longer one":   uint64(opRef)<<32 | there | refFields + 8,
		"nothing":        0,
	} {
		a, b := newPair(t, false)
		src := a.source(b, n, true)
		dst, err := b.dev.Memory.Register(1, make([]byte, n), all)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.qp.PostRecv([]verbs.RecvWR{{ID: 7,
			SGL: []verbs.SGE{{Addr: dst.Addr(), Length: n, LKey: dst.Key()}}}}); err != nil {
			t.Fatal(err)
		}
		at := a.peer.requests.at(a.peer.requests.next)
		a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{{Addr: src.Addr(), Length: n, LKey: src.Key()}}})
		a.step()
		b.qp.Receive(1)
		if b.qp.ref.phase != copying {
			t.Fatalf("%s: the payload is not being copied", what)
		}
		*at = to
		settle(a, b)
		if got := b.completes(verbs.StatusWRFlushError); got[0].ID != 7 || b.qp.State() != verbs.StateError {
			t.Errorf("%s: %+v, and the queue pair is in %v", what, got[0], b.qp.State())
		}
	}
}

// TestReferenceFlushed flushes a SEND whose payload is being copied, whose program then has its memory back: the
// receiver does not complete with bytes of both. In a segment, and in other memory.
func TestReferenceFlushed(t *testing.T) {
	const n = 2 * stride
	for _, crossed := range []bool{false, true} {
		a, b := newPair(t, false)
		var src *memory.Region
		if crossed {
			src, _ = a.locate(b, n)
		} else {
			src = a.source(b, n, true)
		}
		dst, err := b.dev.Memory.Register(1, make([]byte, n), all)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{{Addr: dst.Addr(), Length: n,
			LKey: dst.Key()}}}}); err != nil {
			t.Fatal(err)
		}
		a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{{Addr: src.Addr(), Length: n, LKey: src.Key()}}})
		a.step()
		b.qp.Receive(1)
		if b.qp.ref.phase != copying || b.qp.got != stride {
			t.Fatalf("crossed %v: the payload is not being copied", crossed)
		}
		if err := a.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.MaskState); err != nil {
			t.Fatal(err)
		}
		a.completes(verbs.StatusWRFlushError)
		pattern(src.Bytes(), 77)
		settle(a, b)
		if got := b.completions(); len(got) > 0 {
			t.Errorf("crossed %v: completed with %v", crossed, got[0].Status)
		}
		b.qp.Lost(true)
		b.completes(verbs.StatusWRFlushError)
	}
}
