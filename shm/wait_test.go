// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shm_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// long is a time in which everything happens, however slow the machine.
const long = 2 * time.Minute

func (s *side) send(t testing.TB, flags verbs.SendFlags) {
	t.Helper()
	if err := s.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: flags,
		SGL: []verbs.SGE{s.mr.SGE(0, 8)}}); err != nil {
		t.Fatal(err)
	}
}

func (s *side) receive(t testing.TB) {
	t.Helper()
	if err := s.qp.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{s.mr.SGE(0, 8)}}); err != nil {
		t.Fatal(err)
	}
}

// waits waits for a completion.
func (s *side) waits(ctx context.Context) error {
	n, err := s.cq.Wait(ctx, s.wc[:])
	if err == nil && (n != 1 || s.wc[0].Status != verbs.StatusSuccess) {
		err = errors.New(s.wc[0].Status.String())
	}
	return err
}

// TestSleep has both sides of a ping-pong sleep for each message, at once and after pauses in which the
// devices' goroutines take over, or stand by. A signaled SEND now and then wakes its sender, too.
func TestSleep(t *testing.T) {
	a, b := connectOn(t, 4096, openEvents)
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	const trips = 1000
	failed := make(chan error, 1)
	b.receive(t)
	go func() {
		failed <- func() error {
			for range trips {
				if err := b.waits(ctx); err != nil {
					return err
				}
				b.receive(t)
				b.send(t, 0)
			}
			return nil
		}()
	}()
	for i := range trips {
		a.receive(t)
		switch {
		case i%100 == 50:
			time.Sleep(3 * time.Millisecond)
		case i%100 == 99:
			time.Sleep(20 * time.Millisecond)
		}
		completions, flags := 1, verbs.SendFlags(0)
		if i%10 == 0 {
			completions, flags = 2, verbs.Signaled
		}
		a.send(t, flags)
		for range completions {
			if err := a.waits(ctx); err != nil {
				t.Fatalf("trip %d: %v", i, err)
			}
		}
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

// TestSleepEnds ends the sleep of a program that waits for a completion that does not come.
func TestSleepEnds(t *testing.T) {
	for name, end := range map[string]func(a *side, cancel func()){
		"context": func(_ *side, cancel func()) { cancel() },
		"device":  func(a *side, _ func()) { a.dev.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := connectOn(t, 4096, openEvents)
			bound, stop := context.WithTimeout(t.Context(), long)
			defer stop()
			ctx, cancel := context.WithCancel(bound)
			defer cancel()
			for range 2 { // before, and while it sleeps
				ended := make(chan error, 1)
				go func() { ended <- a.waits(ctx) }()
				end(a, cancel)
				if err := <-ended; err == nil || bound.Err() != nil {
					t.Fatalf("the wait ended with %v", err)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// TestSleepTwo has two goroutines wait at two queues of one device: one of them moves the data of both,
// until it is gone.
func TestSleepTwo(t *testing.T) {
	a, b := connectOn(t, 4096, openEvents)
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	other := must(b.dev.CreateCQ(16, nil))
	first := make(chan error, 1)
	go func() {
		var wc [1]verbs.WC
		_, err := other.Wait(ctx, wc[:])
		first <- err
	}()
	for range 100 {
		b.receive(t)
		a.send(t, 0)
		if err := b.waits(ctx); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestAttention has a program carry out operations that complete at once, so that each poll finds something. Messages
// that arrive meanwhile are received all the same.
func TestAttention(t *testing.T) {
	a, b := connect(t, 4096)
	arrived := must(a.dev.CreateCQ(16, nil))
	qp := must(a.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: arrived, RecvCQ: arrived}))
	target := must(b.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: b.cq, RecvCQ: b.cq}))
	ep, targetEP := must(qp.Endpoint(0)), must(target.Endpoint(0))
	if err := errors.Join(qp.Connect(ep, targetEP, nil), target.Connect(targetEP, ep, nil)); err != nil {
		t.Fatal(err)
	}
	if err := qp.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{a.mr.SGE(64, 8)}}); err != nil {
		t.Fatal(err)
	}
	add := verbs.SendWR{Op: verbs.OpFetchAdd, Add: 1, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)},
		Remote: b.mr.Remote()}
	if err := target.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled,
		SGL: []verbs.SGE{b.mr.SGE(0, 8)}}); err != nil {
		t.Fatal(err)
	}
	b.done(t) // the connection is there
	for n := 0; n == 0; {
		n = arrived.Poll(a.wc[:])
	}
	if err := qp.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{a.mr.SGE(64, 8)}}); err != nil {
		t.Fatal(err)
	}
	one := func() {
		if err := a.qp.PostSend(&add); err != nil {
			t.Fatal(err)
		}
		a.done(t)
	}
	for range 10_000 { // the device's goroutine leaves the data to the program
		one()
	}
	if err := target.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{b.mr.SGE(0, 8)}}); err != nil {
		t.Fatal(err)
	}
	// A poll of the other queue would make a pass itself. A pass follows within 64 completions; some may
	// be left to a device's goroutine, if it moves data at the moment, and that may get no processor for a while.
	empty := driver.CQOf(arrived).(interface{ Empty() bool }).Empty
	for end := time.Now().Add(long); empty(); one() {
		if time.Now().After(end) {
			t.Fatal("a message that has arrived is not received")
		}
	}
}

// TestRevoked ends a region that a SEND names, whose memory is in no segment: the program may use it for
// something else at once.
func TestRevoked(t *testing.T) {
	a, b := connect(t, 1<<20)
	b.receive(t)
	a.send(t, verbs.Signaled) // the connection is there
	a.done(t)
	b.done(t)
	buf := make([]byte, 1<<18)
	mr := must(a.pd.RegMR(buf, verbs.LocalWrite))
	if err := a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled,
		SGL: []verbs.SGE{mr.SGE(0, len(buf))}}); err != nil {
		t.Fatal(err)
	}
	if err := mr.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range buf {
		buf[i] = 0xee
	}
	if err := b.qp.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{b.mr.SGE(0, len(buf))}}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(long); a.cq.Poll(a.wc[:]) == 0; b.cq.Poll(b.wc[:]) {
		if time.Now().After(end) {
			t.Fatal("the SEND does not end")
		}
	}
	if a.wc[0].Status != verbs.StatusLocalProtectionError {
		t.Errorf("the SEND ends with %v", a.wc[0].Status)
	}
	for i, v := range b.mr.Bytes()[:len(buf)] {
		if v == 0xee {
			t.Fatalf("byte %d is of after the end of the region", i)
		}
	}
}

// TestNoTimestamps asks for completions without timestamps.
func TestNoTimestamps(t *testing.T) {
	a, b := connect(t, 4096)
	for _, none := range []bool{false, true} {
		cq := must(a.dev.CreateCQ(16, &verbs.CQOptions{NoTimestamps: none}))
		qp := must(a.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}))
		target := must(b.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: b.cq, RecvCQ: b.cq}))
		ep, targetEP := must(qp.Endpoint(0)), must(target.Endpoint(0))
		if err := errors.Join(qp.Connect(ep, targetEP, nil), target.Connect(targetEP, ep, nil)); err != nil {
			t.Fatal(err)
		}
		for range 2 { // through the send queue, as there is no connection yet, and at once
			if err := qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled,
				SGL: []verbs.SGE{a.mr.SGE(0, 8)}, Remote: b.mr.Remote()}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), long)
			var wc [1]verbs.WC
			if _, err := cq.Wait(ctx, wc[:]); err != nil || wc[0].Status != verbs.StatusSuccess ||
				(wc[0].Timestamp == 0) != none {
				t.Errorf("without timestamps: %v: %v, %+v", none, err, wc[0])
			}
			cancel()
		}
	}
}
