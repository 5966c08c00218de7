// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shm_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// receivesOf returns n receives of up to size bytes.
func receivesOf(s *side, n, size int) []verbs.RecvWR {
	wrs := make([]verbs.RecvWR, n)
	for i := range wrs {
		wrs[i].SGL = []verbs.SGE{s.mr.SGE(0, size)}
	}
	return wrs
}

// give posts receives.
func (s *side) give(t testing.TB, wrs []verbs.RecvWR) {
	if _, err := s.qp.PostRecvList(wrs); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkPingPong8 is a round trip of SENDs of 8 bytes between two devices of one goroutine, which polls
// both: what the processors have to do, without what cache lines cost between two of them.
func BenchmarkPingPong8(b *testing.B) {
	initiator, target := connect(b, 4096)
	type half struct {
		from, to *side
		wr       verbs.SendWR
		recvs    []verbs.RecvWR
		posted   int
	}
	halves := [2]half{{from: initiator, to: target}, {from: target, to: initiator}}
	for i := range halves {
		h := &halves[i]
		h.wr = verbs.SendWR{Op: verbs.OpSend, Inline: h.from.mr.Bytes()[64:72]}
		h.recvs = receivesOf(h.to, 64, 64)
		h.to.give(b, h.recvs)
		h.to.give(b, h.recvs)
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range halves {
			h := &halves[i]
			h.wr.Flags = 0
			if h.posted++; h.posted%64 == 0 {
				h.wr.Flags = verbs.Signaled
				h.to.give(b, h.recvs)
			}
			if err := h.from.qp.PostSend(&h.wr); err != nil {
				b.Fatal(err)
			}
			for h.to.done(b); h.to.wc[0].Op != verbs.WCRecv; h.to.done(b) {
			}
		}
	}
}

// BenchmarkSend64 measures the time of a SEND of 64 bytes for both sides together in deep queues, polled by one
// goroutine.
func BenchmarkSend64(b *testing.B) {
	const batch = 64
	initiator, target := connect(b, 4096)
	wrs := make([]verbs.SendWR, batch)
	for i := range wrs {
		wrs[i] = verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{initiator.mr.SGE(64, 64)}}
	}
	wrs[batch-1].Flags = verbs.Signaled
	recvs := receivesOf(target, batch, 64)
	var wcs [batch]verbs.WC
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n++; n%batch != 0 { // an iteration is a message
			continue
		}
		target.give(b, recvs)
		for i := range wrs {
			if err := initiator.qp.PostSend(&wrs[i]); err != nil {
				b.Fatal(err)
			}
		}
		for got := 0; got < batch; {
			got += target.cq.Poll(wcs[:])
		}
		initiator.done(b)
	}
}
