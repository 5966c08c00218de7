// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// drops checks how many messages a side has dropped for a reason.
func (s *side) drops(r Reason, want uint64) {
	s.t.Helper()
	if n := s.lane.Counters.Dropped[r]; n != want {
		s.t.Errorf("%d messages were dropped for %v, want %d", n, r, want)
	}
}

// TestUnreliable has messages of UC complete before the peer has done anything. Messages that cannot be carried
// out are dropped as a whole.
func TestUnreliable(t *testing.T) {
	for _, shared := range []bool{true, false} {
		a, b := newPairOf(t, verbs.UC, shared)
		const n = piece + 100
		pattern(a.region.Bytes()[:n], 1)
		send := verbs.SendWR{Op: verbs.OpSendImm, Imm: 7, SGL: []verbs.SGE{a.sge(0, n)}}
		write := verbs.SendWR{Op: verbs.OpWriteImm, Imm: 8, SGL: []verbs.SGE{a.sge(0, n)}, Remote: b.remote(100)}
		bad := write
		bad.Remote.Key ^= 1 << 8
		for _, wr := range []verbs.SendWR{send, bad} { // without a receive, and with a wrong key
			a.post(wr)
		}
		a.qp.Advance(1 << 20)
		a.completes(verbs.StatusSuccess, verbs.StatusSuccess)
		settle(a, b)
		b.recv(1, 0, n-1)
		b.completes()
		a.post(send) // too long
		settle(a, b)
		b.recv(2, 100_000, 0)
		a.post(write)
		a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, n)}, Remote: b.remote(100_000)})
		settle(a, b)
		a.completes(verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess)
		if wc := b.completes(verbs.StatusSuccess)[0]; wc.ID != 1 || wc.Op != verbs.WCRecvWriteImm || wc.Imm != 8 ||
			wc.ByteLen != n {
			t.Errorf("the WRITE is announced as %+v", wc)
		}
		for _, at := range []int{100, 100_000} {
			if !bytes.Equal(b.region.Bytes()[at:][:n], a.region.Bytes()[:n]) {
				t.Errorf("not what was written at %d", at)
			}
		}
		b.drops(dropNoReceive, 1)
		b.drops(dropAccess, 1)
		b.drops(dropTooLong, 1)
		if a.qp.State() != verbs.StateRTS || b.qp.State() != verbs.StateRTS {
			t.Errorf("the queue pairs are in %v and %v", a.qp.State(), b.qp.State())
		}
	}
}

// TestUnreliableShort completes a short SEND within the post.
func TestUnreliableShort(t *testing.T) {
	a, b := newPairOf(t, verbs.UC, true)
	b.recv(1, 0, 8)
	if _, ok := a.qp.SendShort(&verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 8)}}); !ok {
		t.Fatal("it has to be posted")
	}
	a.completes(verbs.StatusSuccess)
	settle(a, b)
	b.completes(verbs.StatusSuccess)
	if _, ok := a.qp.SendShort(&verbs.SendWR{Op: verbs.OpSendInv, SGL: []verbs.SGE{a.sge(0, 8)}}); ok {
		t.Error("a SEND with invalidate, which UC has not")
	}
}

// TestUnreliableCut has a message fail at its sender after part of it has left: the receive is there for the next
// one, and the queue pair sends again once it is in RTS.
func TestUnreliableCut(t *testing.T) {
	a, b := newPairOf(t, verbs.UC, true)
	lost, err := a.dev.Memory.Register(1, make([]byte, 200_000), all)
	if err != nil {
		t.Fatal(err)
	}
	b.recv(1, 0, 200_000)
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{{Addr: lost.Addr(), Length: 200_000, LKey: lost.Key()}}})
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 8)}})
	a.qp.Advance(1 << 20) // until the ring is full
	if err := a.dev.Memory.Deregister(lost); err != nil {
		t.Fatal(err)
	}
	settle(a, b)
	a.completes(verbs.StatusLocalProtectionError, verbs.StatusWRFlushError)
	b.completes()
	if a.qp.State() != verbs.StateSQE {
		t.Fatalf("the queue pair is in %v", a.qp.State())
	}
	a.recv(2, 0, 8) // it receives meanwhile
	b.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{b.sge(0, 8)}})
	settle(a, b)
	a.completes(verbs.StatusSuccess)
	b.completes(verbs.StatusSuccess)
	if err := a.qp.Modify(&verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	pattern(a.region.Bytes()[:100], 1)
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 100)}})
	settle(a, b)
	a.completes(verbs.StatusSuccess)
	if wc := b.completes(verbs.StatusSuccess)[0]; wc.ID != 1 || wc.ByteLen != 100 ||
		!bytes.Equal(b.region.Bytes()[:100], a.region.Bytes()[:100]) {
		t.Errorf("what follows is received as %+v", wc)
	}
}

// TestUnreliableStall has a peer that takes nothing: messages that have waited for too long are dropped, and from then
// on messages that find no room, until the peer goes on.
func TestUnreliableStall(t *testing.T) {
	a, b := newPairOf(t, verbs.UC, true)
	send := verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 40_000)}}
	a.post(send)
	a.post(send)
	a.qp.Advance(1 << 20)
	a.completes(verbs.StatusSuccess)
	if !a.qp.Held() {
		t.Fatal("nothing waits for room")
	}
	a.qp.Stall()
	a.completes(verbs.StatusSuccess)
	a.drops(DropStalled, 1)
	a.post(send)
	a.qp.Advance(1 << 20)
	a.completes(verbs.StatusSuccess)
	a.drops(DropStalled, 2)
	if a.qp.Held() {
		t.Error("something waits still")
	}
	settle(a, b)
	b.drops(dropNoReceive, 2) // the second one is cut short
	b.recv(1, 0, 40_000)
	for range 3 {
		a.post(send)
	}
	a.qp.Advance(1 << 20)
	if !a.qp.Held() {
		t.Error("what finds no room is dropped, though the peer goes on")
	}
	settle(a, b)
	a.completes(verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess)
	b.completes(verbs.StatusSuccess)
	a.drops(DropStalled, 2)
}

// TestUnreliableAbsent has the peer end, or never come: messages to it are dropped.
func TestUnreliableAbsent(t *testing.T) {
	a, b := newPairOf(t, verbs.UC, true)
	send := verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 100_000)}}
	a.post(send)
	a.qp.Advance(1 << 20)
	if !a.qp.DropPeer() || a.qp.Up() {
		t.Fatal("the peer is still there")
	}
	a.completes(verbs.StatusSuccess)
	a.post(send)
	a.completes(verbs.StatusSuccess)
	a.drops(DropNobody, 2)
	b.qp.Destroy()

	c := newSide(t, 4, verbs.UC)
	c.qp.SetState(verbs.StateRTS)
	c.post(send)
	c.completes()
	if !c.qp.Waiting() {
		t.Error("nothing waits for the peer")
	}
	c.qp.Lost(false)
	c.completes(verbs.StatusSuccess)
	c.drops(DropNobody, 1)
	if c.qp.State() != verbs.StateRTS {
		t.Errorf("the queue pair is in %v", c.qp.State())
	}
}

// TestUnreliableRules has a peer send messages that a queue pair of UC never sends.
func TestUnreliableRules(t *testing.T) {
	for _, k := range []kind{opRead, opAtomic, opStore, opFlush, opRef | first | last, opFetch, opWriteRef, opData,
		opSend} {
		a, b := newPairOf(t, verbs.UC, true)
		r := b.peer.requests
		if k == opData {
			r = b.peer.responses
		}
		if m, err := r.Reserve(64, uint32(k)); m == nil || err != nil {
			t.Fatal(err)
		}
		r.Publish()
		a.step()
		if a.qp.State() != verbs.StateError {
			t.Errorf("after message %#x the queue pair is in %v", k, a.qp.State())
		}
	}
}
