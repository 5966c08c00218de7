// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/steer"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// forLanes runs a test with two lanes and with four.
func forLanes(t *testing.T, test func(t *testing.T, lanes int)) {
	for _, lanes := range []int{2, 4} {
		t.Run(fmt.Sprint(lanes), func(t *testing.T) { test(t, lanes) })
	}
}

// complete waits for one completion of a knot's queue.
func (k *knot) complete(t *testing.T) verbs.WC {
	t.Helper()
	var wcs [1]verbs.WC
	if _, err := k.cq.Wait(t.Context(), wcs[:]); err != nil {
		t.Fatal(err)
	}
	return wcs[0]
}

// Queue pairs of all lanes write through a window of type 1, which one of them unbinds. Once that has completed, no
// lane writes any more: the program has the memory for itself.
func TestLanesUnbindWindow(t *testing.T) {
	forLanes(t, func(t *testing.T, lanes int) {
		devA, devB := openLanes(t, lanes), openLanes(t, lanes)
		for round := range 5 {
			unbindWindow(t, devA, devB, lanes, round)
		}
	})
}

func unbindWindow(t *testing.T, devA, devB *verbs.Device, lanes, round int) {
	const part = 4 << 10 // of each queue pair
	size := part * lanes
	a, b := newKnot(t, devA, lanes+1, 8), newKnot(t, devB, lanes+1, 8)
	connect(t, a, b)
	binder := b.qps[lanes]
	mem := make([]byte, size)
	mr, err := b.pd.RegMR(mem, verbs.LocalWrite|verbs.MWBind)
	if err != nil {
		t.Fatal(err)
	}
	mw, err := b.pd.AllocMW(verbs.MWType1)
	if err != nil {
		t.Fatal(err)
	}
	bind := func(length uint64) {
		if err := binder.BindMW(0, verbs.Signaled, verbs.MWBindInfo{MW: mw, MR: mr, Addr: mr.Addr(), Length: length,
			Access: verbs.RemoteWrite}); err != nil {
			t.Fatal(err)
		}
		if wc := b.complete(t); wc.Status != verbs.StatusSuccess {
			t.Fatal(wc.Status)
		}
	}
	bind(uint64(size))
	key := mw.RKey()
	var writers sync.WaitGroup
	var written atomic.Int32
	for i, qp := range a.qps[:lanes] {
		source, err := a.pd.RegMR(bytes.Repeat([]byte{byte(1 + i)}, part), verbs.LocalWrite)
		if err != nil {
			t.Fatal(err)
		}
		cq, to := a.cq, verbs.Remote{Addr: mr.Addr() + uint64(i*part), Key: key}
		writers.Go(func() {
			for qp.State() == verbs.StateRTS {
				err := qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled,
					SGL: []verbs.SGE{source.SGE(0, part)}, Remote: to})
				wcs := make([]verbs.WC, 8)
				for _, wc := range wcs[:cq.Poll(wcs)] {
					if wc.Status == verbs.StatusSuccess {
						written.Add(1)
					}
				}
				if err != nil {
					runtime.Gosched()
				}
			}
		})
	}
	for written.Load() < int32(4*lanes) {
		runtime.Gosched()
	}
	bind(0)
	before := bytes.Clone(mem)
	writers.Wait() // all have been refused
	if !bytes.Equal(before, mem) {
		t.Errorf("round %d: a peer has written through a window that was unbound", round)
	}
	for _, qp := range append(a.qps, b.qps...) {
		if err := qp.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The calls and packets of all lanes count in one sequence: one call fails and three SENDs are lost in all, whichever
// queue pairs they are of. All that was posted arrives in the end.
func TestLanesFaultsCountTogether(t *testing.T) {
	forLanes(t, func(t *testing.T, lanes int) {
		devA, devB := openLanes(t, lanes), openLanes(t, lanes)
		const each = 12
		a, b := newKnot(t, devA, lanes, each), newKnot(t, devB, lanes, each)
		connect(t, a, b)
		set, err := faults.Parse(fmt.Sprintf("fail post_send ENOMEM nth %d; loss times 3 of send sent", lanes*each/2))
		if err != nil {
			t.Fatal(err)
		}
		target := driver.DeviceOf(devA).(faults.Target)
		if err := set.Set(target, devA.Name(), faults.NewLog(io.Discard)); err != nil {
			t.Fatal(err)
		}
		for i := range lanes * each {
			if err := b.srq.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{b.mr.SGE(8*i, 8)}}); err != nil {
				t.Fatal(err)
			}
		}
		var failed atomic.Int32
		var all sync.WaitGroup
		for _, qp := range a.qps {
			all.Go(func() {
				for range each {
					if qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled,
						SGL: []verbs.SGE{a.mr.SGE(0, 8)}}) != nil {
						failed.Add(1)
					}
				}
			})
		}
		all.Wait()
		if n := failed.Load(); n != 1 {
			t.Errorf("%d calls failed of all lanes together, want one", n)
		}
		for range lanes*each - 1 {
			if wc := a.complete(t); wc.Status != verbs.StatusSuccess {
				t.Fatal(wc.Status)
			}
		}
		if r := target.Faults().Results(); r[0].Struck != 1 || r[1].Struck != 3 {
			t.Errorf("faults have struck %d and %d times, want 1 and 3", r[0].Struck, r[1].Struck)
		}
	})
}

// An event that is injected breaks the queue pairs of all lanes, and each of them flushes what was posted to it.
func TestLanesFaultBreaksAll(t *testing.T) {
	forLanes(t, func(t *testing.T, lanes int) {
		dev := openLanes(t, lanes)
		a, b := newKnot(t, dev, lanes, 1), newKnot(t, openLanes(t, lanes), lanes, 1)
		connect(t, a, b)
		for _, qp := range a.qps { // which wait: there is no receive
			if err := qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled,
				SGL: []verbs.SGE{a.mr.SGE(0, 8)}}); err != nil {
				t.Fatal(err)
			}
		}
		set, err := faults.Parse("event QP_FATAL")
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Set(driver.DeviceOf(dev).(faults.Target), dev.Name(), faults.NewLog(io.Discard)); err != nil {
			t.Fatal(err)
		}
		for range a.qps {
			if wc := a.complete(t); wc.Status != verbs.StatusWRFlushError {
				t.Error(wc.Status)
			}
		}
		for _, qp := range a.qps {
			if s := qp.State(); s != verbs.StateError {
				t.Errorf("a queue pair of slot %d is in %v", steer.SlotOfQPN(ib.QPN(qp.Num())), s)
			}
		}
	})
}

// A completion queue of a NIC that overflows breaks the queue pairs of all lanes that have it.
func TestLanesOverflowBreaksAll(t *testing.T) {
	forLanes(t, func(t *testing.T, lanes int) {
		dev := openLanes(t, lanes)
		if err := driver.DeviceOf(dev).(interface{ ActAsNIC() error }).ActAsNIC(); err != nil {
			t.Fatal(err)
		}
		a, b := newKnot(t, dev, lanes, 1), newKnot(t, openLanes(t, lanes), lanes, 1)
		connect(t, a, b)
		if err := a.cq.Resize(1); err != nil {
			t.Fatal(err)
		}
		for i, qp := range a.qps[:2] {
			if err := qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled,
				SGL: []verbs.SGE{a.mr.SGE(0, 8)}, Remote: b.word(i)}); err != nil {
				t.Fatal(err)
			}
		}
		for broken := 0; broken < lanes; {
			ev, err := dev.Event(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if ev.Type == verbs.EventQPFatal {
				broken++
			}
		}
		for _, qp := range a.qps {
			if s := qp.State(); s != verbs.StateError {
				t.Errorf("a queue pair of slot %d is in %v", steer.SlotOfQPN(ib.QPN(qp.Num())), s)
			}
		}
	})
}

// A program that waits for a completion queue sleeps at the socket of the one lane that feeds it. It is woken for
// completions of other lanes from then on: of a queue pair that is added to the queue, or by faults.
func TestLanesWaitMeanwhile(t *testing.T) {
	forLanes(t, func(t *testing.T, lanes int) {
		devA, devB := openLanes(t, lanes), openLanes(t, lanes)
		a, b := newKnot(t, devA, 1, 2), newKnot(t, devB, lanes, 1)
		connect(t, a, &knot{qps: b.qps[:1]})
		write := func(qp *verbs.QP, word int) {
			if err := qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled,
				SGL: []verbs.SGE{a.mr.SGE(0, 8)}, Remote: b.word(word)}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan verbs.WC)
		go func() {
			defer close(done)
			for wcs := make([]verbs.WC, 1); ; {
				if _, err := a.cq.Wait(ctx, wcs); err != nil {
					return
				}
				done <- wcs[0]
			}
		}()
		expect := func() {
			t.Helper()
			if wc := <-done; wc.Status != verbs.StatusSuccess {
				t.Fatal(wc.Status)
			}
		}
		write(a.qps[0], 0)
		expect()
		set, err := faults.Parse("late 1ms")
		if err != nil {
			t.Fatal(err)
		}
		target := driver.DeviceOf(devA).(faults.Target)
		if err := set.Set(target, devA.Name(), faults.NewLog(io.Discard)); err != nil {
			t.Fatal(err)
		}
		write(a.qps[0], 0)
		expect()
		if err := target.SetFaults(nil); err != nil {
			t.Fatal(err)
		}
		write(a.qps[0], 0)
		expect()
		for i := 1; i < lanes; i++ {
			qp, err := a.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: a.cq, RecvCQ: a.cq, SRQ: a.srq,
				Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
			if err != nil {
				t.Fatal(err)
			}
			connect(t, &knot{qps: []*verbs.QP{qp}}, &knot{qps: b.qps[i : i+1]})
			write(qp, i)
			expect()
			write(a.qps[0], 0)
			expect()
		}
		cancel()
		if wc, open := <-done; open {
			t.Errorf("a completion of nothing: %v", wc)
		}
	})
}

// The lanes of a device share the descriptors of its address's group: each has a few of its own.
func TestLanesDescriptors(t *testing.T) {
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	// Descriptors of devices that earlier tests have closed are freed when they are collected: none are meanwhile.
	for before := -1; before != count(); time.Sleep(10 * time.Millisecond) {
		before = count()
		runtime.GC()
		runtime.GC()
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	withTwo, left := 0, 1
	for try := 0; left > 0 && try < 5; try++ { // some belong to the process, which opens them when it first needs them
		before := count()
		two := openLanes(t, 2)
		withTwo = count() - before
		if err := two.Close(); err != nil {
			t.Fatal(err)
		}
		left = count() - before
	}
	before := count()
	openLanes(t, 8)
	withEight := count() - before
	t.Logf("%d descriptors with two lanes, %d with eight lanes", withTwo, withEight)
	if left > 0 {
		t.Errorf("%d descriptors of two lanes are left after Close", left)
	}
	if each := (withEight - withTwo) / 6; each > 10 {
		t.Errorf("%d descriptors a lane", each)
	}
}
