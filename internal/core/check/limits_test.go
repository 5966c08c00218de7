// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/check"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const anyAccess = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.MWBind

// loop is a device that is checked, with two of its queue pairs connected to each other.
type loop struct {
	*world
	dev *verbs.Device
	pd  *verbs.PD
	mr  *verbs.MR // 64 KiB
	qps [2]*verbs.QP
	cqs [2]*verbs.CQ
}

func newLoop(t *testing.T, kind string, init verbs.QPInit) *loop {
	w := &loop{world: &world{T: t}}
	opts, err := check.ParseOptions("")
	w.ok(err)
	w.checker = check.New(&w.report, opts)
	w.dev = open(t, kind)
	w.checker.Watch(w.dev)
	w.pd, err = w.dev.AllocPD()
	w.ok(err)
	w.mr = w.region(w.pd, 64<<10)
	for i := range w.qps {
		w.cqs[i], err = w.dev.CreateCQ(64, nil)
		w.ok(err)
		init.SendCQ, init.RecvCQ = w.cqs[i], w.cqs[i]
		w.qps[i], err = w.pd.CreateQP(init)
		w.ok(err)
	}
	if init.Type == verbs.UD {
		w.ok(w.qps[0].StartUD(qkey))
		w.ok(w.qps[1].StartUD(qkey))
		return w
	}
	a, err := w.qps[0].Endpoint(0)
	w.ok(err)
	b, err := w.qps[1].Endpoint(0)
	w.ok(err)
	w.ok(w.qps[0].Connect(a, b, &pair.Patient))
	w.ok(w.qps[1].Connect(b, a, &pair.Patient))
	return w
}

const qkey = 0x11111111

func (w *loop) region(pd *verbs.PD, n int) *verbs.MR {
	w.Helper()
	mr, err := pd.RegMR(make([]byte, n), anyAccess)
	w.ok(err)
	return mr
}

// send posts a signaled work request of the first queue pair, and returns its status.
func (w *loop) send(wr *verbs.SendWR) verbs.Status {
	w.Helper()
	wr.Flags |= verbs.Signaled
	w.ok(w.qps[0].PostSend(wr))
	return w.wait(w.cqs[0]).Status
}

// wrongAndRight runs a mistake and its correct twin on all kinds of device that have what they need, and compares what
// is reported.
func wrongAndRight(t *testing.T, rule string, kinds []string, init verbs.QPInit, f func(w *loop, mistake bool)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			w := newLoop(t, kind, init)
			f(w, false)
			w.want()
			w = newLoop(t, kind, init)
			f(w, true)
			w.want(rule)
		})
	}
}

// TestCQResized makes a completion queue smaller than what is posted.
func TestCQResized(t *testing.T) {
	wrongAndRight(t, "cq-overflow", kinds, verbs.QPInit{Type: verbs.RC}, func(w *loop, mistake bool) {
		for i := range 12 {
			w.ok(w.qps[1].PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{w.mr.SGE(64*i, 64)}}))
		}
		n := 12
		if mistake {
			n = 8
		}
		w.ok(w.cqs[1].Resize(n))
	})
}

// TestAtomicResult has the result of an atomic go to an address that is no multiple of 8.
func TestAtomicResult(t *testing.T) {
	wrongAndRight(t, "atomic-alignment", kinds, verbs.QPInit{Type: verbs.RC}, func(w *loop, mistake bool) {
		off := 64
		if mistake {
			off = 68
		}
		w.send(new(verbs.SendWR).FetchAdd(w.mr.Remote(), 1, w.mr.SGE(off, 8)))
	})
}

// TestForeignRegionEnded has a peer's key of another domain be refused, and its region closed before anybody looks.
func TestForeignRegionEnded(t *testing.T) {
	wrongAndRight(t, "foreign-pd", kinds, verbs.QPInit{Type: verbs.RC}, func(w *loop, mistake bool) {
		other, err := w.dev.AllocPD()
		w.ok(err)
		pd := w.pd
		if mistake {
			pd = other
		}
		mr := w.region(pd, 64)
		w.send(new(verbs.SendWR).Read(mr.Remote(), w.mr.SGE(0, 64)))
		w.ok(mr.Close())
		w.ok(other.Close())
		w.ok(w.qps[1].Close())
	})
}

var toError = verbs.QPAttr{State: verbs.StateError}

// TestRegionBeforeFlush closes the region of a receive before its flush was polled, or after that.
func TestRegionBeforeFlush(t *testing.T) {
	wrongAndRight(t, "region-in-use", kinds, verbs.QPInit{Type: verbs.RC}, func(w *loop, mistake bool) {
		mr := w.region(w.pd, 64)
		w.ok(w.qps[1].PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{mr.SGE(0, 64)}}))
		w.ok(w.qps[1].Modify(toError, verbs.MaskState))
		if mistake {
			w.ok(mr.Close())
		}
		w.wait(w.cqs[1])
		w.ok(mr.Close())
	})
}

// TestRegionAfterError closes it and never polls again, which is no mistake: the device does not use it any more.
func TestRegionAfterError(t *testing.T) {
	w := newLoop(t, "roce", verbs.QPInit{Type: verbs.RC})
	mr := w.region(w.pd, 64)
	w.ok(w.qps[1].PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{mr.SGE(0, 64)}}))
	w.ok(w.qps[1].Modify(toError, verbs.MaskState))
	w.ok(mr.Close())
	w.ok(w.qps[1].Close())
	w.want()
}

// TestFlushUnread polls the flush of one of three sends, or of all of them, or of none.
func TestFlushUnread(t *testing.T) {
	for _, n := range []int{0, 1, 3} {
		w := newLoop(t, "roce", verbs.QPInit{Type: verbs.RC})
		w.ok(w.qps[1].PostRecv(&verbs.RecvWR{}))
		w.ok(w.qps[0].Modify(toError, verbs.MaskState))
		for range 3 {
			wr := new(verbs.SendWR).Write(w.mr.Remote(), w.mr.SGE(0, 64))
			wr.Flags = verbs.Signaled
			w.ok(w.qps[0].PostSend(wr))
		}
		for range n {
			w.wait(w.cqs[0])
		}
		w.ok(w.qps[0].Close())
		if n == 1 {
			w.want("completion-error-unread")
			continue
		}
		w.want()
	}
}

// TestInlineOfC has a C program send more inline data than it has asked for, though the device takes it. In Go 0 stands
// for a default. The 8 bytes of an ATOMIC_WRITE are no inline data.
func TestInlineOfC(t *testing.T) {
	for _, c := range []bool{false, true} {
		wrongAndRight(t, "inline-limit", []string{"roce"}, verbs.QPInit{Type: verbs.RC}, func(w *loop, mistake bool) {
			if c {
				w.checker.Handles()
			}
			init := verbs.QPInit{Type: verbs.RC, SendCQ: w.cqs[0], RecvCQ: w.cqs[0]}
			switch {
			case !c && mistake:
				init.Cap.MaxInline = 7
			case c && !mistake:
				init.Cap.MaxInline = 8
			}
			qp, err := w.pd.CreateQP(init)
			w.ok(err)
			qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Inline: make([]byte, 8)}) // it is not connected
			init.Cap.MaxInline = 1
			qp, err = w.pd.CreateQP(init)
			w.ok(err)
			qp.PostSend(&verbs.SendWR{Op: verbs.OpAtomicWrite, Inline: make([]byte, 8)})
		})
	}
}
