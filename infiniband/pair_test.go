// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// side is a queue pair, with memory and a completion queue of its own.
type side struct {
	dev *verbs.Device
	pd  *verbs.PD
	cq  *verbs.CQ
	mr  *verbs.MR
	qp  *verbs.QP
}

// newSide makes a queue pair of a device, with size bytes of memory.
func newSide(tb testing.TB, dev *verbs.Device, size int) *side {
	tb.Helper()
	s := &side{dev: dev}
	check := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	var err error
	s.pd, err = dev.AllocPD()
	check(err)
	s.cq, err = dev.CreateCQ(1024, nil)
	check(err)
	s.mr, err = s.pd.RegMR(make([]byte, size), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	check(err)
	s.qp, err = s.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq})
	check(err)
	return s
}

// connect connects two queue pairs.
func connect(tb testing.TB, a, b *side) {
	tb.Helper()
	from, err := a.qp.Endpoint(0)
	if err != nil {
		tb.Fatal(err)
	}
	to, err := b.qp.Endpoint(0)
	if err != nil {
		tb.Fatal(err)
	}
	if err := a.qp.Connect(from, to, &verbs.ConnectOptions{Timeout: patient}); err != nil {
		tb.Fatal(err)
	}
	if err := b.qp.Connect(to, from, &verbs.ConnectOptions{Timeout: patient}); err != nil {
		tb.Fatal(err)
	}
}

// connectAt connects two queue pairs by a service level.
func connectAt(tb testing.TB, a, b *side, sl uint8) {
	tb.Helper()
	lids := [2]uint16{lidOf(tb, a.dev), lidOf(tb, b.dev)}
	sides := [2]*side{a, b}
	for i, s := range sides {
		attr := verbs.QPAttr{Port: 1, Access: verbs.RemoteWrite, AH: verbs.AHAttr{DLID: lids[1-i], SL: sl},
			PathMTU: verbs.MTU4096, DestQPN: sides[1-i].qp.Num(), Timeout: patient, RetryCount: 7, RNRRetry: 7,
			MaxRdAtomic:     1,
			MaxDestRdAtomic: 1}
		for _, step := range []struct {
			to   verbs.QPState
			mask verbs.QPMask
		}{
			{verbs.StateInit, verbs.MaskPKeyIndex | verbs.MaskPort | verbs.MaskAccess},
			{verbs.StateRTR, verbs.MaskAH | verbs.MaskPathMTU | verbs.MaskDestQPN | verbs.MaskRQPSN |
				verbs.MaskMaxDestRdAtomic | verbs.MaskMinRNRTimer},
			{verbs.StateRTS, verbs.MaskTimeout | verbs.MaskRetryCount | verbs.MaskRNRRetry | verbs.MaskMaxRdAtomic |
				verbs.MaskSQPSN},
		} {
			attr.State = step.to
			if err := s.qp.Modify(attr, verbs.MaskState|step.mask); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

// lidOf returns the LID of a device's first port.
func lidOf(tb testing.TB, dev *verbs.Device) uint16 {
	tb.Helper()
	p, err := dev.Port(1)
	if err != nil {
		tb.Fatal(err)
	}
	return p.LID
}

// write posts a WRITE of all memory of s into that of to.
func (s *side) write(tb testing.TB, to *side) {
	tb.Helper()
	if err := s.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled,
		SGL: []verbs.SGE{s.mr.SGE(0, s.mr.Len())}, Remote: to.mr.Remote()}); err != nil {
		tb.Fatal(err)
	}
}

// wait polls until n completions or more have come, and returns how many.
func (s *side) wait(tb testing.TB, n int) (done int) {
	tb.Helper()
	var wcs [16]verbs.WC
	for until := time.Now().Add(time.Minute); done < n; {
		got := s.cq.Poll(wcs[:])
		if got == 0 && time.Now().After(until) {
			tb.Fatalf("%s: %d completions are missing", s.dev.Name(), n-done)
		}
		for _, wc := range wcs[:got] {
			if wc.Status != verbs.StatusSuccess {
				tb.Fatalf("%v: %v", wc.Op, wc.Status)
			}
		}
		done += got
	}
	return done
}
