// SPDX-License-Identifier: Apache-2.0

package packetdev

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
	a.OK(broken.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
	a.Port.Full.Store(true)
	a.Write(&b.Side, 8)
	a.Asleep()
	return a, broken
}

// TestCompletionsWhileStalled holds that the program gets completions while the port takes nothing.
func TestCompletionsWhileStalled(t *testing.T) {
	a, broken := stall(t)
	a.OK(broken.PostSend(&verbs.SendWR{ID: 7, Op: verbs.OpWrite}))
	var wc [1]verbs.WC
	if n := a.CQ.Poll(wc[:]); n != 1 || wc[0].ID != 7 || wc[0].Status != verbs.StatusWRFlushError {
		t.Errorf("%d completions, %+v", n, wc[0])
	}
}

// TestNoCompletionsAfterDestroy holds that a queue pair's completions go with it (IBTA 10.2.4.4), also
// while the port takes nothing.
func TestNoCompletionsAfterDestroy(t *testing.T) {
	a, broken := stall(t)
	a.OK(broken.PostSend(&verbs.SendWR{ID: 7, Op: verbs.OpWrite}))
	a.OK(broken.Close())
	a.Port.In.Change(func() { a.Port.Full.Store(false) })
	if wc := a.Wait(); wc.ID == 7 {
		t.Errorf("a completion of the queue pair that was destroyed: %+v", wc)
	}
}

// TestOverflowWhileSending has a completion queue overflow by work requests that complete as they are sent, while the
// device's goroutine sleeps: it looks which queue pair may have the room of the one that broke.
func TestOverflowWhileSending(t *testing.T) {
	a, b := newPair(t)
	mr, err := a.PD.RegMR(make([]byte, 64), verbs.LocalWrite|verbs.MWBind)
	a.OK(err)
	small, err := a.Dev.CreateCQ(1, &verbs.CQOptions{Spin: -1})
	a.OK(err)
	q, err := a.PD.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: small, RecvCQ: small})
	a.OK(err)
	ep, err := q.Endpoint(0)
	a.OK(err)
	a.OK(q.Connect(ep, b.EP, nil))
	var binds []verbs.SendWR
	for range 2 {
		mw, err := a.PD.AllocMW(verbs.MWType2)
		a.OK(err)
		binds = append(binds, verbs.SendWR{Op: verbs.OpBindMW, Flags: verbs.Signaled,
			Bind: &verbs.MWBindInfo{MW: mw, MR: mr, RKey: mw.NextRKey(), Addr: mr.Addr(), Length: 8}})
	}
	a.Asleep()
	_, err = q.PostSendList(binds)
	a.OK(err)
	if q.State() != verbs.StateError || small.Err() == nil {
		t.Fatalf("state %v, queue %v", q.State(), small.Err())
	}
	a.Eventually(func() bool {
		a.soft.Lane.Mu.Lock()
		defer a.soft.Lane.Mu.Unlock()
		return a.soft.lane.schedule.ready.Len() == 0
	}, "the goroutine has looked")
}
