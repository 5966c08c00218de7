// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

const all = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic

// side is one end of a connection.
type side struct {
	t       testing.TB
	dev     *Device
	lane    Lane
	qp      *QP
	cq      *queue.CQ
	peer    *Peer
	segment []byte // this side's part of the connection
	region  *memory.Region
	dir     *Publisher
	mapped  peerMemory // the other side's memory that this side has mapped
}

// peerMemory is memory of a peer.
type peerMemory struct {
	dir        *Lookup
	segments   map[uint64][]byte
	readOnly   bool
	cross      func(local []byte, addr uint64, write bool) bool
	generation uint64
	quiesced   int
	looked     func() // after a lookup
}

func (m *peerMemory) Directory() *Lookup { return m.dir }
func (m *peerMemory) Segment(number uint64) ([]byte, bool) {
	return m.segments[number], !m.readOnly && number != sealed
}
func (m *peerMemory) Generation() uint64 {
	if m.looked != nil {
		m.looked()
	}
	return m.generation
}
func (m *peerMemory) Quiesce()      { m.quiesced++ }
func (m *peerMemory) Crosses() bool { return m.cross != nil }
func (m *peerMemory) Cross(local []byte, addr uint64, write bool) bool {
	return m.cross(local, addr, write)
}
func (s *side) remote(off int) verbs.Remote {
	return verbs.Remote{Addr: s.region.Addr() + uint64(off), Key: s.region.Key()}
}
func (s *side) sge(off, n int) verbs.SGE {
	return verbs.SGE{Addr: s.region.Addr() + uint64(off), Length: uint32(n), LKey: s.region.Key()}
}
func (s *side) entry(access verbs.Access) Entry {
	return Entry{Key: uint32(s.region.Key()), Access: uint32(access), Segment: 1, Base: s.region.Addr(),
		Length: uint64(len(s.region.Bytes()))}
}

// sealed is the number of a segment that peers cannot map for writing.
const sealed = 2

const regionBytes = 200 << 10

func newSide(t testing.TB, num verbs.QPN, typ verbs.QPType) *side {
	t.Helper()
	table := memory.NewTable(rand.New(rand.NewPCG(uint64(num), 1)).Uint32)
	s := &side{t: t, dev: &Device{Device: queue.Device{Memory: table, MaxMsgSize: 1 << 30},
		Resolve: func(*verbs.AHAttr) error { return nil }}}
	s.dev.Ports = []queue.Port{{Num: 1, MTU: 4096, PKeys: []verbs.PKey{0xffff}}}
	s.cq = queue.NewCQ(256, false, driver.CQEvents{Completion: func() {}, Error: func() {}})
	s.qp = New(s.dev, &s.lane, queue.Config{Num: num, Type: typ, PD: 1, SendCQ: s.cq, RecvCQ: s.cq, SignalAll: true,
		Recv: &queue.RecvQueue{PD: 1, MaxWR: 64, MaxSGE: 4},
		Caps: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 256}})
	if err := s.qp.Modify(&verbs.QPAttr{State: verbs.StateInit, Port: 1, Access: all},
		verbs.MaskState|verbs.MaskPKeyIndex|verbs.MaskPort|verbs.MaskAccess); err != nil {
		t.Fatal(err)
	}
	r, err := table.Register(1, make([]byte, regionBytes), all)
	if err != nil {
		t.Fatal(err)
	}
	s.region, s.segment = r, make([]byte, SegmentBytes)
	s.mapped.segments = map[uint64][]byte{}
	dir := make([]byte, DirectorySize(64))
	s.dir = NewPublisher(dir)
	return s
}

// newPair connects two sides. With shared, each has the other's region mapped.
func newPair(t testing.TB, shared bool) (a, b *side) { return newPairOf(t, verbs.RC, shared) }

func newPairOf(t testing.TB, typ verbs.QPType, shared bool) (a, b *side) {
	t.Helper()
	a, b = newSide(t, 2, typ), newSide(t, 3, typ)
	for _, c := range [][2]*side{{a, b}, {b, a}} {
		own, other := c[0], c[1]
		own.mapped.dir = NewLookup(other.dir.mem)
		if shared {
			other.dir.Publish(other.entry(all))
			own.mapped.segments[1] = other.region.Bytes()
		}
		var err error
		if own.peer, err = NewPeer(own.segment, other.segment, &own.mapped); err != nil {
			t.Fatal(err)
		}
		if !own.qp.Begin(own.peer, 4, 4) {
			t.Fatal("the queue pair takes no peer")
		}
	}
	return a, b
}

func (s *side) post(wr verbs.SendWR) {
	s.t.Helper()
	if _, err := s.qp.Post([]verbs.SendWR{wr}, false); err != nil {
		s.t.Fatal(err)
	}
}

func (s *side) recv(id uint64, off, n int) {
	s.t.Helper()
	if _, err := s.qp.PostRecv([]verbs.RecvWR{{ID: id, SGL: []verbs.SGE{s.sge(off, n)}}}); err != nil {
		s.t.Fatal(err)
	}
	s.qp.Resume()
}

// step receives and sends, as a pass of a device does.
func (s *side) step() {
	s.qp.Receive(1 << 20)
	s.qp.Advance(1 << 20)
	s.qp.Rings()
}

// settle has both sides work until nothing happens.
func settle(a, b *side) {
	for range 2000 {
		a.step()
		b.step()
	}
}

// completions returns the completions so far.
func (s *side) completions() []verbs.WC {
	var list []verbs.WC
	for _, c := range s.lane.Outbox.Completions {
		list = append(list, c.WC)
	}
	s.lane.Outbox.Reset()
	return list
}

// completes checks the statuses of completions, in order.
func (s *side) completes(want ...verbs.Status) []verbs.WC {
	s.t.Helper()
	list := s.completions()
	for i, wc := range list {
		if i >= len(want) || wc.Status != want[i] {
			s.t.Fatalf("%d completions, the one with %d says %v; want %v", len(list), i, wc.Status, want)
		}
	}
	if len(list) != len(want) {
		s.t.Fatalf("%d completions, want %v", len(list), want)
	}
	return list
}

func pattern(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i*7+i>>8) + seed
	}
}

// TestOperations carries out every operation, in shared memory and through the target.
func TestOperations(t *testing.T) {
	for _, shared := range []bool{true, false} {
		for _, n := range []int{0, 1, 8, 4096, piece, piece + 1, 100_000} {
			a, b := newPair(t, shared)
			pattern(a.region.Bytes()[:n], 1)
			a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, n)}, Remote: b.remote(0)})
			a.post(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(100_000, n)}, Remote: b.remote(0)})
			a.qp.Advance(1 << 20)
			if own := len(a.completions()); shared && own != 2 {
				t.Fatalf("%d bytes: the target did nothing, and %d operations have completed", n, own)
			}
			settle(a, b)
			if !shared && n > 0 && a.lane.Counters.Asked != 2 {
				t.Errorf("%d operations went through the target", a.lane.Counters.Asked)
			}
			a.completions()
			if !bytes.Equal(a.region.Bytes()[:n], b.region.Bytes()[:n]) ||
				!bytes.Equal(a.region.Bytes()[100_000:][:n], b.region.Bytes()[:n]) {
				t.Errorf("%d bytes, shared %v: not what was written", n, shared)
			}
			b.recv(7, 100_000, n)
			b.recv(8, 0, 0)
			a.post(verbs.SendWR{Op: verbs.OpSendImm, Imm: 77, Flags: verbs.Solicited, SGL: []verbs.SGE{a.sge(0, n)}})
			a.post(verbs.SendWR{Op: verbs.OpWriteImm, Imm: 78, SGL: []verbs.SGE{a.sge(0, n)}, Remote: b.remote(0)})
			settle(a, b)
			a.completes(verbs.StatusSuccess, verbs.StatusSuccess)
			got := b.completes(verbs.StatusSuccess, verbs.StatusSuccess)
			if got[0].ByteLen != uint32(n) || got[0].Imm != 77 || got[0].ID != 7 || got[0].Op != verbs.WCRecv {
				t.Errorf("the SEND of %d bytes is received as %+v", n, got[0])
			}
			if got[1].ByteLen != uint32(n) || got[1].Imm != 78 || got[1].ID != 8 || got[1].Op != verbs.WCRecvWriteImm {
				t.Errorf("the WRITE of %d bytes is announced as %+v", n, got[1])
			}
			if !bytes.Equal(a.region.Bytes()[:n], b.region.Bytes()[100_000:][:n]) {
				t.Errorf("%d bytes: not what was sent", n)
			}
		}
	}
}

// TestAtomics has both sides work on one word, each in its own way.
func TestAtomics(t *testing.T) {
	for _, shared := range []bool{true, false} {
		a, b := newPair(t, shared)
		word := b.region.Bytes()[64:]
		binary.NativeEndian.PutUint64(word, 10)
		a.post(verbs.SendWR{Op: verbs.OpFetchAdd, Add: 5, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(64)})
		a.post(verbs.SendWR{Op: verbs.OpCompareSwap, Compare: 15, Swap: 20, SGL: []verbs.SGE{a.sge(8, 8)},
			Remote: b.remote(64)})
		a.post(verbs.SendWR{Op: verbs.OpCompareSwap, Compare: 15, Swap: 30, SGL: []verbs.SGE{a.sge(16, 8)},
			Remote: b.remote(64)})
		settle(a, b)
		a.completes(verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess)
		for i, want := range []uint64{10, 15, 20} {
			if got := binary.NativeEndian.Uint64(a.region.Bytes()[8*i:]); got != want {
				t.Errorf("shared %v: operation %d found %d, want %d", shared, i, got, want)
			}
		}
		if got := binary.NativeEndian.Uint64(word); got != 20 {
			t.Errorf("shared %v: the word is %d", shared, got)
		}
		a.post(verbs.SendWR{Op: verbs.OpFetchAdd, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(65)})
		settle(a, b)
		a.completes(verbs.StatusRemoteInvalidRequestError)
	}
}

// TestOrder posts operations on memory that the initiator reaches by itself behind messages that the target has not
// taken: none is carried out before them, long READs are by the initiator all the same.
func TestOrder(t *testing.T) {
	const long = 100_000
	for name, before := range map[string]func(a, b *side) verbs.SendWR{
		"SEND": func(a, b *side) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 8)}}
		},
		"long SEND": func(a, b *side) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, long)}}
		},
		"WRITE with immediate": func(a, b *side) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpWriteImm, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(0)}
		},
		"WRITE that the target carries out": func(a, b *side) verbs.SendWR {
			other, err := b.dev.Memory.Register(1, make([]byte, 4096), all)
			if err != nil {
				t.Fatal(err)
			}
			return verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 8)},
				Remote: verbs.Remote{Addr: other.Addr(), Key: other.Key()}}
		},
	} {
		for _, c := range []struct {
			op   verbs.SendOp
			n    int
			here bool
		}{{verbs.OpWrite, 8, false}, {verbs.OpWrite, long, false}, {verbs.OpWriteImm, long, false},
			{verbs.OpRead, 8, false}, {verbs.OpRead, long, true},
			{verbs.OpFetchAdd, 8, false}, {verbs.OpAtomicWrite, 8, false}} {
			a, b := newPair(t, true)
			pattern(a.region.Bytes()[:long], 9)
			a.post(before(a, b))
			a.post(verbs.SendWR{Op: c.op, Add: 1, SGL: []verbs.SGE{a.sge(0, c.n)}, Remote: b.remote(long)})
			was := bytes.Clone(a.region.Bytes())
			for range 3 {
				a.step()
			}
			if !bytes.Equal(b.region.Bytes()[long:], make([]byte, regionBytes-long)) ||
				!bytes.Equal(a.region.Bytes(), was) {
				t.Errorf("a %v of %d bytes has overtaken a %s", c.op, c.n, name)
			}
			a.completes()
			for i := range uint64(2) {
				b.recv(i, 0, long)
			}
			asked := a.lane.Counters.Asked
			settle(a, b)
			a.completes(verbs.StatusSuccess, verbs.StatusSuccess)
			if c.op != verbs.OpRead && bytes.Equal(b.region.Bytes()[long:][:8], make([]byte, 8)) {
				t.Errorf("a %v of %d bytes behind a %s was not carried out", c.op, c.n, name)
			}
			if here := a.lane.Counters.Asked == asked && a.lane.Counters.Direct > 0; c.here != here && asked == 0 {
				t.Errorf("a %v of %d bytes behind a %s was carried out by the initiator: %v", c.op, c.n, name, here)
			}
		}
	}
}

// TestGate holds that the initiator does not carry out operations by itself that the target's queue pair does not
// allow.
func TestGate(t *testing.T) {
	a, b := newPair(t, true)
	if err := b.qp.Modify(&verbs.QPAttr{Access: verbs.RemoteRead}, verbs.MaskAccess); err != nil {
		t.Fatal(err)
	}
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(0)})
	a.qp.Advance(1 << 20)
	a.completes(verbs.StatusSuccess)
	a.region.Bytes()[0] = 1
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(0)})
	settle(a, b)
	a.completes(verbs.StatusRemoteInvalidRequestError)
	if b.region.Bytes()[0] != 0 {
		t.Error("it was written to")
	}
	if a.qp.State() != verbs.StateError || b.qp.State() != verbs.StateError {
		t.Errorf("the queue pairs are in %v and %v", a.qp.State(), b.qp.State())
	}

	a, b = newPair(t, true)
	if err := b.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	a.region.Bytes()[0] = 1
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(0)})
	settle(a, b)
	if b.region.Bytes()[0] != 0 {
		t.Error("the memory of a queue pair in ERR was written to")
	}
	if !a.peer.Left() {
		t.Error("the peer does not see that it has left")
	}
	a.qp.Lost(a.peer.Left())
	a.completes(verbs.StatusWRFlushError)
}

// TestReadOnly holds that an initiator does not write to memory that it has mapped read-only, even if the
// directory allows that, and asks the owner.
func TestReadOnly(t *testing.T) {
	a, b := newPair(t, true)
	a.mapped.readOnly = true
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(0)})
	settle(a, b)
	a.completes(verbs.StatusSuccess)
	if a.lane.Counters.Asked != 1 || a.lane.Counters.Direct != 0 {
		t.Errorf("%d asked, %d done here", a.lane.Counters.Asked, a.lane.Counters.Direct)
	}
}

// TestCross has an initiator work in memory that is not mapped here.
func TestCross(t *testing.T) {
	a, b := newPair(t, false)
	b.dir.Publish(Entry{Key: uint32(b.region.Key()), Access: uint32(all), Base: b.region.Addr(), Length: regionBytes,
		Memory: 1 << 20})
	working, refuse := 0, false
	a.mapped.cross = func(local []byte, addr uint64, write bool) bool {
		if b.peer.Work()%2 == 1 {
			working++
		}
		if refuse {
			return false
		}
		if mem := b.region.Bytes()[addr-1<<20:][:len(local)]; write {
			copy(mem, local)
		} else {
			copy(local, mem)
		}
		return true
	}
	pattern(a.region.Bytes()[:90_000], 3)
	sgl := []verbs.SGE{a.sge(0, 10), a.sge(10, 69_990), a.sge(70_000, 20_000)}
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: sgl, Remote: b.remote(64)})
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(90_000, 90_000)}, Remote: b.remote(64)})
	a.qp.Advance(1 << 20)
	a.completes(verbs.StatusSuccess, verbs.StatusSuccess)
	if !bytes.Equal(a.region.Bytes()[:90_000], b.region.Bytes()[64:][:90_000]) ||
		!bytes.Equal(a.region.Bytes()[90_000:][:90_000], a.region.Bytes()[:90_000]) {
		t.Error("not what was written")
	}
	if working != 4 || b.peer.Work() != 4 {
		t.Errorf("%d of 4 copies were made at work, and the work is at %d, want 4", working, b.peer.Work())
	}

	// A word has to appear as a whole, and atomic operations to be atomic: the target does these.
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(0)})
	a.post(verbs.SendWR{Op: verbs.OpFetchAdd, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(8)})
	settle(a, b)
	a.completes(verbs.StatusSuccess, verbs.StatusSuccess)
	if working != 4 || a.lane.Counters.Asked != 2 {
		t.Errorf("%d copies, %d asked", working, a.lane.Counters.Asked)
	}

	// The target carries out operations that the system refuses the initiator.
	refuse = true
	clear(b.region.Bytes())
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: sgl, Remote: b.remote(64)})
	settle(a, b)
	a.completes(verbs.StatusSuccess)
	if !bytes.Equal(a.region.Bytes()[:90_000], b.region.Bytes()[64:][:90_000]) {
		t.Error("not what was written")
	}
}

// TestWithdrawn has a region end between two operations, and in the middle of one.
func TestWithdrawn(t *testing.T) {
	a, b := newPair(t, true)
	write := verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, regionBytes)}, Remote: b.remote(0)}
	a.post(write)
	settle(a, b)
	a.completes(verbs.StatusSuccess)
	b.dir.Withdraw(uint32(b.region.Key()))
	clear(b.region.Bytes())
	if err := b.dev.Memory.Deregister(b.region); err != nil {
		t.Fatal(err)
	}
	a.post(write)
	settle(a, b)
	a.completes(verbs.StatusRemoteAccessError)
}

// TestRefused has the target refuse requests as the IBTA demands, with its statuses.
func TestRefused(t *testing.T) {
	for what, c := range map[string]struct {
		wr   func(a, b *side) verbs.SendWR
		want verbs.Status
	}{
		"key": {func(a, b *side) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 8)},
				Remote: verbs.Remote{Addr: b.region.Addr(), Key: 1 << 8}}
		}, verbs.StatusRemoteAccessError},
		"range": {func(a, b *side) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(regionBytes - 7)}
		}, verbs.StatusRemoteAccessError},
		"length": {func(a, b *side) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 9)}}
		}, verbs.StatusRemoteInvalidRequestError},
	} {
		a, b := newPair(t, true)
		b.recv(1, 0, 8)
		a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(0)})
		a.post(c.wr(a, b))
		a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(0)})
		settle(a, b)
		a.completes(verbs.StatusSuccess, c.want, verbs.StatusWRFlushError)
		if b.qp.State() != verbs.StateError || !b.qp.Ending() {
			t.Errorf("%s: the target is in %v", what, b.qp.State())
		}
		why := b.qp.Failure()
		if f := a.qp.Failure(); f == nil || why == nil || f.Reason != verbs.ReasonPeerRefused ||
			f.Detail != why.Reason.String() {
			t.Errorf("%s: the initiator knows %v, the target %v", what, f, why)
		}
	}
}

// FuzzPeer has a peer write anything to the memory that it shares: this side stays within its own
// memory, and comes to an end.
func FuzzPeer(f *testing.F) {
	f.Add(uint32(0), []byte{}, uint64(0), uint64(0))
	f.Add(uint32(0), []byte{0}, uint64(0), uint64(0))
	f.Add(uint32(opSend|first|last), []byte{0, 0, 0, 0, 0, 0, 0, 0, 1}, uint64(24), uint64(0))
	f.Add(uint32(opWrite|last), make([]byte, 40), uint64(48), uint64(8))
	f.Add(uint32(opRead), make([]byte, 16), uint64(24), uint64(0))
	f.Add(uint32(opAtomic), make([]byte, 32), uint64(40), uint64(0))
	f.Add(uint32(opImm), make([]byte, 8), uint64(16), uint64(0))
	f.Add(uint32(opRef|first|last), make([]byte, 24), uint64(32), uint64(0))
	f.Add(uint32(opFetch), make([]byte, 16), uint64(24), uint64(0))
	f.Add(uint32(opWriteRef), make([]byte, toFields), uint64(toFields+8), uint64(0))
	f.Add(uint32(opData|last), make([]byte, 8), uint64(16), uint64(1<<40))
	f.Add(uint32(opRefused), make([]byte, 4), uint64(16), uint64(0))
	f.Add(uint32(opStore), make([]byte, 24), uint64(32), uint64(0))
	f.Add(uint32(opFlush), []byte{0, 0, 0, 0, 3, 1, 0, 0, 23: 0}, uint64(32), uint64(0))
	f.Add(uint32(opRefused), []byte{10, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, uint64(16), uint64(0))
	f.Fuzz(func(t *testing.T, k uint32, body []byte, tail, head uint64) {
		for _, typ := range []verbs.QPType{verbs.RC, verbs.UC} {
			receiveAny(t, typ, k, slices.Clone(body), tail, head)
		}
	})
}

// receiveAny is one run of FuzzPeer.
func receiveAny(t *testing.T, typ verbs.QPType, k uint32, body []byte, tail, head uint64) {
	t.Helper()
	a, b := newPairOf(t, typ, true)
	a.dev.Persist = func(fl *Flush) { fl.Done(true) }
	for i := range uint64(4) {
		a.recv(i, int(i)*100, 50)
	}
	// The key is known to the peer.
	if len(body) >= 16 && kind(k).op() != opSend {
		binary.NativeEndian.PutUint32(body, uint32(a.region.Key()))
		binary.NativeEndian.PutUint64(body[8:], a.region.Addr()+binary.NativeEndian.Uint64(body[8:])%(2*regionBytes))
	}
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 8)}})
	b.dir.Withdraw(uint32(b.region.Key())) // so that the target is asked
	ask := verbs.OpRead
	if typ == verbs.UC {
		ask = verbs.OpWrite
	}
	a.post(verbs.SendWR{Op: ask, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(0)})
	a.qp.Advance(1 << 20)
	for _, ring := range []int{atRequests, atResponses} {
		at := b.segment[ring:]
		binary.NativeEndian.PutUint32(at[ringHeader:], there|uint32(len(body)))
		binary.NativeEndian.PutUint32(at[ringHeader+4:], k)
		copy(at[ringHeader+recordHeader:][:responseBytes-recordHeader], body)
		binary.NativeEndian.PutUint64(at[128:], tail)
		binary.NativeEndian.PutUint64(a.segment[ring:], head)
	}
	for range 100 {
		a.step()
	}
	if s := a.qp.State(); s != verbs.StateError && s != verbs.StateRTS {
		t.Errorf("the queue pair is in %v", s)
	}
}

// TestBlocked holds that a side sleeps while its peer's messages have to wait: for a receive, for room
// for an answer, or for ever.
func TestBlocked(t *testing.T) {
	send := func(a, b *side) {
		t.Helper()
		a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 8)}})
		a.qp.Advance(1 << 20)
		b.step()
		if !b.peer.Sleep() {
			t.Error("a message that has to wait keeps the target awake")
		}
	}
	a, b := newPair(t, true)
	send(a, b)
	send(a, b)
	b.recv(1, 0, 8)
	b.recv(2, 8, 8)
	settle(a, b)
	b.completes(verbs.StatusSuccess, verbs.StatusSuccess)
	a.completes(verbs.StatusSuccess, verbs.StatusSuccess)

	a, b = newPair(t, false)
	b.qp.Attr().MaxDestRdAtomic = 1
	b.recv(1, 0, 8)
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(0, regionBytes)}, Remote: b.remote(0)})
	a.qp.Advance(1 << 20)
	b.step()
	send(a, b)
	settle(a, b)
	a.completes(verbs.StatusSuccess, verbs.StatusSuccess)

	a, b = newPair(t, false)
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(0, regionBytes)}, Remote: b.remote(0)})
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: verbs.Remote{Key: 1 << 8}})
	a.qp.Advance(1 << 20)
	b.step() // the answer to the WRITE waits for that to the READ
	if b.qp.State() != verbs.StateError || b.qp.Ending() {
		t.Fatalf("the target is in %v", b.qp.State())
	}
	send(a, b)
}

// TestEmptyAnswers has a peer send answers without data, which never end, and holds that this side does
// not handle them for ever.
func TestEmptyAnswers(t *testing.T) {
	a, b := newPair(t, false)
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(0)})
	a.qp.Advance(1 << 20)
	ring := b.segment[atResponses:]
	for at := ringHeader; at < ringHeader+responseBytes; at += recordHeader {
		binary.NativeEndian.PutUint32(ring[at:], there)
		binary.NativeEndian.PutUint32(ring[at+4:], uint32(opData))
	}
	binary.NativeEndian.PutUint64(ring[128:], responseBytes)
	if count, _ := a.qp.Receive(1024); count != 1024/recordHeader {
		t.Errorf("%d messages were handled in one go, want %d", count, 1024/recordHeader)
	}
}

// reconnect resets both sides, and connects them with new segments.
func reconnect(t *testing.T, a, b *side) {
	t.Helper()
	a.segment, b.segment = make([]byte, SegmentBytes), make([]byte, SegmentBytes)
	for _, c := range [][2]*side{{a, b}, {b, a}} {
		own, other := c[0], c[1]
		for _, attr := range []verbs.QPAttr{{State: verbs.StateReset}, {State: verbs.StateInit, Port: 1, Access: all}} {
			mask := verbs.MaskState
			if attr.State == verbs.StateInit {
				mask |= verbs.MaskPKeyIndex | verbs.MaskPort | verbs.MaskAccess
			}
			if err := own.qp.Modify(&attr, mask); err != nil {
				t.Fatal(err)
			}
		}
		own.lane.Outbox.Reset()
		var err error
		if own.peer, err = NewPeer(own.segment, other.segment, &own.mapped); err != nil {
			t.Fatal(err)
		}
		if !own.qp.Begin(own.peer, 4, 4) {
			t.Fatal("the queue pair takes no peer")
		}
	}
}

// TestReset uses queue pairs again, and holds that nothing is left of the connection before.
func TestReset(t *testing.T) {
	a, b := newPair(t, false)
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(0, regionBytes)}, Remote: b.remote(0)})
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: verbs.Remote{Key: 1 << 8}})
	a.qp.Advance(1 << 20)
	b.step() // the READ is half answered, and the refusal of the WRITE waits
	reconnect(t, a, b)
	a.recv(1, 0, 8)
	b.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{b.sge(0, 8)}})
	settle(a, b)
	a.completes(verbs.StatusSuccess)
	b.completes(verbs.StatusSuccess)

	a, b = newPair(t, true)
	b.dir.Withdraw(uint32(b.region.Key()))
	for range 10 {
		a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 4096)}, Remote: b.remote(0)})
	}
	settle(a, b)
	b.dir.Publish(b.entry(all))
	reconnect(t, a, b)
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(0)})
	a.qp.Advance(1 << 20)
	a.completes(verbs.StatusSuccess) // by this side alone
}

// TestReadAfterSend reads a receive's memory after a SEND into it.
func TestReadAfterSend(t *testing.T) {
	a, b := newPair(t, true)
	pattern(a.region.Bytes()[:100], 5)
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 100)}})
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(1000, 100)}, Remote: b.remote(0)})
	a.qp.Advance(1 << 20)
	b.recv(1, 0, 100)
	settle(a, b)
	a.completes(verbs.StatusSuccess, verbs.StatusSuccess)
	if !bytes.Equal(a.region.Bytes()[1000:1100], a.region.Bytes()[:100]) {
		t.Error("the READ has overtaken the SEND")
	}
}

// TestQuiet holds that a side does not go on looking whether its peer has taken messages, where no completion is
// waited for, and that it looks again when work requests need the room.
func TestQuiet(t *testing.T) {
	a, b := newPair(t, false)
	a.qp.SignalAll = false
	wr := verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 8)}}
	short := func(flags verbs.SendFlags) {
		t.Helper()
		wr.Flags = flags
		if _, ok := a.qp.SendShort(&wr); !ok {
			t.Fatal("a short SEND has to be posted")
		}
	}
	short(verbs.Signaled)
	short(0)
	b.recv(1, 0, 8)
	b.step()
	if !a.peer.Pending() {
		t.Error("nobody looks for the completion")
	}
	if a.qp.Receive(1 << 20); a.qp.Due() {
		t.Error("there is something to advance")
	}
	a.completes(verbs.StatusSuccess)
	b.recv(2, 0, 8)
	b.step()
	if a.peer.Pending() {
		t.Error("it looks for what nobody waits for")
	}
	var s verbs.QPStats
	if a.qp.Stats(&s); s.SendQueue != 0 || s.InFlight != 0 {
		t.Errorf("%d work requests and %d bytes count as unfinished", s.SendQueue, s.InFlight)
	}
	for range 3 * a.qp.Caps.MaxSendWR {
		short(0)
		b.recv(3, 0, 8)
		b.step()
	}
	if n := a.qp.sq.Len(); n > reapFrom+reapEvery {
		t.Errorf("%d finished work requests are in the send queue", n)
	}
}
