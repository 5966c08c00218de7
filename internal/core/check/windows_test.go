// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// bind binds a window to memory of the second queue pair's, and returns its key.
func (w *loop) bind(mw *verbs.MW, mr *verbs.MR) verbs.Remote {
	w.Helper()
	info := verbs.MWBindInfo{MW: mw, MR: mr, RKey: mw.NextRKey(), Addr: mr.Addr(), Length: 64,
		Access: verbs.RemoteWrite}
	w.own(&verbs.SendWR{Op: verbs.OpBindMW, Bind: &info})
	return verbs.Remote{Addr: mr.Addr(), Key: mw.RKey()}
}

// own posts a work request of the second queue pair, and waits for its completion.
func (w *loop) own(wr *verbs.SendWR) {
	w.Helper()
	wr.Flags |= verbs.Signaled
	w.ok(w.qps[1].PostSend(wr))
	w.wait(w.cqs[1])
}

// TestWindowKeyInUse ends the key of a window in each way, while the peer uses it or after that.
func TestWindowKeyInUse(t *testing.T) {
	for name, c := range map[string]struct {
		typ verbs.MWType
		end func(w *loop, mw *verbs.MW, remote verbs.Remote)
	}{
		"bound anew":  {verbs.MWType1, func(w *loop, mw *verbs.MW, _ verbs.Remote) { w.bind(mw, w.mr) }},
		"deallocated": {verbs.MWType1, func(w *loop, mw *verbs.MW, _ verbs.Remote) { w.ok(mw.Close()) }},
		"invalidated": {verbs.MWType2, func(w *loop, _ *verbs.MW, remote verbs.Remote) {
			w.own(&verbs.SendWR{Op: verbs.OpLocalInv, InvKey: remote.Key})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			wrongAndRight(t, "key-in-use", []string{"roce", "shm"}, verbs.QPInit{Type: verbs.RC},
				func(w *loop, mistake bool) {
					mw, err := w.pd.AllocMW(c.typ)
					w.ok(err)
					remote := w.bind(mw, w.mr)
					if mistake {
						c.end(w, mw, remote)
					}
					w.send(new(verbs.SendWR).Write(remote, w.mr.SGE(1000, 64)))
					if !mistake {
						c.end(w, mw, remote)
					}
					w.ok(w.qps[1].Close())
				})
		})
	}
}

// TestWindowKeyAgain binds a window of type 2 with the key that it had before.
func TestWindowKeyAgain(t *testing.T) {
	w := newLoop(t, "roce", verbs.QPInit{Type: verbs.RC})
	mw, err := w.pd.AllocMW(verbs.MWType2)
	w.ok(err)
	remote := w.bind(mw, w.mr)
	w.own(&verbs.SendWR{Op: verbs.OpLocalInv, InvKey: remote.Key})
	info := verbs.MWBindInfo{MW: mw, MR: w.mr, RKey: remote.Key, Addr: remote.Addr, Length: 64,
		Access: verbs.RemoteWrite}
	w.own(&verbs.SendWR{Op: verbs.OpBindMW, Bind: &info})
	if s := w.send(new(verbs.SendWR).Write(remote, w.mr.SGE(1000, 64))); s != verbs.StatusSuccess {
		t.Fatal(s)
	}
	w.ok(w.qps[1].Close())
	w.want()
}

// TestForeignWindow binds a window of another domain than the queue pair's.
func TestForeignWindow(t *testing.T) {
	wrongAndRight(t, "foreign-pd", []string{"roce", "shm"}, verbs.QPInit{Type: verbs.RC}, func(w *loop, mistake bool) {
		pd, err := w.dev.AllocPD()
		w.ok(err)
		if !mistake {
			pd = w.pd
		}
		mw, err := pd.AllocMW(verbs.MWType2)
		w.ok(err)
		w.bind(mw, w.mr)
	})
}
