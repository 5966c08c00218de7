// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"fmt"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestWindow writes through a window: inside of it, and outside of it.
func TestWindow(t *testing.T) {
	for _, typ := range []verbs.MWType{verbs.MWType1, verbs.MWType2} {
		t.Run(fmt.Sprintf("type%v", typ), func(t *testing.T) {
			eachPair(t, func(t *testing.T, p pair) {
				from := p.a.region(5000, verbs.LocalWrite)
				from.fill(1, 0, 5000)
				to := p.b.region(20000, verbs.LocalWrite|verbs.MWBind)
				// try writes n bytes at off of the region through a fresh window on its bytes 4000 to 9000.
				try := func(off, n int, status verbs.Status) {
					a, b := p.queues(verbs.RC, verbs.ConnectOptions{})
					key := b.bind(7, p.b.window(typ), to, 4000, 5000, verbs.RemoteWrite)
					a.send(work{SendWR: verbs.SendWR{ID: 8, Op: verbs.OpWrite, Flags: verbs.Signaled,
						SGL:    []verbs.SGE{from.sge(0, n)},
						Remote: verbs.Remote{Addr: to.remote().Addr + uint64(off), Key: key}}})
					wantStatus(t, a.wait(1)[0], 8, status)
				}
				try(4000, 5000, verbs.StatusSuccess)
				wantPattern(t, to, 1, 4000, 5000)
				try(19990, 16, verbs.StatusRemoteAccessError)
				outside := verbs.StatusRemoteAccessError
				if isKernel(p.b) {
					outside = verbs.StatusSuccess // rxe holds a window to its region's bounds only
				}
				try(3999, 16, outside)
				try(8990, 16, outside)
			})
		})
	}
}

// TestSendInvalidate takes a window away from the peer that was given it.
func TestSendInvalidate(t *testing.T) {
	eachPair(t, func(t *testing.T, p pair) {
		a, b := p.queues(verbs.RC, verbs.ConnectOptions{})
		from := p.a.region(5000, verbs.LocalWrite)
		from.fill(1, 0, 5000)
		to := p.b.region(5000+guard, verbs.LocalWrite|verbs.MWBind)
		inbox := p.b.region(5000+guard, verbs.LocalWrite)
		w := p.b.window(verbs.MWType2)
		key := b.bind(7, w, to, 0, 5000, verbs.RemoteWrite)
		write := work{SendWR: verbs.SendWR{ID: 8, Op: verbs.OpWrite, Flags: verbs.Signaled,
			SGL:    []verbs.SGE{from.sge(0, 5000)},
			Remote: verbs.Remote{Addr: to.remote().Addr, Key: key}}}
		a.send(write)
		want(t, a.wait(1)[0], 8, verbs.WCWrite)
		wantPattern(t, to, 1, 0, 5000)

		b.recv(verbs.RecvWR{ID: 9, SGL: []verbs.SGE{inbox.sge(0, 5000)}})
		a.send(work{SendWR: verbs.SendWR{ID: 10, Op: verbs.OpSendInv, Flags: verbs.Signaled,
			SGL: []verbs.SGE{from.sge(0, 5000)}, InvKey: key}})
		want(t, a.wait(1)[0], 10, verbs.WCSend)
		wc := b.wait(1)[0]
		want(t, wc, 9, verbs.WCRecv)
		if !isKernel(p.b) && (wc.Flags&verbs.WithInv == 0 || wc.InvKey != key) { // rxe tells kernel users only
			t.Errorf("invalidated key %#x (flags %v), want %#x", wc.InvKey, wc.Flags, key)
		}
		wantPattern(t, inbox, 1, 0, 5000)

		a.send(write)
		wantStatus(t, a.wait(1)[0], 8, verbs.StatusRemoteAccessError)
	})
}

// TestLocalInvalidate takes a window away from the responder's side.
func TestLocalInvalidate(t *testing.T) {
	eachPair(t, func(t *testing.T, p pair) {
		a, b := p.queues(verbs.RC, verbs.ConnectOptions{})
		from, to := p.a.region(100, verbs.LocalWrite), p.b.region(100, verbs.LocalWrite|verbs.MWBind)
		key := b.bind(1, p.b.window(verbs.MWType2), to, 0, 100, verbs.RemoteWrite)
		write := work{SendWR: verbs.SendWR{ID: 2, Op: verbs.OpWrite, Flags: verbs.Signaled,
			SGL:    []verbs.SGE{from.sge(0, 100)},
			Remote: verbs.Remote{Addr: to.remote().Addr, Key: key}}}
		a.send(write)
		want(t, a.wait(1)[0], 2, verbs.WCWrite)
		b.send(work{SendWR: verbs.SendWR{ID: 3, Op: verbs.OpLocalInv, Flags: verbs.Signaled, InvKey: key}})
		want(t, b.wait(1)[0], 3, verbs.WCLocalInv)
		a.send(write)
		wantStatus(t, a.wait(1)[0], 2, verbs.StatusRemoteAccessError)
	})
}
