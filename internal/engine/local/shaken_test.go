// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Two queue pairs work with each other while the test changes words of all memory that they share, between any two
// passes. Neither may panic, nor write to memory that no region allows to write to, nor to the memory of a receive or
// a READ that has completed.

const (
	slotBytes  = stride + 1000 // a payload is copied in several passes
	slotCount  = 4
	guardBytes = 8 << 10
)

// shakenPattern is the content of the sources.
var shakenPattern = func() []byte {
	b := make([]byte, slotBytes)
	pattern(b, 9)
	return b
}()

// slot is memory that a work request writes to.
type slot struct {
	mem  []byte
	busy bool   // posted, and not completed
	then []byte // its bytes at the completion
}

// complete copies the memory when the work request completes.
func (s *slot) complete() { s.busy, s.then = false, append(s.then[:0], s.mem...) }

// shaken is one side.
type shaken struct {
	*side
	r        *rand.Rand
	inbox    *memory.Region // of the receives
	results  *memory.Region // of the READs
	source   *memory.Region // of the SENDs, which peers may read
	open     *memory.Region // that peers may write to by asking
	guard    *memory.Region // of nothing
	receives []slot
	reads    []slot
	flushes  []*Flush
}

// shakenMemory is the memory of a side's regions, which one conversation after the other uses.
type shakenMemory struct{ inbox, results, source, open, guard []byte }

func newShakenMemory() (both [2]shakenMemory) {
	for i := range both {
		both[i] = shakenMemory{make([]byte, slotCount*slotBytes), make([]byte, slotCount*slotBytes),
			bytes.Clone(shakenPattern), make([]byte, slotBytes), make([]byte, guardBytes)}
	}
	return both
}

func newShaken(s *side, mem *shakenMemory, r *rand.Rand) *shaken {
	k := &shaken{side: s, r: r}
	register := func(buf []byte, access verbs.Access) *memory.Region {
		m, err := s.dev.Memory.Register(1, buf, access)
		if err != nil {
			s.t.Fatal(err)
		}
		return m
	}
	slots := func(m *memory.Region) (all []slot) {
		for i := range slotCount {
			all = append(all, slot{mem: m.Bytes()[i*slotBytes:][:slotBytes]})
		}
		return all
	}
	k.inbox, k.results = register(mem.inbox, verbs.LocalWrite), register(mem.results, verbs.LocalWrite)
	k.receives, k.reads = slots(k.inbox), slots(k.results)
	k.guard, k.source = register(mem.guard, verbs.LocalWrite),
		register(mem.source, verbs.RemoteRead|verbs.FlushPersistent)
	k.open = register(mem.open, all)
	s.dev.Persist = func(f *Flush) { k.flushes = append(k.flushes, f) }
	s.qp.Attr().Access |= verbs.FlushGlobal | verbs.FlushPersistent
	return k
}

// tell publishes the source, which the peer has mapped, can copy from, or asks for.
func (k *shaken) tell(peer *shaken, how int) {
	e := Entry{Key: uint32(k.source.Key()), Access: uint32(verbs.RemoteRead), Base: k.source.Addr(), Length: slotBytes}
	switch how {
	case 0:
		e.Segment = sealed
		peer.mapped.segments[sealed] = k.source.Bytes()
	case 1:
		e.Memory = k.source.Addr()
		peer.mapped.cross = func(local []byte, addr uint64, write bool) bool {
			off := addr - k.source.Addr()
			if off > slotBytes || uint64(len(local)) > slotBytes-off || write {
				return false
			}
			copy(local, k.source.Bytes()[off:])
			return true
		}
	}
	k.dir.Publish(e)
}

// act posts something.
func (k *shaken) act(peer *shaken) {
	r := k.r
	if i := r.IntN(slotCount); !k.receives[i].busy && r.IntN(2) == 0 && k.qp.State() != verbs.StateError {
		k.check(&k.receives[i])
		n := slotBytes
		if r.IntN(40) == 0 {
			n = r.IntN(n)
		}
		sge := verbs.SGE{Addr: k.inbox.Addr() + uint64(i*slotBytes), Length: uint32(n), LKey: k.inbox.Key()}
		k.receives[i].busy = true
		fill(k.receives[i].mem, byte(r.Uint32()))
		k.qp.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGL: []verbs.SGE{sge}}})
		k.qp.Resume()
	}
	length := []int{r.IntN(16), r.IntN(2000), refFrom + r.IntN(stride), stride + r.IntN(1000)}[r.IntN(4)]
	wr := verbs.SendWR{ID: 1000, SGL: []verbs.SGE{{Addr: k.source.Addr(), Length: uint32(length),
		LKey: k.source.Key()}}, Remote: peer.remote(8 * r.IntN(64)), Imm: 7}
	at := -1
	switch wr.Op = []verbs.SendOp{verbs.OpSend, verbs.OpSend, verbs.OpSendImm, verbs.OpWrite, verbs.OpWriteImm,
		verbs.OpRead, verbs.OpRead, verbs.OpCompareSwap, verbs.OpFetchAdd, verbs.OpAtomicWrite,
		verbs.OpFlush}[r.IntN(11)]; wr.Op {
	case verbs.OpWrite, verbs.OpWriteImm:
		if r.IntN(2) == 0 { // by the target
			wr.Remote = verbs.Remote{Addr: peer.open.Addr(), Key: peer.open.Key()}
		} else {
			wr.SGL[0].Length = uint32(min(length, regionBytes-1000))
		}
	case verbs.OpFlush:
		wr.SGL, wr.FlushLevel, wr.FlushLen = nil, verbs.FlushToPersistent, 8
		wr.Remote = verbs.Remote{Addr: peer.source.Addr(), Key: peer.source.Key()}
	case verbs.OpAtomicWrite:
		wr.SGL[0].Length = 8
	case verbs.OpRead, verbs.OpCompareSwap, verbs.OpFetchAdd:
		if at = r.IntN(slotCount); k.reads[at].busy {
			return
		}
		k.check(&k.reads[at])
		n := min(length, regionBytes-1000)
		if wr.Op != verbs.OpRead {
			n = 8
		}
		wr.ID, wr.SGL[0] = uint64(2000+at), verbs.SGE{Addr: k.results.Addr() + uint64(at*slotBytes), Length: uint32(n),
			LKey: k.results.Key()}
		k.reads[at].busy = true
		fill(k.reads[at].mem, byte(r.Uint32()))
	}
	var wc verbs.WC
	if r.IntN(2) == 0 {
		short := wr.Op == verbs.OpSend || wr.Op == verbs.OpSendImm
		if short {
			if _, ok := k.qp.SendShort(&wr); ok {
				return
			}
		} else if _, ok := k.qp.Perform(&wr, &wc); ok {
			k.completed(&wc)
			return
		}
	}
	if n, _ := k.qp.Post([]verbs.SendWR{wr}, false); n == 0 && at >= 0 {
		k.reads[at].complete()
	}
}

// completed copies the memory of a work request when it completes.
func (k *shaken) completed(wc *verbs.WC) {
	var s *slot
	switch id := wc.ID; {
	case id < slotCount:
		s = &k.receives[id]
	case id >= 2000:
		s = &k.reads[id-2000]
	default:
		return
	}
	if !s.busy {
		k.t.Fatalf("%v: %v of work request %d has completed twice", k.qp.Num, wc.Op, wc.ID)
	}
	s.complete()
}

// pass receives and sends, as a pass of a device does.
func (k *shaken) pass() {
	budget := 1 + k.r.IntN(stride)
	k.qp.Receive(budget)
	k.qp.Advance(budget)
	k.qp.Rings()
	if len(k.flushes) > 0 && k.r.IntN(2) == 0 {
		k.flushes[0].Done(k.r.IntN(8) > 0)
		k.flushes = k.flushes[1:]
	}
	for i := range k.lane.Outbox.Completions {
		k.completed(&k.lane.Outbox.Completions[i].WC)
	}
	k.lane.Outbox.Reset()
}

// fill fills memory with a value that later writes change.
func fill(b []byte, v byte) {
	b[0] = v
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// check checks that the memory of a completed work request has not changed since.
func (k *shaken) check(s *slot) {
	if !s.busy && s.then != nil && !bytes.Equal(s.then, s.mem) {
		k.t.Fatalf("%v: memory of a work request was written to after it had completed", k.qp.Num)
	}
}

// checkAll checks all memory.
func (k *shaken) checkAll() {
	for i := range slotCount {
		k.check(&k.receives[i])
		k.check(&k.reads[i])
	}
	if !bytes.Equal(k.guard.Bytes(), make([]byte, guardBytes)) {
		k.t.Fatalf("%v: memory that no key allows was written to", k.qp.Num)
	}
	if !bytes.Equal(k.source.Bytes(), shakenPattern) {
		k.t.Fatalf("%v: memory that may only be read was written to", k.qp.Num)
	}
}

// shake changes a word of the memory that the two share: mostly one with a meaning.
func shake(r *rand.Rand, sides [2]*shaken) {
	i := r.IntN(2)
	k, other := sides[i], sides[1-i]
	mem := k.segment
	at := r.IntN(len(mem)/4) * 4
	v := anyWord(r)
	what := r.IntN(10)
	if other.qp.ref.phase != noRef {
		what = r.IntN(6)
	}
	switch what {
	case 0:
		at = r.IntN(atRequests/4) * 4 // the gate, and the words beside it
	case 1:
		at = []int{atRequests, atResponses}[r.IntN(2)] + r.IntN(ringHeader/4)*4
	case 2, 3, 4: // the message that has its turn, and the next ones
		at = inRing(atRequests, requestBytes, other.peer.inRequests.next+uint64(r.IntN(18)*4))
	case 5: // its kind
		at = inRing(atRequests, requestBytes, other.peer.inRequests.next+4)
		v = uint32([]kind{opSend, opRef, opWriteRef, opWrite, opImm, opRead, opFlush}[r.IntN(7)] | first | last)
	case 6:
		at = inRing(atResponses, responseBytes, other.peer.inResponses.next+uint64(r.IntN(4)*4))
	case 7:
		mem = k.dir.mem
		at = r.IntN(len(mem)/4) * 4
		if r.IntN(2) == 0 {
			mem = k.dir.slot(uint32(k.region.Key()), 0)
			at = r.IntN(len(mem)/4) * 4
		}
	}
	b := mem[at:][:4]
	if r.IntN(4) == 0 {
		v = binary.NativeEndian.Uint32(b) ^ 1<<r.IntN(32)
	}
	binary.NativeEndian.PutUint32(b, v)
}

// inRing returns where in a segment a position of a ring is.
func inRing(ring, capacity int, position uint64) int {
	return ring + ringHeader + int(position%uint64(capacity))
}

// anyWord returns a number, mostly one that means something.
func anyWord(r *rand.Rand) uint32 {
	return []uint32{r.Uint32(), r.Uint32N(64), r.Uint32N(slotBytes), there | r.Uint32N(100), there | r.Uint32N(1<<15),
		skipped | there}[r.IntN(6)]
}

// shakenRound is one conversation. It returns how many bytes have moved.
func shakenRound(t testing.TB, mem *[2]shakenMemory, seed uint64, typ verbs.QPType, rate int) uint64 {
	r := rand.New(rand.NewPCG(seed, 1))
	x, y := newPairOf(t, typ, seed%4 != 0)
	a, b := newShaken(x, &mem[0], r), newShaken(y, &mem[1], r)
	how := r.IntN(3)
	a.tell(b, how)
	b.tell(a, how)
	sides := [2]*shaken{a, b}
	for step := range 60 {
		for i, k := range sides {
			if r.IntN(3) > 0 {
				k.act(sides[1-i])
			}
			begun := rate > 0 && sides[1-i].qp.ref.phase != noRef // and the words that it depends on must not change
			for r.IntN(100) < rate || begun && r.IntN(2) == 0 {
				shake(r, sides)
				begun = false
			}
			k.pass()
		}
		if k := sides[r.IntN(2)]; step > 20 {
			switch r.IntN(200) {
			case 0:
				k.qp.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.MaskState)
			case 1:
				k.qp.Lost(r.IntN(2) == 0)
			case 2:
				k.qp.Deny()
			}
		}
		if a.qp.State() == verbs.StateError && b.qp.State() == verbs.StateError {
			break
		}
	}
	a.checkAll()
	b.checkAll()
	return a.lane.Counters.RecvBytes + b.lane.Counters.RecvBytes
}

// TestShaken is a second of FuzzShaken, and some seconds in long runs.
func TestShaken(t *testing.T) {
	rounds := uint64(250)
	if testrun.Long() {
		rounds = 2500
	}
	mem, moved := newShakenMemory(), uint64(0)
	for seed := range rounds {
		typ := verbs.RC
		if seed%5 == 4 {
			typ = verbs.UC
		}
		moved += shakenRound(t, &mem, seed, typ, int(seed%12))
	}
	if least := rounds * stride; moved < least {
		t.Errorf("%d bytes were moved, and %d are wanted: the queue pairs did hardly anything", moved, least)
	}
}

func FuzzShaken(f *testing.F) {
	f.Add(uint64(1), false, uint8(10))
	f.Add(uint64(2), true, uint8(30))
	mem := newShakenMemory()
	f.Fuzz(func(t *testing.T, seed uint64, unreliable bool, rate uint8) {
		typ := verbs.RC
		if unreliable {
			typ = verbs.UC
		}
		shakenRound(t, &mem, seed, typ, int(rate%90))
	})
}
