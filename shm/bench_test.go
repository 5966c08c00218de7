// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shm_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// side is one end of a connection.
type side struct {
	dev *verbs.Device
	pd  *verbs.PD
	cq  *verbs.CQ
	mr  *verbs.MR
	qp  *verbs.QP
	ep  verbs.Endpoint
	wc  [1]verbs.WC
}

const all = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.FlushGlobal

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// connect makes two ends with regions of n bytes.
func connect(t testing.TB, n int) (a, b *side) { return connectOn(t, n, open) }

// connectOn is connect with devices that a function opens.
func connectOn(t testing.TB, n int, open func(testing.TB) *verbs.Device) (a, b *side) {
	t.Helper()
	var sides [2]*side
	for i := range sides {
		dev := open(t)
		s := &side{dev: dev, pd: must(dev.AllocPD()),
			cq: must(dev.CreateCQ(1024, &verbs.CQOptions{NoTimestamps: true}))}
		s.mr = must(s.pd.AllocMR(n, all))
		s.qp = must(s.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq,
			Cap: verbs.QPCap{MaxSendWR: 256, MaxRecvWR: 256, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInline: 64}}))
		s.ep = must(s.qp.Endpoint(0))
		sides[i] = s
	}
	a, b = sides[0], sides[1]
	for _, c := range [][2]*side{{a, b}, {b, a}} {
		if err := c[0].qp.Connect(c[0].ep, c[1].ep, nil); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

// done polls for a completion.
func (s *side) done(t testing.TB) {
	for s.cq.Poll(s.wc[:]) == 0 {
	}
	if s.wc[0].Status != verbs.StatusSuccess {
		t.Fatal(s.wc[0].Status)
	}
}

func benchmarkOne(b *testing.B, wr func(initiator, target *side) verbs.SendWR) {
	initiator, target := connect(b, 1<<20)
	w := wr(initiator, target)
	w.Flags |= verbs.Signaled
	if err := initiator.qp.PostSend(&w); err != nil {
		b.Fatal(err)
	}
	initiator.done(b)
	b.SetBytes(int64(max(8, w.SGL[0].Length)))
	b.ReportAllocs()
	for b.Loop() {
		if err := initiator.qp.PostSend(&w); err != nil {
			b.Fatal(err)
		}
		initiator.done(b)
	}
}

func BenchmarkFetchAdd(b *testing.B) {
	benchmarkOne(b, func(initiator, target *side) verbs.SendWR {
		return verbs.SendWR{Op: verbs.OpFetchAdd, Add: 1, SGL: []verbs.SGE{initiator.mr.SGE(0, 8)},
			Remote: target.mr.Remote()}
	})
}

func BenchmarkWrite8(b *testing.B)  { benchmarkWrite(b, 8) }
func BenchmarkWrite1M(b *testing.B) { benchmarkWrite(b, 1<<20) }

func benchmarkWrite(b *testing.B, n int) {
	benchmarkOne(b, func(initiator, target *side) verbs.SendWR {
		return verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{initiator.mr.SGE(0, n)}, Remote: target.mr.Remote()}
	})
}
