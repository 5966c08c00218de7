// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestPerform carries out operations without a place in the send queue, and leaves all others to the queue.
func TestPerform(t *testing.T) {
	a, b := newPair(t, true)
	pattern(a.region.Bytes(), 3)
	word := b.region.Bytes()[64:72]
	binary.NativeEndian.PutUint64(word, 41)
	var wc verbs.WC
	for _, wr := range []verbs.SendWR{
		{ID: 1, Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 1000)}, Remote: b.remote(1024)},
		{ID: 2, Op: verbs.OpFetchAdd, Add: 1, SGL: []verbs.SGE{a.sge(2048, 8)}, Remote: b.remote(64)},
		{ID: 3, Op: verbs.OpCompareSwap, Compare: 42, Swap: 7, SGL: []verbs.SGE{a.sge(2056, 8)}, Remote: b.remote(64)},
		{ID: 4, Op: verbs.OpRead, SGL: []verbs.SGE{a.sge(2064, 8)}, Remote: b.remote(64)},
		{ID: 5, Op: verbs.OpWrite, Inline: []byte("inline"), Remote: b.remote(0)},
		{ID: 6, Op: verbs.OpAtomicWrite, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(72)},
	} {
		if n, ok := a.qp.Perform(&wr, &wc); !ok || wc.ID != wr.ID || wc.Status != verbs.StatusSuccess || n == 0 {
			t.Errorf("%v: %d bytes, %v, %+v", wr.Op, n, ok, wc)
		}
	}
	mem := a.region.Bytes()[2048:]
	for i, want := range []uint64{41, 42, 7} {
		if got := binary.NativeEndian.Uint64(mem[8*i:]); got != want {
			t.Errorf("result %d is %d, want %d", i, got, want)
		}
	}
	if !bytes.Equal(b.region.Bytes()[1024:][:1000], a.region.Bytes()[:1000]) ||
		string(b.region.Bytes()[:6]) != "inline" ||
		!bytes.Equal(b.region.Bytes()[72:80], a.region.Bytes()[:8]) {
		t.Error("the WRITEs are not there")
	}

	write := verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(0)}
	refuses := func(what string, wr verbs.SendWR) {
		t.Helper()
		if _, ok := a.qp.Perform(&wr, &wc); ok {
			t.Errorf("%s: carried out", what)
		}
	}
	with := func(f func(*verbs.SendWR)) verbs.SendWR {
		wr := write
		f(&wr)
		return wr
	}
	refuses("a key that there is not", with(func(w *verbs.SendWR) { w.Remote.Key++ }))
	refuses("beyond the region", with(func(w *verbs.SendWR) { w.Remote.Addr += regionBytes }))
	refuses("memory that is not registered",
		with(func(w *verbs.SendWR) { w.SGL = []verbs.SGE{{Addr: 1, Length: 8, LKey: 1}} }))
	refuses("an atomic operation across words",
		with(func(w *verbs.SendWR) { w.Op, w.Remote = verbs.OpFetchAdd, b.remote(4) }))
	refuses("an ATOMIC WRITE across words",
		with(func(w *verbs.SendWR) { w.Op, w.Remote = verbs.OpAtomicWrite, b.remote(4) }))
	refuses("an ATOMIC WRITE of 7 bytes",
		with(func(w *verbs.SendWR) { w.Op, w.SGL = verbs.OpAtomicWrite, []verbs.SGE{a.sge(0, 7)} }))
	refuses("a SEND", with(func(w *verbs.SendWR) { w.Op = verbs.OpSend }))
	refuses("more inline than there may be", with(func(w *verbs.SendWR) { w.SGL, w.Inline = nil, make([]byte, 257) }))
	b.dir.Withdraw(uint32(b.region.Key()))
	refuses("a region that was withdrawn", write)
	b.dir.Publish(b.entry(all))
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.sge(0, 8)}})
	refuses("behind a SEND in the queue", write)
	b.recv(1, 0, 8)
	settle(a, b)
	a.completes(verbs.StatusSuccess)
	if _, ok := a.qp.Perform(&write, &wc); !ok {
		t.Error("behind a SEND that is done: refused")
	}
	b.qp.Destroy()
	refuses("a queue pair that is gone", write)
}

// TestWithdrawnMeanwhile has the target withdraw a region while a WRITE or READ is carried out there: the operation
// does not count, and goes through the target, which refuses it.
func TestWithdrawnMeanwhile(t *testing.T) {
	for _, op := range []verbs.SendOp{verbs.OpWrite, verbs.OpRead} {
		for _, length := range []int{8, 100, 100_000} {
			a, b := newPair(t, true)
			a.mapped.looked = func() { b.dir.Withdraw(uint32(b.region.Key())) } // behind the lookup
			wr := verbs.SendWR{Op: op, SGL: []verbs.SGE{a.sge(0, length)}, Remote: b.remote(0)}
			var wc verbs.WC
			if _, ok := a.qp.Perform(&wr, &wc); ok {
				t.Errorf("%v of %d bytes counts, though the region was withdrawn", op, length)
			}
			b.dir.Publish(b.entry(all))
			a.mapped.generation++
			a.post(wr)
			settle(a, b)
			a.completes(verbs.StatusSuccess)
			if asked := a.lane.Counters.Asked; asked != 1 {
				t.Errorf("%v of %d bytes: %d operations went through the target", op, length, asked)
			}
		}
	}
}
