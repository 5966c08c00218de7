// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestKeyInUse has a client use a key that the server has withdrawn.
func TestKeyInUse(t *testing.T) {
	onAll(t, func(w *shared) {
		w.post(0, verbs.OpRead, 0, 64)
		w.done(0)
		remote := w.mr.Remote()
		w.ok(w.mr.Close())
		c := &w.clients[0]
		w.ok(c.qp.PostSend(&verbs.SendWR{ID: 2, Op: verbs.OpRead, Flags: verbs.Signaled,
			SGL: []verbs.SGE{c.mr.SGE(0, 64)}, Remote: remote}))
		if wc := w.wait(c.cq); wc.Status == verbs.StatusSuccess {
			t.Fatal("the key was good")
		}
		w.checker.Exit()
		if got := strings.Join(w.rules(), " "); !strings.Contains(got, "key-in-use") {
			t.Errorf("reported %q", got)
		}
	})
}

// TestNoKeyInUse has it use a key that never was.
func TestNoKeyInUse(t *testing.T) {
	onAll(t, func(w *shared) {
		remote := w.mr.Remote()
		remote.Key ^= 1
		w.ok(w.mr.Close())
		c := &w.clients[0]
		w.ok(c.qp.PostSend(&verbs.SendWR{ID: 2, Op: verbs.OpRead, Flags: verbs.Signaled,
			SGL: []verbs.SGE{c.mr.SGE(0, 64)}, Remote: remote}))
		if wc := w.wait(c.cq); wc.Status == verbs.StatusSuccess {
			t.Fatal("the key was good")
		}
		w.checker.Exit()
		if got := strings.Join(w.rules(), " "); strings.Contains(got, "key-in-use") {
			t.Errorf("reported %q", got)
		}
	})
}

// TestForeignPD has a client use the key of another domain of the server.
func TestForeignPD(t *testing.T) {
	onAll(t, func(w *shared) {
		pd, err := w.pd.Device().AllocPD()
		w.ok(err)
		mr, err := pd.RegMR(make([]byte, 64), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
		w.ok(err)
		c := &w.clients[0]
		w.ok(c.qp.PostSend(&verbs.SendWR{ID: 2, Op: verbs.OpRead, Flags: verbs.Signaled,
			SGL: []verbs.SGE{c.mr.SGE(0, 64)}, Remote: mr.Remote()}))
		if wc := w.wait(c.cq); wc.Status == verbs.StatusSuccess {
			t.Fatal("the key was good")
		}
		w.checker.Exit()
		if got := strings.Join(w.rules(), " "); !strings.Contains(got, "foreign-pd") {
			t.Errorf("reported %q", got)
		}
	})
}

// TestRdAtomicDepth has a client that may have more READs outstanding than the server takes.
func TestRdAtomicDepth(t *testing.T) {
	for _, deep := range []uint8{2, 3} {
		onAll(t, func(w *shared) {
			here, err := w.qps[0].Endpoint(0)
			w.ok(err)
			there, err := w.clients[0].qp.Endpoint(0)
			w.ok(err)
			reset := verbs.QPAttr{State: verbs.StateReset}
			w.ok(w.qps[0].Modify(reset, verbs.MaskState))
			w.ok(w.clients[0].qp.Modify(reset, verbs.MaskState))
			w.ok(w.qps[0].Connect(here, there, &verbs.ConnectOptions{RdAtomic: 2}))
			w.ok(w.clients[0].qp.Connect(there, here, &verbs.ConnectOptions{RdAtomic: deep}))
			w.post(0, verbs.OpRead, 0, 64)
			w.done(0)
			if deep > 2 {
				w.exit("rd-atomic-depth")
				return
			}
			w.exit()
		})
	}
}

// TestRNRUnlimited has the server post a receive late, or in time.
func TestRNRUnlimited(t *testing.T) {
	for _, kind := range []string{"roce", "shm"} {
		t.Run(kind, func(t *testing.T) { rnrUnlimited(t, kind) })
	}
}

func rnrUnlimited(t *testing.T, kind string) {
	for _, late := range []bool{false, true} {
		w := newShared(t, kind)
		c := &w.clients[0]
		recv := func() { w.ok(w.qps[0].PostRecv(&verbs.RecvWR{ID: 3, SGL: []verbs.SGE{w.mr.SGE(0, 64)}})) }
		if !late {
			recv()
		}
		w.ok(c.qp.PostSend(&verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.Signaled,
			SGL: []verbs.SGE{c.mr.SGE(0, 64)}}))
		if late {
			for {
				s, err := c.qp.Stats()
				w.ok(err)
				if s.RNRs >= 10 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			recv()
		}
		w.done(0)
		w.wait(w.cq)
		if late {
			w.exit("rnr-unlimited")
			continue
		}
		w.exit()
	}
}
