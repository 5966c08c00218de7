// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// send has a client send its first n bytes.
func (w *shared) send(i, n int) {
	w.Helper()
	c := &w.clients[i]
	w.ok(c.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{c.mr.SGE(0, n)}}))
}

// landed waits for the last byte of n at off of the server's memory, which was 0.
func (w *shared) landed(off, n int) {
	w.Helper()
	_, err := w.mr.WaitByte(w.Context(), off+n-1, 0)
	w.ok(err)
}

// crossed has the server send n bytes at off while client 0 WRITEs written bytes from the start on: the server's device
// rests until both are posted.
func (w *shared) crossed(off, n, written int) {
	w.Helper()
	w.ok(w.clients[1].qp.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{w.clients[1].mr.SGE(0, n)}}))
	sent := make(chan error)
	w.resting(func() {
		w.post(0, verbs.OpWrite, 0, written)
		go func() { // it waits for the device
			sent <- w.qps[1].PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled,
				SGL: []verbs.SGE{w.mr.SGE(off, n)}})
		}()
		for w.checker.Outstanding(w.qps[1]) == 0 && w.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
	})
	w.ok(<-sent)
	w.wait(w.cq)
	w.wait(w.clients[1].cq)
	w.done(0)
}

// TestRaceWithOwnSend has the server send what a client is writing.
func TestRaceWithOwnSend(t *testing.T) {
	for _, c := range []struct {
		off   int // of the SEND
		rules []string
	}{
		{off: 1000, rules: []string{"race"}},
		{off: size / 2},
	} {
		onAll(t, func(w *shared) {
			w.fill()
			w.crossed(c.off, 4096, size/2)
			w.exit(c.rules...)
		})
	}
}

// TestRaceWithOwnReceive has a client WRITE to memory that the message of the other comes to.
func TestRaceWithOwnReceive(t *testing.T) {
	for _, c := range []struct {
		off   int // of the receive
		wait  bool
		rules []string
	}{
		{off: 1000, rules: []string{"race"}},
		{off: 1000, wait: true},
		{off: 4096},
	} {
		onAll(t, func(w *shared) {
			w.fill()
			w.ok(w.qps[1].PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{w.mr.SGE(c.off, 4096)}}))
			if c.wait {
				w.post(0, verbs.OpWrite, 0, 4096)
				w.done(0)
				w.landed(0, 4096)
				w.send(1, 4096)
			} else {
				w.resting(func() {
					w.post(0, verbs.OpWrite, 0, 4096)
					w.send(1, 4096)
				})
				w.done(0)
			}
			w.done(1)
			w.wait(w.cq)
			w.exit(c.rules...)
		})
	}
}

// TestRaceWithRequest has the server WRITE its response over a request, before or after it has the request.
func TestRaceWithRequest(t *testing.T) {
	for _, early := range []bool{false, true} {
		onAll(t, func(w *shared) {
			c := w.clients[0]
			w.mr.Bytes()[8192+4095] = 1
			w.ok(w.qps[0].PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{w.mr.SGE(0, 4096)}}))
			w.send(0, 4096)
			if !early {
				w.wait(w.cq)
			}
			w.ok(w.qps[0].PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled,
				SGL: []verbs.SGE{w.mr.SGE(8192, 4096)}, Remote: c.mr.Remote()}))
			w.wait(w.cq)
			if early {
				w.wait(w.cq)
			}
			w.done(0)
			_, err := c.mr.WaitByte(w.Context(), 4095, 0) // over iWARP a WRITE completes before it arrives
			w.ok(err)
			if early {
				w.exit("race")
			} else {
				w.exit()
			}
		})
	}
}
