// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// measurements look at the whole process, so that nothing else may run meanwhile.
var measurements = []test{
	{name: "Measure/Allocations", run: testAllocations},
	{name: "Measure/IdleQP", run: testIdleQP},
	{name: "Measure/Goroutines", run: testGoroutines},
	{name: "Measure/Descriptors", run: testDescriptors},
}

// testAllocations posts work requests that are written as literals and polls: nothing is
// allocated.
func testAllocations(t *T) {
	a, b := t.pair(setup{})
	inline := make([]byte, 64)
	operations := map[string]func() error{
		"SEND": func() error {
			if err := b.qp.PostRecv(&verbs.RecvWR{ID: 1,
				SGL: []verbs.SGE{{Addr: b.mr.Addr(), Length: 64, LKey: b.mr.LKey()}}}); err != nil {
				return err
			}
			return a.qp.PostSend(&verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled,
				SGL: []verbs.SGE{a.mr.SGE(0, 64)}})
		},
		"WRITE": func() error {
			return a.qp.PostSend(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled,
				SGL: []verbs.SGE{a.mr.SGE(0, 8000)}, Remote: b.mr.Remote()})
		},
		"WRITE inline": func() error {
			return a.qp.PostSend(&verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, Inline: inline,
				Remote: b.mr.Remote()})
		},
		"READ": func() error {
			return a.qp.PostSend(&verbs.SendWR{ID: 1, Op: verbs.OpRead, Flags: verbs.Signaled,
				SGL: []verbs.SGE{a.mr.SGE(0, 8000)}, Remote: b.mr.Remote()})
		},
		"FETCH_ADD": func() error {
			return a.qp.PostSend(&verbs.SendWR{ID: 1, Op: verbs.OpFetchAdd, Add: 1, Flags: verbs.Signaled,
				SGL: []verbs.SGE{a.mr.SGE(0, 8)}, Remote: b.mr.Remote()})
		},
	}
	if t.without(verbs.OpFetchAdd) {
		delete(operations, "FETCH_ADD")
	}
	settle()
	for name, post := range operations {
		var wcs [4]verbs.WC
		operation := func() {
			if err := post(); err != nil {
				t.Fatal(err)
			}
			for start, polls := time.Now(), 1; ; polls++ {
				b.rcq.Poll(wcs[:])
				if a.scq.Poll(wcs[:]) > 0 {
					if wcs[0].Status != verbs.StatusSuccess {
						t.Fatalf("%s: %v", name, wcs[0].Status)
					}
					break
				}
				if polls%64 == 0 { // there is one processor while allocations are counted
					time.Sleep(10 * time.Microsecond)
				}
				if time.Since(start) > patience {
					t.Fatalf("%s: no completion", name)
				}
			}
		}
		// The operation's own allocations are in every batch, other goroutines' are not in all of many
		// short ones, however long an operation takes on a busy machine.
		const batches, each = 50, 10
		allocs := testing.AllocsPerRun(each, operation)
		for n := 1; n < batches && allocs != 0; n++ {
			allocs = min(allocs, testing.AllocsPerRun(each, operation))
		}
		if allocs != 0 {
			t.Errorf("%s: %v allocations an operation", name, allocs)
		}
		for b.rcq.Poll(wcs[:]) > 0 {
			continue // unpolled completions of the SENDs
		}
	}
}

// settle waits until the process allocates nothing by itself. Allocations are counted for the whole
// of it: goroutines of earlier tests may be on their way out, and a subnet manager at a sweep.
func settle() {
	var m runtime.MemStats
	mallocs := func() uint64 {
		runtime.ReadMemStats(&m)
		return m.Mallocs
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		before := mallocs()
		time.Sleep(50 * time.Millisecond)
		if mallocs()-before < 10 {
			return
		}
	}
}

// testIdleQP measures the heap of 500 connected queue pairs with default queues: new ones,
// and queue pairs that have carried out one operation of each kind.
func testIdleQP(t *T) {
	const n, limit = 250, 16 << 10
	const atOnce = 10 // queue pairs are in use: the test waits for each in turn a tenth as often
	da, db := t.devices()
	a, b := t.newEnd(da, setup{}), t.newEnd(db, setup{})
	before := heap()
	keep := make([]*verbs.QP, 0, 2*n)
	for range n {
		a.addQP(verbs.QPInit{})
		b.addQP(verbs.QPInit{})
		t.join(a, b, verbs.ConnectOptions{})
		keep = append(keep, a.qp, b.qp)
	}
	check := func(what string) {
		each := (heap() - before) / int64(len(keep))
		t.Logf("%s connected queue pair takes %d bytes", what, each)
		if each > limit {
			t.Errorf("%s connected queue pair takes %d bytes, want at most %d", what, each, limit)
		}
	}
	check("a new")
	for at := 0; at < n; at += atOnce {
		use(a, b, keep[2*at:2*(at+atOnce)])
	}
	check("an idle")
	runtime.KeepAlive(keep)
}

// use has pairs of connected queue pairs of two ends carry out one operation of each kind, both ways, each kind at
// once.
func use(a, b *end, qps []*verbs.QP) {
	each := func(do func(from, to *end)) {
		for i := 0; i < len(qps); i += 2 {
			a.qp, b.qp = qps[i], qps[i+1]
			do(a, b)
			do(b, a)
		}
	}
	done := func(from, _ *end) { from.sent(verbs.StatusSuccess) }
	all := func(wr func(from, to *end) verbs.SendWR) {
		each(func(from, to *end) { from.post(wr(from, to)) })
		each(done)
	}
	each(func(_, to *end) { to.recv(1, 0, 64) })
	all(func(from, _ *end) verbs.SendWR { return verbs.SendWR{Op: verbs.OpSend, SGL: from.sgl(0, 64)} })
	each(func(_, to *end) { to.received(verbs.StatusSuccess) })
	all(func(from, to *end) verbs.SendWR {
		return verbs.SendWR{Op: verbs.OpWrite, SGL: from.sgl(0, 8000), Remote: to.at(0)}
	})
	all(func(from, to *end) verbs.SendWR {
		return verbs.SendWR{Op: verbs.OpRead, SGL: from.sgl(0, 8000), Remote: to.at(0)}
	})
	if !a.t.without(verbs.OpFetchAdd) {
		all(func(from, to *end) verbs.SendWR {
			return verbs.SendWR{Op: verbs.OpFetchAdd, SGL: from.sgl(0, 8), Remote: to.at(0)}
		})
	}
}

// heap returns the bytes that are in use once nothing more is found to be garbage.
func heap() int64 {
	var m runtime.MemStats
	last := int64(-1)
	for quiet := 0; quiet < 3; time.Sleep(time.Millisecond) {
		runtime.GC()
		runtime.ReadMemStats(&m)
		if now := int64(m.HeapAlloc); last >= 0 && now >= last-last/1000 {
			quiet++
		} else {
			quiet = 0
		}
		last = int64(m.HeapAlloc)
	}
	return last
}

// testGoroutines holds that closing devices leaves no goroutine behind.
func testGoroutines(t *T) {
	before := runtime.NumGoroutine()
	for range 3 {
		a, b := t.pair(setup{})
		a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 5000), Remote: b.at(0)})
		t.ok(a.dev.Close())
		t.ok(b.dev.Close())
		t.only = nil
	}
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			var stacks strings.Builder
			buf := make([]byte, 1<<16)
			stacks.Write(buf[:runtime.Stack(buf, true)])
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks.String())
		}
	}
}

// testDescriptors holds that devices give their descriptors back when they are closed, and not only once the program
// has forgotten them.
func testDescriptors(t *T) {
	const fds = "/proc/self/fd"
	if _, err := os.ReadDir(fds); err != nil {
		t.Skip(err)
	}
	open := func() (files []string) {
		list, err := os.ReadDir(fds)
		t.ok(err)
		for _, f := range list {
			file, _ := os.Readlink(filepath.Join(fds, f.Name()))
			files = append(files, file)
		}
		return files
	}
	var keep []*end
	round := func() {
		a, b := t.pair(setup{})
		keep = append(keep, a, b)
		b.recv(1, 0, 64)
		a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 64)})
		b.received(verbs.StatusSuccess)
		a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 5000), Remote: b.at(0)})
		t.ok(a.dev.Close())
		t.ok(b.dev.Close())
		t.only = nil
	}
	round() // some belong to the process
	before := open()
	for range 3 {
		round()
	}
	for end := time.Now().Add(patience); len(open()) > len(before); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("descriptors of %q, before of %q", open(), before)
		}
	}
	runtime.KeepAlive(keep)
}
