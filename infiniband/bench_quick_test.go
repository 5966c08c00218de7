package infiniband

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func benchWrite(b *testing.B, x, y *verbs.Device) {
	type e struct {
		pd *verbs.PD
		cq *verbs.CQ
		mr *verbs.MR
		qp *verbs.QP
		ep verbs.Endpoint
	}
	var es [2]e
	const size = 1 << 20
	for i, d := range []*verbs.Device{x, y} {
		pd, err := d.AllocPD()
		if err != nil {
			b.Fatal(err)
		}
		cq, _ := d.CreateCQ(256, nil)
		mr, err := pd.AllocMR(size, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
		if err != nil {
			b.Fatal(err)
		}
		qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSendWR: 64})
		if err != nil {
			b.Fatal(err)
		}
		ep, err := qp.Endpoint(0)
		if err != nil {
			b.Fatal(err)
		}
		es[i] = e{pd, cq, mr, qp, ep}
	}
	for i := range es {
		if err := es[i].qp.Connect(es[i].ep, es[1-i].ep, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(size)
	b.ResetTimer()
	inflight := 0
	var wcs [16]verbs.WC
	start := time.Now()
	for i := 0; i < b.N || inflight > 0; {
		for inflight < 8 && i < b.N {
			if err := es[0].qp.PostSend(&verbs.SendWR{Op: verbs.Write, Flags: verbs.Signaled, SGL: []verbs.SGE{es[0].mr.SGE(0, size)}, Remote: es[1].mr.Remote()}); err != nil {
				b.Fatal(err)
			}
			inflight++
			i++
		}
		n := es[0].cq.Poll(wcs[:])
		for _, w := range wcs[:n] {
			if w.Status != verbs.Success {
				b.Fatal(w.Status)
			}
		}
		inflight -= n
		if time.Since(start) > time.Minute {
			b.Fatal("stuck")
		}
	}
}

func BenchmarkIB(b *testing.B) {
	top, _ := topology.Star(4)
	run, err := fabric.New(top, &fabric.Options{NoManager: true})
	if err != nil {
		b.Fatal(err)
	}
	run.Manual()
	f := &Fabric{run}
	x, err := f.Open("", nil)
	if err != nil {
		b.Fatal(err)
	}
	y, _ := f.Open("", nil)
	defer x.Close()
	defer y.Close()
	benchWrite(b, x, y)
}

func BenchmarkRoCE(b *testing.B) {
	x, err := roce.Open("127.9.9.1", nil)
	if err != nil {
		b.Fatal(err)
	}
	y, _ := roce.Open("127.9.9.2", nil)
	defer x.Close()
	defer y.Close()
	benchWrite(b, x, y)
}
