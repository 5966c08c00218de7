// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// stall makes a device whose port takes nothing, and a queue pair in ERR beside the one that
// something is to be sent of.
func stall(t *testing.T) (a *side, broken *verbs.QP) {
	t.Helper()
	a, b := newPair(t)
	broken = a.newPlayer(1, nil).qp
	a.ok(broken.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
	a.port.full.Store(true)
	a.write(b, 8)
	a.asleep()
	return a, broken
}

// TestCompletionsWhileStalled holds that the program hears of what has completed while the port
// takes nothing.
func TestCompletionsWhileStalled(t *testing.T) {
	a, broken := stall(t)
	a.ok(broken.PostSend(&verbs.SendWR{ID: 7, Op: verbs.OpWrite}))
	var wc [1]verbs.WC
	if n := a.cq.Poll(wc[:]); n != 1 || wc[0].ID != 7 || wc[0].Status != verbs.StatusWRFlushError {
		t.Errorf("%d completions, %+v", n, wc[0])
	}
}

// TestNoCompletionsAfterDestroy holds that a queue pair's completions go with it (IBTA 10.2.4.4), also
// while the port takes nothing.
func TestNoCompletionsAfterDestroy(t *testing.T) {
	a, broken := stall(t)
	a.ok(broken.PostSend(&verbs.SendWR{ID: 7, Op: verbs.OpWrite}))
	a.ok(broken.Close())
	a.port.in.change(func() { a.port.full.Store(false) })
	if wc := a.wait(); wc.ID == 7 {
		t.Errorf("a completion of the queue pair that was destroyed: %+v", wc)
	}
}

// TestOverflowWhileSending has a completion queue overflow by what completes as it is sent, while the
// device's goroutine sleeps: it looks who may have the room of the queue pair that broke.
func TestOverflowWhileSending(t *testing.T) {
	a, b := newPair(t)
	mr, err := a.pd.RegMR(make([]byte, 64), verbs.LocalWrite|verbs.MWBind)
	a.ok(err)
	small, err := a.dev.CreateCQ(1, &verbs.CQOptions{Spin: -1})
	a.ok(err)
	q, err := a.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: small, RecvCQ: small})
	a.ok(err)
	ep, err := q.Endpoint(0)
	a.ok(err)
	a.ok(q.Connect(ep, b.ep, nil))
	var binds []verbs.SendWR
	for range 2 {
		mw, err := a.pd.AllocMW(verbs.MWType2)
		a.ok(err)
		binds = append(binds, verbs.SendWR{Op: verbs.OpBindMW, Flags: verbs.Signaled,
			Bind: &verbs.MWBindInfo{MW: mw, MR: mr, RKey: mw.NextRKey(), Addr: mr.Addr(), Length: 8}})
	}
	a.asleep()
	_, err = q.PostSendList(binds)
	a.ok(err)
	if q.State() != verbs.StateError || small.Err() == nil {
		t.Fatalf("state %v, queue %v", q.State(), small.Err())
	}
	a.eventually(func() bool {
		a.soft.Lane.Mu.Lock()
		defer a.soft.Lane.Mu.Unlock()
		return a.soft.schedule.ready.Len() == 0
	}, "the goroutine has looked")
}
