// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestPatience holds that acknowledgements go along with posts only while each post is
// waited for.
func TestPatience(t *testing.T) {
	var p ackWait
	post := func(polls int) bool {
		p.polls += polls
		return p.posted()
	}
	for i, want := range []bool{false, false, true} {
		if got := post([]int{0, awaitingPolls, awaitingPolls}[i]); got != want {
			t.Errorf("post %d: %v", i, got)
		}
	}
	for n := 1; post(0); n++ {
		if n > eagerPosts {
			t.Fatal("believed for ever")
		}
	}
	for range 10 { // one in two
		if post(awaitingPolls) || post(awaitingPolls-1) {
			t.Fatal("some posts are not waited for")
		}
	}
}

// TestHeldAcks holds that an acknowledgement waits for the answer of a program that polls:
// briefly where none comes, and for the next message where one came.
func TestHeldAcks(t *testing.T) {
	for _, answers := range []bool{false, true} {
		a, b := newPair(t)
		d := b.soft
		d.Lane.Mu.Lock() // the goroutine keeps away
		d.Lane.polls.programPolls.Store(true)
		a.write(b, 8)
		a.port.lose.Store(true)
		b.port.lose.Store(true)
		b.port.in.change(func() { b.port.arrived = b.port.arrived[:1] }) // without what may have been sent again
		if d.Lane.move(true) != 1 {
			t.Fatal("no message")
		}
		want := briefPasses
		if answers {
			q := d.findQP(b.qp.Num())
			if _, err := q.engine.PostSend([]verbs.SendWR{{Op: verbs.OpWrite, Remote: a.mr.Remote()}}); err != nil {
				t.Fatal(err)
			}
			d.kick(q)
			want = holdPasses
		}
		passes := 0
		for ; d.engine.Counters.AcksSent == 0 && passes < 1000; passes++ {
			d.Lane.move(true)
		}
		if passes != want {
			t.Errorf("answers %v: acknowledged after %d passes, want %d", answers, passes, want)
		}
		d.Lane.Mu.Unlock()
	}
}
