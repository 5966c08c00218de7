// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// transfer is a stream of messages of one kind between two devices.
type transfer struct {
	op     verbs.SendOp // Send, Write or Read
	length int          // bytes of a message
	depth  int          // messages in flight
	path   simnet.Path  // in both directions
	window int          // Host.Window
	// buffer and perPacket are the receiver's, see Host; 0: the defaults.
	buffer    int
	perPacket time.Duration
}

// result is the result of a transfer.
type result struct {
	messages int
	goodput  float64 // bits of messages that completed, per second

	packets, rewinds, timeouts, overflows uint64 // of both sides
}

// goodput runs a transfer for a time, from the first packet on.
func goodput(t *testing.T, tr transfer, d time.Duration) (r result) {
	t.Helper()
	// The collector runs, which steady does not let it: there are many packets. It need not for each few megabytes.
	procs, percent := runtime.GOMAXPROCS(1), debug.SetGCPercent(400)
	defer func() {
		runtime.GOMAXPROCS(procs)
		debug.SetGCPercent(percent)
	}()
	cryptotest.SetGlobalRandom(t, 1)
	synctest.Test(t, func(t *testing.T) { r = tr.run(t, d) })
	return r
}

func (tr *transfer) run(t *testing.T, d time.Duration) (r result) {
	n := simnet.New(1, nil)
	defer n.Close()
	n.Default = tr.path
	ctx, cancel := context.WithCancel(t.Context())
	var ends [2]*transferEnd
	for i := range ends {
		h := n.NewHost()
		h.Window, h.PerPacket = tr.window, tr.perPacket
		if tr.buffer != 0 {
			h.Buffer = tr.buffer
		}
		ends[i] = newTransferEnd(t, h, tr)
		defer ends[i].dev.Close()
	}
	a, b := ends[0], ends[1]
	opt := &verbs.ConnectOptions{MTU: verbs.MTU1024, Timeout: 14, MinRNRTimer: 5, RdAtomic: 16}
	for i, e := range ends {
		if err := e.qp.Connect(e.ep, ends[1-i].ep, opt); err != nil {
			t.Fatal(err)
		}
	}
	receiving := make(chan struct{})
	go func() {
		defer close(receiving)
		if tr.op == verbs.OpSend {
			b.receive(ctx, t, tr)
		}
	}()
	post := func() {
		wr := verbs.SendWR{Op: tr.op, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, tr.length)},
			Remote: b.mr.Remote()}
		if err := a.qp.PostSend(&wr); err != nil {
			t.Error(err)
		}
	}
	end, stop := context.WithTimeout(ctx, d)
	for range tr.depth {
		post()
	}
	var wcs [16]verbs.WC
	for !t.Failed() {
		k, err := a.cq.Wait(end, wcs[:])
		if err != nil {
			break
		}
		for _, wc := range wcs[:k] {
			if wc.Status != verbs.StatusSuccess {
				t.Fatalf("a message ends with %v", wc.Status)
			}
			r.messages++
			post()
		}
	}
	stop()
	cancel()
	<-receiving
	r.goodput = float64(r.messages) * float64(tr.length) * 8 / d.Seconds()
	for _, e := range ends {
		metrics, err := e.dev.Metrics()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range metrics {
			switch m.Name {
			case "sent_pkts":
				r.packets += m.Value
			case "rewinds":
				r.rewinds += m.Value
			case "timeouts":
				r.timeouts += m.Value
			}
		}
		r.overflows += e.host.Overflows()
	}
	return r
}

// transferEnd is one end of a transfer.
type transferEnd struct {
	host *simnet.Host
	dev  *verbs.Device
	cq   *verbs.CQ
	qp   *verbs.QP
	ep   verbs.Endpoint
	mr   *verbs.MR
}

func newTransferEnd(t *testing.T, h *simnet.Host, tr *transfer) *transferEnd {
	dev := h.OpenRoCE()
	e := &transferEnd{host: h, dev: dev}
	pd, err := dev.AllocPD()
	must := func(e error) {
		t.Helper()
		if e != nil {
			t.Fatal(e)
		}
	}
	must(err)
	e.cq, err = dev.CreateCQ(2*tr.depth, &verbs.CQOptions{Spin: -1, LockedThread: true})
	must(err)
	e.mr, err = pd.RegMR(make([]byte, tr.length), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
	must(err)
	e.qp, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq,
		Cap: verbs.QPCap{MaxSendWR: tr.depth, MaxRecvWR: 2 * tr.depth}})
	must(err)
	e.ep, err = e.qp.Endpoint(0)
	must(err)
	return e
}

// receive keeps receives posted.
func (e *transferEnd) receive(ctx context.Context, t *testing.T, tr *transfer) {
	post := func() {
		if err := e.qp.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{e.mr.SGE(0, tr.length)}}); err != nil {
			t.Error(err)
		}
	}
	for range 2 * tr.depth {
		post()
	}
	var wcs [16]verbs.WC
	for {
		n, err := e.cq.Wait(ctx, wcs[:])
		if err != nil {
			return
		}
		for range n {
			post()
		}
	}
}

// TestGoodput prints how much arrives under loss, on a path of 1 Gb/s with 100 µs of delay each way:
// go test -run TestGoodput -v. Nothing may fail, and more loss does not help.
func TestGoodput(t *testing.T) {
	losses := []float64{0, 0.001, 0.01, 0.05}
	switch {
	case raceDetector: // more rows would tell it nothing new
		losses = []float64{0, 0.05}
	case testrun.Long():
		losses = []float64{0, 0.001, 0.005, 0.01, 0.02, 0.05}
	}
	for _, op := range []verbs.SendOp{verbs.OpSend, verbs.OpWrite, verbs.OpRead} {
		t.Run(op.String(), func(t *testing.T) {
			before := 0.0
			for _, loss := range losses {
				tr := transfer{op: op, length: 64 << 10, depth: 16, window: 1 << 20,
					path: simnet.Path{Rate: 1e9, Delay: 100 * time.Microsecond, Loss: loss}}
				r := goodput(t, tr, 400*time.Millisecond)
				t.Logf("loss %4.1f %%  %6.1f Mb/s  %6d packets  %5d times back  %4d timeouts", 100*loss, r.goodput/1e6,
					r.packets, r.rewinds, r.timeouts)
				if loss == 0 && (r.goodput < 0.85e9 || r.rewinds != 0) {
					t.Errorf("%.1f Mb/s and %d times back without loss", r.goodput/1e6, r.rewinds)
				}
				if before > 0 && r.goodput > 1.1*before {
					t.Errorf("loss %.1f %%: more than with less loss", 100*loss)
				}
				before = r.goodput
			}
		})
	}
}

// TestOverrun lets a receiver's buffer be a tenth of the size that the window assumes: the window becomes one that
// fits, and a good part of the receiver's rate arrives.
func TestOverrun(t *testing.T) {
	for _, op := range []verbs.SendOp{verbs.OpWrite, verbs.OpRead} {
		tr := transfer{op: op, length: 64 << 10, depth: 16, window: 2 << 20, buffer: 208 << 10,
			perPacket: 2 * time.Microsecond, path: simnet.Path{Rate: 10e9, Delay: 20 * time.Microsecond}}
		r := goodput(t, tr, 300*time.Millisecond)
		t.Logf("%v: %.1f Mb/s, %d packets dropped of %d, %d times back, %d timeouts", op, r.goodput/1e6, r.overflows,
			r.packets, r.rewinds, r.timeouts)
		if r.overflows == 0 {
			t.Errorf("%v: the buffer never overflowed", op)
		}
		if most := 1024 * 8 / 2e-6; r.goodput < most/8 {
			t.Errorf("%v: %.1f Mb/s, the receiver handles %.1f", op, r.goodput/1e6, most/1e6)
		}
	}
}
