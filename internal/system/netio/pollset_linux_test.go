// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
)

// pollAt sleeps at a set as a thread does by itself. It reports whether the event is ready, and whether anything else
// is.
func pollAt(t *testing.T, at *pollwait.Set) (rung, ready bool) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(at.Event), Events: unix.POLLIN}}
	for _, fd := range at.Read {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	limit := int(patience / time.Millisecond)
	if at.Limit >= 0 {
		limit = int(at.Limit / time.Millisecond)
	}
	for {
		n, err := unix.Poll(fds, limit)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		rung = fds[0].Revents != 0
		return rung, n > 1 || n == 1 && !rung
	}
}

// TestBeginWait has a thread sleep by itself: a datagram, a wake-up and a deadline end that.
func TestBeginWait(t *testing.T) {
	if plain := listen(t, first, Options{Plain: true}); plain.Pollable() {
		t.Error("a plain socket has BeginWait")
	}
	a, b := listen(t, first, Options{}), listen(t, second, Options{})
	var at pollwait.Set
	into := make([]Datagrams, 4)
	for range 3 {
		if !b.BeginWait(false, &at) {
			t.Fatal("nothing has arrived, and there is no need to sleep")
		}
		tr := a.NewTrain()
		build(t, tr, b.LocalAddr(), []int{2}, []byte{1, 2})
		if err := a.Send(tr); err != nil {
			t.Fatal(err)
		}
		if rung, ready := pollAt(t, &at); rung || !ready {
			t.Errorf("a datagram: the event is %t, others %t", rung, ready)
		}
		b.EndWait(false)
		if n, err := b.Recv(into); n != 1 || err != nil {
			t.Fatal(n, err)
		}

		if !b.BeginWait(false, &at) {
			t.Fatal("no need to sleep after a wait has ended")
		}
		b.Wake()
		if rung, ready := pollAt(t, &at); !rung || ready {
			t.Errorf("a wake-up: the event is %t, others %t", rung, ready)
		}
		b.EndWait(true)

		if !b.BeginWait(false, &at) {
			t.Fatal("no need to sleep after a wake-up")
		}
		b.SetDeadline(time.Now().Add(time.Millisecond)) // is nearer than the time that it sleeps for
		if rung, _ := pollAt(t, &at); !rung {
			t.Error("a deadline that moved does not end the sleep")
		}
		b.EndWait(true)
		b.SetDeadline(time.Time{})
	}

	b.Wake()
	if b.BeginWait(false, &at) {
		t.Error("a wake-up before the sleep is lost")
	}
	if !b.BeginWait(false, &at) {
		t.Fatal("one wake-up ends two waits")
	}
	b.Wake()
	b.EndWait(false) // by another thread than the sleeping one
	if rung, _ := pollAt(t, &at); !rung {
		t.Error("who sleeps is not woken")
	}
}
