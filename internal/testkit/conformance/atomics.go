// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/binary"
	"math"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var atomicTests = []test{
	{name: "Atomic/CompareSwap", run: testCompareSwap, needs: []Ability{Atomics}},
	{name: "Atomic/FetchAdd", run: testFetchAdd, needs: []Ability{Atomics}},
	{name: "Atomic/Refused", run: testAtomicRefused, needs: []Ability{Atomics}},
	{name: "Atomic/Depth", run: testAtomicDepth, needs: []Ability{Atomics}},
	{name: "Atomic/Write", run: testAtomicWrite, needs: []Ability{AtomicFlush}},
	{name: "Atomic/Flush", run: testFlushOp, needs: []Ability{AtomicFlush}},
}

// word is v as it lies in memory.
func word(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }

// put writes a word into the end's region.
func (e *end) put(off int, v uint64) {
	e.mr.Do(func(b []byte) { binary.NativeEndian.PutUint64(b[off:], v) })
}

func testCompareSwap(t *T) {
	a, b := t.pair(setup{})
	b.put(16, 5)
	wc := a.do(verbs.SendWR{Op: verbs.OpCompareSwap, Compare: 5, Swap: 0x0102030405060708, SGL: a.sgl(0, 8),
		Remote: b.at(16)})
	if wc.Op != verbs.WCCompareSwap || wc.ByteLen != 8 {
		t.Errorf("completion %+v", wc)
	}
	a.same(0, word(5))
	b.same(16, word(0x0102030405060708))
	a.do(verbs.SendWR{Op: verbs.OpCompareSwap, Compare: 5, Swap: 9, SGL: a.sgl(8, 8), Remote: b.at(16)})
	a.same(8, word(0x0102030405060708))
	b.same(16, word(0x0102030405060708))
	b.same(8, word(0))
	b.same(24, word(0))
}

func testFetchAdd(t *T) {
	a, b := t.pair(setup{})
	b.put(8, math.MaxUint64-1)
	wc := a.do(verbs.SendWR{Op: verbs.OpFetchAdd, Add: 5, SGL: a.sgl(0, 8), Remote: b.at(8)})
	if wc.Op != verbs.WCFetchAdd || wc.ByteLen != 8 {
		t.Errorf("completion %+v", wc)
	}
	a.same(0, word(math.MaxUint64-1))
	b.same(8, word(3)) // it wraps
	b.same(0, word(0))
	b.same(16, word(0))
}

func testAtomicRefused(t *T) {
	for _, c := range []struct {
		name string
		wr   func(a, b *end) verbs.SendWR
		want verbs.Status
	}{
		{"unaligned", func(a, b *end) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpFetchAdd, SGL: a.sgl(0, 8), Remote: b.at(4)}
		}, verbs.StatusRemoteInvalidRequestError},
		{"too short", func(a, b *end) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpCompareSwap, SGL: a.sgl(0, 4), Remote: b.at(0)}
		}, verbs.StatusLocalLengthError},
		{"too long", func(a, b *end) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpCompareSwap, SGL: a.sgl(0, 16), Remote: b.at(0)}
		}, verbs.StatusLocalLengthError},
		{"past the end", func(a, b *end) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpFetchAdd, SGL: a.sgl(0, 8), Remote: b.at(1 << 16)}
		}, verbs.StatusRemoteAccessError},
	} {
		a, b := t.pair(setup{})
		a.post(c.wr(a, b))
		if wc := t.next(a.scq); wc.Status != c.want {
			t.Errorf("%s: %v, want %v", c.name, wc.Status, c.want)
		}
		b.same(0, make([]byte, 16))
	}
}

// testAtomicDepth posts more atomics and READs than may be in flight, at a depth of one
// and of two.
func testAtomicDepth(t *T) {
	for _, depth := range []uint8{1, 2} {
		a, b := t.pair(setup{connect: verbs.ConnectOptions{RdAtomic: depth}})
		const n = 30
		for i := range n {
			a.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpFetchAdd, Add: 1, SGL: a.sgl(8*i, 8), Remote: b.at(0)})
			a.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpRead, SGL: a.sgl(10000, 9000), Remote: b.at(0)})
		}
		for range 2 * n {
			a.sent(verbs.StatusSuccess)
		}
		for i := range n {
			a.same(8*i, word(uint64(i)))
		}
		b.same(0, word(n))
	}
}

func testAtomicWrite(t *T) {
	a, b := t.pair(setup{})
	a.put(8, 0x1122334455667788)
	wc := a.do(verbs.SendWR{Op: verbs.OpAtomicWrite, SGL: a.sgl(8, 8), Remote: b.at(24)})
	if wc.Op != verbs.WCAtomicWrite {
		t.Errorf("completion of %v", wc.Op)
	}
	b.same(24, word(0x1122334455667788))
	a.do(verbs.SendWR{Op: verbs.OpAtomicWrite, Inline: word(77), Remote: b.at(24)})
	b.same(24, word(77))
	a.post(verbs.SendWR{Op: verbs.OpAtomicWrite, SGL: a.sgl(0, 4), Remote: b.at(0)})
	a.sent(verbs.StatusLocalLengthError)

	a, b = t.pair(setup{})
	a.post(verbs.SendWR{Op: verbs.OpAtomicWrite, SGL: a.sgl(0, 8), Remote: b.at(1)})
	a.sent(verbs.StatusRemoteInvalidRequestError)
}

func testFlushOp(t *T) {
	a, b := t.pair(setup{})
	a.fill(0, 100, 1)
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 100), Remote: b.at(0)})
	wc := a.do(verbs.SendWR{Op: verbs.OpFlush, Remote: b.at(0), FlushLen: 100, FlushLevel: verbs.FlushToGlobal})
	if wc.Op != verbs.WCFlush {
		t.Errorf("completion of %v", wc.Op)
	}
	a.do(verbs.SendWR{Op: verbs.OpFlush, Remote: b.at(0), FlushScope: verbs.FlushRegion,
		FlushLevel: verbs.FlushToGlobal})
	b.holds(0, 100, 1)
	t.fails(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpFlush, Remote: b.at(0), FlushLen: 8}), verbs.ErrInvalid,
		"FlushLevel")
	// The region was not registered for persistence.
	a.post(verbs.SendWR{Op: verbs.OpFlush, Remote: b.at(0), FlushLen: 100, FlushLevel: verbs.FlushToPersistent})
	a.sent(verbs.StatusRemoteAccessError)

	a, b = t.pair(setup{})
	a.post(verbs.SendWR{Op: verbs.OpFlush, Remote: b.at(0), FlushLen: 1<<16 + 1, FlushLevel: verbs.FlushToGlobal})
	a.sent(verbs.StatusRemoteAccessError)

	a, b = t.pair(setup{connect: verbs.ConnectOptions{Access: verbs.RemoteWrite}}) // not allowed by the queue pair
	a.post(verbs.SendWR{Op: verbs.OpFlush, Remote: b.at(0), FlushLen: 8, FlushLevel: verbs.FlushToGlobal})
	a.sent(verbs.StatusRemoteInvalidRequestError)
}
