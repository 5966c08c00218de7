// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestAtomicWrite carries out ATOMIC WRITEs, in shared memory by the initiator alone, and else by the target.
func TestAtomicWrite(t *testing.T) {
	for _, shared := range []bool{true, false} {
		a, b := newPair(t, shared)
		pattern(a.region.Bytes()[:8], 1)
		a.post(verbs.SendWR{Op: verbs.OpAtomicWrite, SGL: []verbs.SGE{a.sge(0, 3), a.sge(3, 5)}, Remote: b.remote(64)})
		a.post(verbs.SendWR{Op: verbs.OpAtomicWrite, Inline: []byte("in line!"), Remote: b.remote(72)})
		a.qp.Advance(1 << 20)
		if own := len(a.completions()); shared && own != 2 {
			t.Fatalf("the target did nothing, and %d operations have completed", own)
		}
		settle(a, b)
		if got := b.region.Bytes()[64:]; !bytes.Equal(got[:8], a.region.Bytes()[:8]) ||
			string(got[8:16]) != "in line!" {
			t.Errorf("shared %v: %q is there", shared, got[:16])
		}
		if want := uint64(2); a.lane.Counters.Asked+a.lane.Counters.Direct != want ||
			shared == (a.lane.Counters.Asked > 0) {
			t.Errorf("shared %v: %d asked, %d done here", shared, a.lane.Counters.Asked, a.lane.Counters.Direct)
		}
		a.completions()
		a.post(verbs.SendWR{Op: verbs.OpAtomicWrite, SGL: []verbs.SGE{a.sge(0, 8)}, Remote: b.remote(68)})
		settle(a, b)
		a.completes(verbs.StatusRemoteInvalidRequestError)
		if why := b.qp.Failure(); why == nil || why.Reason != verbs.ReasonMisaligned || why.Op != verbs.WCAtomicWrite {
			t.Errorf("shared %v: it was refused for %+v", shared, why)
		}
	}
}

// flushed makes a pair whose second side has a region that FLUSHes are allowed of, which is in the directory if
// it is known.
func flushed(t *testing.T, known bool) (a, b *side, to verbs.Remote, data []byte) {
	t.Helper()
	a, b = newPair(t, false)
	const access = all | verbs.FlushGlobal | verbs.FlushPersistent
	if err := b.qp.Modify(&verbs.QPAttr{Access: access}, verbs.MaskAccess); err != nil {
		t.Fatal(err)
	}
	data = make([]byte, 4096)
	r, err := b.dev.Memory.Register(1, data, access)
	if err != nil {
		t.Fatal(err)
	}
	if known {
		b.dir.Publish(Entry{Key: uint32(r.Key()), Access: uint32(access), Segment: 7, Base: r.Addr(), Length: 4096})
		a.mapped.segments[7] = data
	}
	return a, b, verbs.Remote{Addr: r.Addr(), Key: r.Key()}, data
}

// TestFlushGlobal has the initiator see by itself that a FLUSH is allowed, where it can.
func TestFlushGlobal(t *testing.T) {
	for _, known := range []bool{true, false} {
		a, b, to, _ := flushed(t, known)
		for _, wr := range []verbs.SendWR{{FlushLen: 100}, {}, {FlushScope: verbs.FlushRegion}} {
			wr.Op, wr.Remote, wr.FlushLevel = verbs.OpFlush, to, verbs.FlushToGlobal
			a.post(wr)
			a.qp.Advance(1 << 20)
			if own := len(a.lane.Outbox.Completions); own != 1 && known {
				t.Fatalf("the target did nothing, and %d FLUSHes have completed", own)
			}
			settle(a, b)
			a.completes(verbs.StatusSuccess)
		}
		a.post(verbs.SendWR{Op: verbs.OpFlush, Remote: to, FlushLevel: verbs.FlushToGlobal, FlushLen: 4097})
		settle(a, b)
		a.completes(verbs.StatusRemoteAccessError)
	}
}

// TestFlushBehind posts a FLUSH behind a WRITE that waits in the ring.
func TestFlushBehind(t *testing.T) {
	a, b, to, data := flushed(t, true)
	a.mapped.readOnly = true // the WRITE goes through the target
	pattern(a.region.Bytes()[:100], 1)
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.sge(0, 100)}, Remote: to})
	a.post(verbs.SendWR{Op: verbs.OpFlush, Remote: to, FlushLevel: verbs.FlushToGlobal, FlushLen: 100})
	a.qp.Advance(1 << 20)
	a.completes()
	settle(a, b)
	a.completes(verbs.StatusSuccess, verbs.StatusSuccess)
	if !bytes.Equal(data[:100], a.region.Bytes()[:100]) {
		t.Error("it was not written")
	}
}

// TestFlushPersistent has operations behind a FLUSH to persistence wait for it, on either side.
func TestFlushPersistent(t *testing.T) {
	post := func(a *side, to verbs.Remote) {
		t.Helper()
		a.post(verbs.SendWR{Op: verbs.OpFlush, Remote: to, FlushLevel: verbs.FlushToPersistent | verbs.FlushToGlobal,
			FlushLen: 100})
		a.post(verbs.SendWR{Op: verbs.OpAtomicWrite, Inline: binary.NativeEndian.AppendUint64(nil, 5), Remote: to})
		a.post(verbs.SendWR{Op: verbs.OpSend})
	}
	var under *Flush
	begin := func() (a, b *side, to verbs.Remote, data []byte) {
		a, b, to, data = flushed(t, true)
		b.dev.Persist = func(f *Flush) { under = f }
		under = nil
		b.recv(1, 0, 0)
		post(a, to)
		settle(a, b)
		a.completes()
		b.completes()
		if under == nil || under.QP() != b.qp || len(under.Memory()) != 100 || &under.Memory()[0] != &data[0] ||
			!b.qp.Flushing() {
			t.Fatalf("under way is %+v", under)
		}
		if data[0] != 0 {
			t.Error("an ATOMIC WRITE behind a FLUSH was carried out before it")
		}
		return a, b, to, data
	}

	a, b, to, data := begin()
	if !under.Done(true) || b.qp.Flushing() {
		t.Error("the FLUSH is not done")
	}
	settle(a, b)
	a.completes(verbs.StatusSuccess, verbs.StatusSuccess, verbs.StatusSuccess)
	b.completes(verbs.StatusSuccess)
	if data[0] != 5 {
		t.Error("the ATOMIC WRITE was not carried out")
	}
	if under.Done(true) {
		t.Error("it is done a second time")
	}

	b.recv(1, 0, 0)
	post(a, to)
	settle(a, b)
	if !under.Done(false) {
		t.Error("the failure is not taken")
	}
	settle(a, b)
	a.completes(verbs.StatusRemoteOperationError, verbs.StatusWRFlushError, verbs.StatusWRFlushError)

	a, b, _, _ = begin()
	b.dev.Memory.Close() // the region has ended
	under.Done(true)
	settle(a, b)
	a.completes(verbs.StatusRemoteAccessError, verbs.StatusWRFlushError, verbs.StatusWRFlushError)

	_, b, _, _ = begin()
	b.qp.Destroy()
	if under.Done(true) {
		t.Error("a queue pair that is gone takes it")
	}

	a, b, to, _ = flushed(t, true)
	post(a, to) // there is no way to make it persistent
	settle(a, b)
	a.completes(verbs.StatusRemoteOperationError, verbs.StatusWRFlushError, verbs.StatusWRFlushError)
}
