// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestAnswerNobodyAskedFor has a peer answer though nothing was asked, or not that: the connection ends.
func TestAnswerNobodyAskedFor(t *testing.T) {
	for _, k := range []kind{opData | last, opResult | last} {
		for _, asked := range []bool{false, true} {
			a, b := newPair(t, false)
			if asked { // the other kind of answer
				wr := verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(0)}
				if k.op() == opData {
					wr.Op = verbs.OpFetchAdd
				}
				a.post(wr)
				a.qp.Advance(1 << 20)
			}
			if body, err := b.peer.responses.Reserve(8, uint32(k)); err != nil || body == nil {
				t.Fatal(err)
			}
			b.peer.responses.Publish()
			a.step()
			if a.qp.State() != verbs.StateError || a.lane.Counters.Lost != 1 {
				t.Errorf("message %d, another one asked for: %v: the queue pair is in %v, %d connections are lost",
					k.op(), asked, a.qp.State(), a.lane.Counters.Lost)
			}
		}
	}
}

// TestAtomicUnknown has a peer ask for an atomic operation that is none: the connection ends, and the word stays.
func TestAtomicUnknown(t *testing.T) {
	a, b := newPair(t, false)
	body, err := b.peer.requests.Reserve(atomicFields, uint32(opAtomic))
	if err != nil || body == nil {
		t.Fatal(err)
	}
	put32(body, 0, uint32(a.region.Key()))
	put32(body, 4, uint32(verbs.OpWrite))
	put64(body, 8, a.region.Addr())
	put64(body, 24, 1)
	b.peer.requests.Publish()
	a.step()
	if a.qp.State() != verbs.StateError || a.lane.Counters.Lost != 1 || a.region.Bytes()[0] != 0 {
		t.Errorf("the queue pair is in %v, %d connections are lost, the word begins with %d",
			a.qp.State(), a.lane.Counters.Lost, a.region.Bytes()[0])
	}
}

// TestUnheard has a peer go that has sent a message behind a READ: the response is dropped, and the message is
// received.
func TestUnheard(t *testing.T) {
	a, b := newPair(t, false)
	b.qp.Attr().MaxDestRdAtomic = 1
	b.recv(1, 0, 8)
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(0, regionBytes)}, Remote: b.remote(0)})
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 8)}})
	a.qp.Advance(1 << 20)
	b.step()
	b.completes()
	b.qp.DropResponses()
	b.qp.Receive(1 << 20)
	b.completes(verbs.StatusSuccess)
}

// TestShortRefused has the receiver refuse a short SEND: the work request fails with the receiver's status, as a
// posted one does.
func TestShortRefused(t *testing.T) {
	a, b := newPair(t, false)
	b.recv(1, 0, 8)
	if _, ok := a.qp.SendShort(&verbs.SendWR{ID: 5, Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 9)}}); !ok {
		t.Fatal("a short SEND has to be posted")
	}
	settle(a, b)
	if wc := a.completes(verbs.StatusRemoteInvalidRequestError)[0]; wc.ID != 5 {
		t.Errorf("work request %d fails", wc.ID)
	}
	b.completes(verbs.StatusLocalLengthError)
}

// TestEmptyRead reads no bytes from a peer that allows no READs. Its status does not depend on whether a
// message before it has been taken already.
func TestEmptyRead(t *testing.T) {
	var alone verbs.Status
	for _, behind := range []bool{false, true} {
		a, b := newPair(t, true)
		if err := b.qp.Modify(&verbs.QPAttr{Access: verbs.RemoteWrite}, verbs.MaskAccess); err != nil {
			t.Fatal(err)
		}
		a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 8)}})
		a.qp.Advance(1 << 20)
		if !behind {
			b.recv(1, 0, 8)
			settle(a, b)
			a.completes(verbs.StatusSuccess)
		}
		a.post(verbs.SendWR{ID: 2, Op: verbs.OpRead, Remote: b.remote(0)})
		a.qp.Advance(1 << 20)
		if behind {
			b.recv(1, 0, 8)
		}
		settle(a, b)
		list := a.completions()
		last := list[len(list)-1]
		if last.ID != 2 || behind && last.Status != alone {
			t.Errorf("the READ ends with %v, alone with %v", last.Status, alone)
		}
		alone = last.Status
	}
}

// TestAtomicWriteCounts holds that an ATOMIC WRITE counts as one message of 8 bytes, at the target too.
func TestAtomicWriteCounts(t *testing.T) {
	a, b := newPair(t, false)
	a.post(verbs.SendWR{Op: verbs.OpAtomicWrite, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(64)})
	settle(a, b)
	a.completes(verbs.StatusSuccess)
	var s verbs.QPStats
	if b.qp.Stats(&s); s.RecvMessages != 1 || s.RecvBytes != 8 {
		t.Errorf("%d messages of %d bytes were received", s.RecvMessages, s.RecvBytes)
	}
}

// TestManyStrides writes and reads, by this side alone, more bytes than one stride, and no multiple of it.
func TestManyStrides(t *testing.T) {
	const n = 3*stride + 1000
	a, b := newPair(t, true)
	own, err := a.dev.Memory.Register(1, make([]byte, 2*n), all)
	if err != nil {
		t.Fatal(err)
	}
	remote, err := b.dev.Memory.Register(1, make([]byte, n+8), all)
	if err != nil {
		t.Fatal(err)
	}
	b.dir.Publish(Entry{Key: uint32(remote.Key()), Access: uint32(all), Segment: 3, Base: remote.Addr(), Length: n + 8})
	a.mapped.segments[3] = remote.Bytes()
	mem := own.Bytes()
	pattern(mem[:n], 3)
	to := verbs.Remote{Addr: remote.Addr() + 4, Key: remote.Key()}
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{{Addr: own.Addr(), Length: n, LKey: own.Key()}},
		Remote: to})
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{{Addr: own.Addr() + n, Length: n, LKey: own.Key()}},
		Remote: to})
	for range 20 {
		a.qp.Advance(1)
	}
	a.completes(verbs.StatusSuccess, verbs.StatusSuccess)
	if !bytes.Equal(remote.Bytes()[4:][:n], mem[:n]) || !bytes.Equal(mem[n:], mem[:n]) {
		t.Error("not what was written")
	}
	if a.lane.Counters.Direct != 2 || a.lane.Counters.Asked != 0 {
		t.Errorf("%d done here, %d asked", a.lane.Counters.Direct, a.lane.Counters.Asked)
	}
}
