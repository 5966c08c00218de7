// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"context"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestPeerGone ends the guest's process, or cuts the link, in the middle of a transfer.
// Ramjet's work requests must end with the status for that, and everything that it made can
// be closed. The kernel frees a dead process' memory region before its queue pair, so that
// it may still answer that there is no such region.
func TestPeerGone(t *testing.T) {
	const size, count = 4 << 20, 32
	kill := func(p pair) { p.b.(*guest).conn.Close() }
	cut := func(p pair) { dialGuest(p.b.(*guest).t, false).netem("in", "loss", "100%") }
	for _, c := range []struct {
		name   string
		op     verbs.SendOp
		done   verbs.WCOp
		end    func(pair)
		answer verbs.Status // another permitted status
	}{
		{"killed in a WRITE", verbs.OpWrite, verbs.WCWrite, kill, verbs.StatusRemoteAccessError},
		{"killed in a READ", verbs.OpRead, verbs.WCRead, kill, verbs.StatusRemoteAccessError},
		{"cut off in a WRITE", verbs.OpWrite, verbs.WCWrite, cut, verbs.StatusRetryExceeded},
		{"cut off in a READ", verbs.OpRead, verbs.WCRead, cut, verbs.StatusRetryExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, l := range links {
				t.Run(l.name, func(t *testing.T) {
					p := pair{l, openRamjet(t, l), openGuest(t, l)}
					// 0.13 s, three times again: the guest may have no processor for a while.
					qa, _ := p.queues(verbs.RC, verbs.ConnectOptions{Timeout: 15, RetryCount: 3})
					a := qa.(*deviceQueue)
					mine := p.a.region(size, verbs.LocalWrite).(*deviceRegion)
					theirs := p.b.region(size, verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteRead)
					for id := range uint64(count) {
						a.send(work{SendWR: verbs.SendWR{ID: id, Op: c.op, Flags: verbs.Signaled,
							SGL: []verbs.SGE{mine.sge(0, size)}, Remote: theirs.remote()}})
					}
					want(t, a.wait(1)[0], 0, c.done)
					c.end(p)
					failed := false
					for i, wc := range a.wait(count - 1) {
						switch {
						case wc.ID != uint64(i+1):
							t.Fatalf("completion of %d, want %d", wc.ID, i+1)
						case !failed && (wc.Status == verbs.StatusRetryExceeded || wc.Status == c.answer):
							failed = true
						case !failed && wc.Status == verbs.StatusSuccess:
						case failed && wc.Status == verbs.StatusWRFlushError:
						default:
							t.Fatalf("completion %d: %v", wc.ID, wc.Status)
						}
					}
					if !failed || a.state() != verbs.StateError {
						t.Errorf("failed: %v, state %v", failed, a.state())
					}
					for _, err := range []error{a.qp.Close(), a.cq.Close(), mine.mr.Close(), a.d.pd.Close(),
						a.d.dev.Close()} {
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		})
	}
}

// TestRequesterKilled ends the guest's process in the middle of its WRITEs to Ramjet: the
// responder learns nothing of that, its receive waits, and all can be closed.
func TestRequesterKilled(t *testing.T) {
	const size, count = 1 << 20, 64
	l := links[0]
	p := pair{l, openGuest(t, l), openRamjet(t, l)}
	a, qb := p.queues(verbs.RC, verbs.ConnectOptions{})
	b := qb.(*deviceQueue)
	from, to := p.a.region(size, verbs.LocalWrite), p.b.region(size, verbs.LocalWrite|verbs.RemoteWrite).(*deviceRegion)
	b.recv(verbs.RecvWR{ID: 7})
	for id := range uint64(count) {
		a.send(work{SendWR: verbs.SendWR{ID: id, Op: verbs.OpWrite, Flags: verbs.Signaled,
			SGL: []verbs.SGE{from.sge(0, size)}, Remote: to.remote()}})
	}
	a.wait(1)
	p.a.(*guest).conn.Close()
	if err := b.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, b.wait(1)[0], 7, verbs.StatusWRFlushError)
	for _, err := range []error{b.qp.Close(), b.cq.Close(), to.mr.Close(), b.d.pd.Close(), b.d.dev.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestSRQLimit has the guest's messages bring Ramjet's shared receive queue below its limit.
func TestSRQLimit(t *testing.T) {
	eachLink(t, 2, func(t *testing.T, p pair) {
		d, srq := p.b.(*device), p.b.sharedQueue().(*deviceSRQ)
		a, b := p.a.queue(queueInit{typ: verbs.RC}), p.b.queue(queueInit{typ: verbs.RC, srq: srq})
		p.connect(a, b, verbs.ConnectOptions{})
		for id := range uint64(6) {
			srq.recv(verbs.RecvWR{ID: id})
		}
		if err := srq.srq.Modify(verbs.SRQAttr{Limit: 4}, verbs.SRQLimit); err != nil {
			t.Fatal(err)
		}
		limit := func(wait time.Duration) bool {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			for {
				e, err := d.dev.Event(ctx)
				if err != nil {
					return false
				}
				if e.Type == verbs.EventSRQLimitReached {
					if e.SRQ != srq.srq {
						t.Error("the event is about another queue")
					}
					return true
				}
			}
		}
		for id := range uint64(6) { // 5, 4, and with the third message 3 are left
			a.send(work{SendWR: verbs.SendWR{ID: id, Op: verbs.OpSend, Flags: verbs.Signaled}})
			want(t, a.wait(1)[0], id, verbs.WCSend)
			want(t, b.wait(1)[0], id, verbs.WCRecv)
			wait := 20 * time.Millisecond // nothing is to come
			if id == 2 {
				wait = waitTimeout
			}
			if got := limit(wait); got != (id == 2) {
				t.Errorf("after message %d: event %v", id, got)
			}
		}
		if got := srq.srq.Query().Limit; got != 0 {
			t.Errorf("the limit is %d and still armed", got)
		}
	})
}
