// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"errors"
	"math/rand"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// fixture is the common part of a queue pair, and its device.
type fixture struct {
	*testing.T
	dev queue.Device
	out queue.Outbox
	queue.Pair
}

// newPair makes a pair of type RC whose queues hold four work requests of two entries. change
// changes that.
func newPair(t *testing.T, change ...func(*queue.Config)) *fixture {
	f := &fixture{T: t, dev: queue.Device{Memory: memory.NewTable(rand.New(rand.NewSource(1)).Uint32),
		Ports: []queue.Port{{Num: 1, MTU: 2048, PKeys: []verbs.PKey{0xffff, 0x8001}}}, MaxMsgSize: 1 << 20}}
	cq, _ := newCQ(100)
	c := queue.Config{Num: 7, Type: verbs.RC, PD: 1, SendCQ: cq, RecvCQ: cq, Owner: "pair",
		Caps: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 8},
		Recv: &queue.RecvQueue{PD: 1, MaxWR: 4, MaxSGE: 2}}
	for _, f := range change {
		f(&c)
	}
	f.Pair = queue.NewPair(&f.dev, &f.out, c)
	return f
}

// modify changes attributes as an engine does.
func (f *fixture) modify(attr verbs.QPAttr, mask verbs.QPMask) error {
	return f.Change(&attr, mask, queue.Steps{
		Reset:   f.Reset,
		Fail:    func() { f.SetState(verbs.StateError) },
		Applied: func(verbs.QPState, verbs.QPMask) {},
	})
}

// completions returns the numbers and statuses of the completions so far.
func (f *fixture) completions() (ids []uint64, statuses []verbs.Status) {
	for _, c := range f.out.Completions {
		ids, statuses = append(ids, c.WC.ID), append(statuses, c.WC.Status)
	}
	return ids, statuses
}

const toInit = verbs.MaskState | verbs.MaskPort | verbs.MaskPKeyIndex | verbs.MaskAccess

// Only the attributes that the mask names are set, and given back.
func TestPairAttributes(t *testing.T) {
	f := newPair(t)
	junk := verbs.QPAttr{State: verbs.StateInit, Port: 1, PKeyIndex: 1, Access: verbs.RemoteRead, QKey: 9, Timeout: 9,
		RetryCount: 5, RQPSN: 3, SQPSN: 4, MaxRdAtomic: 5, MaxDestRdAtomic: 6, MinRNRTimer: 7, DestQPN: 8, RNRRetry: 6,
		PathMTU:   verbs.MTU512,
		RateLimit: 1, MigState: 1, SQDAsyncNotify: true,
		AH: verbs.AHAttr{Port: 1}, AltAH: verbs.AHAttr{Port: 2}, CurState: verbs.StateSQE,
		Cap: verbs.QPCap{MaxSendWR: 99}}
	if err := f.modify(junk, toInit); err != nil {
		t.Fatal(err)
	}
	want := verbs.QPAttr{State: verbs.StateInit, CurState: verbs.StateInit, Port: 1, PKeyIndex: 1,
		Access: verbs.RemoteRead, Cap: f.Caps}
	if got := f.Query(); got != want {
		t.Errorf("the attributes are %+v, want %+v", got, want)
	}
	junk.State = verbs.StateRTR
	mask := verbs.MaskState | verbs.MaskAH | verbs.MaskPathMTU | verbs.MaskDestQPN | verbs.MaskRQPSN |
		verbs.MaskMaxDestRdAtomic | verbs.MaskMinRNRTimer
	if err := f.modify(junk, mask); err != nil {
		t.Fatal(err)
	}
	want.State, want.CurState, want.AH, want.PathMTU, want.DestQPN, want.RQPSN = verbs.StateRTR, verbs.StateRTR,
		junk.AH, junk.PathMTU, 8, 3
	want.MaxDestRdAtomic, want.MinRNRTimer = 6, 7
	if got := f.Query(); got != want {
		t.Errorf("the attributes are %+v, want %+v", got, want)
	}
	f.Reset()
	if got := f.Query(); got != (verbs.QPAttr{Cap: f.Caps}) {
		t.Errorf("after RESET they are %+v", got)
	}
}

// Attributes that the device does not have are refused, and nothing is changed.
func TestPairModifyRefused(t *testing.T) {
	for what, c := range map[string]struct {
		attr verbs.QPAttr
		mask verbs.QPMask
	}{
		"Port":      {verbs.QPAttr{State: verbs.StateInit, Port: 2}, toInit},
		"PKeyIndex": {verbs.QPAttr{State: verbs.StateInit, Port: 1, PKeyIndex: 2}, toInit},
		"RTS":       {verbs.QPAttr{State: verbs.StateRTS, Port: 1}, toInit},
	} {
		f := newPair(t)
		before := f.Query()
		if err := f.modify(c.attr, c.mask); !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
		if f.Query() != before {
			t.Errorf("%s: something was changed", what)
		}
	}
	f := newPair(t)
	f.SetState(verbs.StateInit)
	mask := verbs.MaskState | verbs.MaskAH | verbs.MaskPathMTU | verbs.MaskDestQPN | verbs.MaskRQPSN |
		verbs.MaskMaxDestRdAtomic | verbs.MaskMinRNRTimer
	if err := f.modify(verbs.QPAttr{State: verbs.StateRTR, PathMTU: verbs.MTU4096}, mask); !errors.Is(err,
		verbs.ErrInvalid) || !strings.Contains(err.Error(), "PathMTU") {
		t.Errorf("a path MTU of 4096 on a port of 2048: %v", err)
	}
}

// SQD raises its event once, if the program asked for it or did not say (IBTA 10.3.1.5).
func TestPairDraining(t *testing.T) {
	for _, c := range []struct {
		mask   verbs.QPMask
		notify bool
		want   bool
	}{{0, false, true}, {verbs.MaskSQDAsyncNotify, true, true}, {verbs.MaskSQDAsyncNotify, false, false}} {
		f := newPair(t)
		f.SetState(verbs.StateRTS)
		if err := f.modify(verbs.QPAttr{State: verbs.StateSQD, SQDAsyncNotify: c.notify},
			verbs.MaskState|c.mask); err != nil {
			t.Fatal(err)
		}
		f.CheckDrained(true)
		if e := f.out.Events; len(e) > 0 {
			t.Errorf("mask %v, notify %v: a work request has begun, and events %v", c.mask, c.notify, e)
		}
		f.CheckDrained(false)
		f.CheckDrained(false)
		var want []queue.Event
		if c.want {
			want = []queue.Event{{Type: verbs.EventSQDrained, Owner: "pair"}}
		}
		if e := f.out.Events; !slices.Equal(e, want) {
			t.Errorf("mask %v, notify %v: events %v, want %v", c.mask, c.notify, e, want)
		}
	}
}

// Receives complete in order, flushed ones too, the one that a message has taken first.
func TestPairReceives(t *testing.T) {
	f := newPair(t)
	if _, err := f.PostRecv(make([]verbs.RecvWR, 1)); !errors.Is(err, verbs.ErrState) {
		t.Errorf("in RESET: %v", err)
	}
	f.SetState(verbs.StateRTR)
	if n, err := f.PostRecv([]verbs.RecvWR{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}, {ID: 5}}); n != 4 ||
		!errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("%d were posted: %v", n, err)
	}
	f.TakeReceive(f.Recv)
	f.CompleteReceive(verbs.StatusSuccess)
	f.TakeReceive(f.Recv)
	f.SetState(verbs.StateError)
	f.FlushReceives()
	if n, err := f.PostRecv([]verbs.RecvWR{{ID: 6}}); n != 1 || err != nil {
		t.Errorf("in ERR %d were posted: %v", n, err)
	}
	ids, statuses := f.completions()
	for i := range 5 {
		id, status := uint64(i+1), verbs.StatusWRFlushError
		if i == 0 {
			status = verbs.StatusSuccess
		}
		if i == 4 {
			id = 6
		}
		if i >= len(ids) || ids[i] != id || statuses[i] != status {
			t.Fatalf("the completions are %v with %v", ids, statuses)
		}
	}
	if f.HasReceive() {
		t.Error("a receive is still taken")
	}
}

// Queue pairs of two lanes take each receive of a shared queue once, while the program posts.
func TestPairSharedReceivesOfLanes(t *testing.T) {
	const receives = 10000
	srq := &queue.RecvQueue{PD: 1, MaxWR: 64, MaxSGE: 1, Shared: true}
	var taken [2][]uint64
	var left atomic.Int32
	left.Store(receives)
	var lanes sync.WaitGroup
	for i := range taken {
		f := newPair(t, func(c *queue.Config) { c.Recv = srq })
		lanes.Go(func() {
			for left.Load() > 0 {
				if !f.TakeReceive(srq) {
					runtime.Gosched()
					continue
				}
				left.Add(-1)
				taken[i] = append(taken[i], f.CompleteReceive(verbs.StatusSuccess).WC.ID)
				f.out.Reset()
			}
		})
	}
	for id := uint64(0); id < receives; {
		n, err := srq.Post([]verbs.RecvWR{{ID: id}})
		if err != nil && !errors.Is(err, verbs.ErrQueueFull) {
			t.Error(err)
			break
		}
		if id += uint64(n); n == 0 {
			runtime.Gosched()
		}
	}
	lanes.Wait()
	if all := slices.Concat(taken[0], taken[1]); len(all) != receives || !slices.IsSorted(taken[0]) ||
		!slices.IsSorted(taken[1]) {
		t.Errorf("%d receives were taken, want %d, and each lane's in order", len(all), receives)
	} else if slices.Sort(all); len(slices.Compact(all)) != receives {
		t.Error("a receive was taken twice")
	}
}

// A shared receive queue keeps its receives when a queue pair fails, which says that it took
// its last one (IBTA 10.2.9.5). The limit's event comes once (10.2.9.1).
func TestPairSharedReceives(t *testing.T) {
	srq := &queue.RecvQueue{PD: 1, MaxWR: 4, MaxSGE: 2, Shared: true, Limit: 2, Owner: "srq"}
	f := newPair(t, func(c *queue.Config) { c.Recv = srq })
	f.SetState(verbs.StateRTR)
	if _, err := f.PostRecv(make([]verbs.RecvWR, 1)); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("posted to a queue that it does not have: %v", err)
	}
	if _, err := srq.Post([]verbs.RecvWR{{ID: 1}, {ID: 2}, {ID: 3}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f.TakeReceive(srq)
		f.CompleteReceive(verbs.StatusSuccess)
	}
	f.FlushReceives()
	want := []queue.Event{{Type: verbs.EventSRQLimitReached, Owner: "srq"},
		{Type: verbs.EventQPLastWQEReached, Owner: "pair"}}
	if e := f.out.Events; len(e) != 2 || e[0] != want[0] || e[1] != want[1] || srq.Len() != 1 {
		t.Errorf("events %v, %d receives are left", e, srq.Len())
	}
}
