// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/steer"
	"github.com/ramjet-rdma/ramjet/internal/testkit/conformance"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// openLanes opens a device with so many lanes.
func openLanes(t testing.TB, lanes int) *verbs.Device {
	t.Helper()
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) {
		return roce.Open(fmt.Sprintf("%s?lanes=%d", addr, lanes), nil)
	})
	return dev
}

// fewTests has few tests have devices at the same time: a device with several lanes has 60 descriptors or more, and a
// process has no more than a limit of them. Tests below one that has devices may have some, too.
type fewTests struct {
	places chan struct{}
	mu     sync.Mutex
	names  []string
}

func (f *fewTests) enter(t testing.TB) {
	f.mu.Lock()
	inside := slices.ContainsFunc(f.names, func(name string) bool {
		return t.Name() == name || strings.HasPrefix(t.Name(), name+"/")
	})
	f.mu.Unlock()
	if inside {
		return
	}
	f.places <- struct{}{}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names = append(f.names, t.Name())
	t.Cleanup(func() {
		runtime.GC() // frees the descriptors of sockets that were closed
		f.mu.Lock()
		defer f.mu.Unlock()
		f.names = slices.DeleteFunc(f.names, func(name string) bool { return name == t.Name() })
		<-f.places
	})
}

// TestConformanceLanes runs the suite on devices with several lanes: what variants run with two and four, and all with
// two. All with both would take more descriptors than a process may have: the descriptors of a closed device are freed
// when nothing has the device any more, and package testing keeps the objects that a test cleans up until its parent
// ends.
func TestConformanceLanes(t *testing.T) {
	numbers := []int{2, 4}
	if testrun.Long() {
		numbers = numbers[:1]
	}
	few := fewTests{places: make(chan struct{}, 4)}
	for _, lanes := range numbers {
		t.Run(fmt.Sprint(lanes), func(t *testing.T) {
			f := fixture4(t, nil)
			all := t.Name()
			f.Open = func(t testing.TB) *verbs.Device {
				if t.Name() != all {
					few.enter(t)
				}
				return openLanes(t, lanes)
			}
			f.Variant = true
			f.Differs = map[string]string{
				"Refused/Remote": "it has a device for each case at the same time: too many descriptors"}
			if raceDetector {
				f.Differs["Measure/IdleQP"] =
					"only acknowledgements order what two lanes do to memory: the detector sees none"
			}
			conformance.Run(t, f)
		})
	}
}

// knot is a device whose queue pairs share a completion queue, a queue of receives and a region.
type knot struct {
	pd  *verbs.PD
	cq  *verbs.CQ
	srq *verbs.SRQ
	mr  *verbs.MR
	qps []*verbs.QP
}

func newKnot(t *testing.T, dev *verbs.Device, qps, depth int) *knot {
	t.Helper()
	var k knot
	var errs [4]error
	k.pd, errs[0] = dev.AllocPD()
	k.cq, errs[1] = dev.CreateCQ(1<<10, nil) // all that a test completes
	k.srq, errs[2] = k.pd.CreateSRQ(verbs.SRQInit{MaxWR: qps * depth, MaxSGE: 1})
	k.mr, errs[3] = k.pd.RegMR(make([]byte, 8*(1+qps*depth)), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteAtomic)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for range qps {
		qp, err := k.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: k.cq, RecvCQ: k.cq, SRQ: k.srq,
			Cap: verbs.QPCap{MaxSendWR: depth, MaxSendSGE: 1}})
		if err != nil {
			t.Fatal(err)
		}
		k.qps = append(k.qps, qp)
	}
	return &k
}

// word returns 8 bytes of the region for peers. Each lane of its device is to write other ones: the race detector does
// not see that acknowledgements order what lanes do to memory.
func (k *knot) word(i int) verbs.Remote {
	return verbs.Remote{Addr: k.mr.Addr() + uint64(8*i), Key: k.mr.Remote().Key}
}

func connect(t *testing.T, a, b *knot) {
	t.Helper()
	for i := range a.qps {
		x, err := a.qps[i].Endpoint(0)
		y, err2 := b.qps[i].Endpoint(0)
		err3 := a.qps[i].Connect(x, y, &pair.Patient)
		err4 := b.qps[i].Connect(y, x, &pair.Patient)
		if err := errors.Join(err, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
	}
}

// Queue pairs are on all lanes in turn, and datagrams on the first.
func TestLanesOfQueuePairs(t *testing.T) {
	dev := openLanes(t, 3)
	count := map[int]int{}
	k := newKnot(t, dev, 9, 1)
	for _, qp := range k.qps {
		count[steer.SlotOfQPN(ib.QPN(qp.Num()))]++
	}
	if len(count) != 3 || count[0] != 3 || count[1] != 3 || count[2] != 3 {
		t.Errorf("queue pairs by slot: %v", count)
	}
	for range 4 {
		qp, err := k.pd.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: k.cq, RecvCQ: k.cq,
			Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if slot := steer.SlotOfQPN(ib.QPN(qp.Num())); slot != 0 {
			t.Errorf("datagrams in slot %d", slot)
		}
	}
}

// Queue pairs of several lanes share queues, memory and a word that all of them add to, while the device's objects
// change. Every message arrives once.
func TestLanesShareQueues(t *testing.T) {
	const qps, depth, rounds = 4, 8, 50
	a, b := newKnot(t, openLanes(t, 4), qps, depth), newKnot(t, openLanes(t, 2), qps, depth)
	connect(t, a, b)
	check := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	recv := func(id uint64) { // each into a word of its own
		check(b.srq.PostRecv(&verbs.RecvWR{ID: id, SGL: []verbs.SGE{b.mr.SGE(8*int(1+id), 8)}}))
	}
	for id := range uint64(qps * depth) {
		recv(id)
	}
	change := func() { // which takes the locks of all lanes
		mr, err := b.pd.RegMR(make([]byte, 8), verbs.LocalWrite)
		check(err)
		b.mr.Do(func([]byte) {})
		check(mr.Close())
	}
	var all sync.WaitGroup
	ctx, fail := context.WithCancel(t.Context())
	defer fail()
	wait := func(k *knot, n int, then func(verbs.WC)) {
		wcs := make([]verbs.WC, depth)
		for n > 0 {
			got, err := k.cq.Wait(ctx, wcs)
			if err != nil {
				t.Error(err)
				fail()
				return
			}
			for _, wc := range wcs[:got] {
				if wc.Status != verbs.StatusSuccess {
					t.Error(wc.Status)
					fail()
				}
				then(wc)
			}
			n -= got
		}
	}
	received := map[verbs.QPN]int{}
	all.Go(func() { wait(b, qps*rounds, func(wc verbs.WC) { received[wc.QPN]++; change(); recv(wc.ID) }) })
	for i, qp := range a.qps {
		all.Go(func() {
			for n := range rounds {
				for err := error(verbs.ErrQueueFull); errors.Is(err, verbs.ErrQueueFull); {
					_, err = qp.PostSendList([]verbs.SendWR{{Op: verbs.OpFetchAdd, Flags: verbs.Signaled,
						SGL: []verbs.SGE{a.mr.SGE(8*(1+i), 8)}, Remote: b.mr.Remote(), Add: 1}})
					if err != nil && !errors.Is(err, verbs.ErrQueueFull) {
						t.Error(n, err)
					}
				}
				for err := error(verbs.ErrQueueFull); errors.Is(err, verbs.ErrQueueFull); {
					if err = qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled,
						SGL: []verbs.SGE{a.mr.SGE(0, 8)}}); err != nil && !errors.Is(err, verbs.ErrQueueFull) {
						t.Error(n, err)
					}
				}
			}
		})
	}
	all.Go(func() { wait(a, 2*qps*rounds, func(verbs.WC) {}) })
	all.Wait()
	for _, qp := range b.qps {
		if n := received[qp.Num()]; n != rounds {
			t.Errorf("queue pair %d received %d messages, sent were %d", qp.Num(), n, rounds)
		}
	}
	b.mr.Do(func(mem []byte) {
		if sum := binary.NativeEndian.Uint64(mem); sum != qps*rounds {
			t.Errorf("the sum is %d, and %d were added", sum, qps*rounds)
		}
	})
}

// A device takes as many slots of its address as it has lanes, and gives them back.
func TestLanesOfAnAddress(t *testing.T) {
	first, addr := open(t, nil)
	withLanes := func(n int) (*verbs.Device, error) { return roce.Open(fmt.Sprintf("%v?lanes=%d", addr, n), nil) }
	second, err := withLanes(8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := withLanes(8); err == nil {
		t.Error("an address of 16 slots has 17 members")
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	second, err = withLanes(8)
	if err != nil {
		t.Fatal(err)
	}
	a, b := newKnot(t, first, 3, 1), newKnot(t, second, 3, 1)
	connect(t, a, b)
	for _, qp := range b.qps {
		if err := qp.PostSend(&verbs.SendWR{Op: verbs.OpFetchAdd, Flags: verbs.Signaled,
			SGL: []verbs.SGE{b.mr.SGE(8, 8)}, Remote: a.mr.Remote(), Add: 1}); err != nil {
			t.Fatal(err)
		}
		wcs := make([]verbs.WC, 1)
		if _, err := b.cq.Wait(t.Context(), wcs); err != nil || wcs[0].Status != verbs.StatusSuccess {
			t.Error(err, wcs[0].Status)
		}
	}
	second.Close()
}

// Anything but a number of lanes is refused.
func TestLanesRefused(t *testing.T) {
	for _, n := range []string{"0", "9", "", "two"} {
		if _, err := roce.Open("127.0.0.1?lanes="+n, nil); err == nil || !strings.Contains(err.Error(), "1 to 8") {
			t.Errorf("lanes=%s: %v", n, err)
		}
	}
}
