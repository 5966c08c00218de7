// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"sync"
	"testing"
	"time"

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

// pass makes a pass, as a program that polls does.
func (d *Device) pass() int {
	d.Lane.NewTime()
	busy := d.lane.Pending()
	n := d.lane.Receive()
	d.Lane.Deliver()
	d.lane.Respond(true, n, busy)
	return n
}

// TestHeldAcks holds that an acknowledgement waits for the answer of a program that polls:
// briefly where none comes, and for the next message where one came.
func TestHeldAcks(t *testing.T) {
	for _, answers := range []bool{false, true} {
		a, b := newPair(t)
		d := b.soft
		b.Eventually(func() bool {
			b.Port.Wake() // it looks around, and sees the polls
			for range 1000 {
				b.CQ.Poll(make([]verbs.WC, 1))
			}
			d.Lane.Mu.Lock() // the goroutine keeps away
			if d.Lane.PollsOn() {
				return true
			}
			d.Lane.Mu.Unlock()
			return false
		}, "left to the program that polls")
		var program sync.WaitGroup
		program.Go(func() { a.Write(&b.Side, 8) }) // this goroutine holds b's lock
		program.Wait()
		b.Eventually(func() bool { // the device's goroutine may send it in the program's place
			b.Port.In.Mu.Lock()
			defer b.Port.In.Mu.Unlock()
			return len(b.Port.Arrived) > 0
		}, "the message arrives")
		a.Port.Lose.Store(true)
		b.Port.Lose.Store(true)
		b.Port.In.Change(func() { b.Port.Arrived = b.Port.Arrived[:1] }) // without what may have been sent again
		if d.pass() != 1 {
			t.Fatal("no message")
		}
		want := briefPasses
		if answers {
			q := d.findQP(b.QP.Num())
			if _, err := q.engine.PostSend([]verbs.SendWR{{Op: verbs.OpWrite, Remote: a.MR.Remote()}}); err != nil {
				t.Fatal(err)
			}
			d.lane.kick(q)
			want = holdPasses
		}
		passes := 0
		for ; d.lane.engine.Counters.AcksSent == 0 && passes < 1000; passes++ {
			d.pass()
		}
		if passes != want {
			t.Errorf("answers %v: acknowledged after %d passes, want %d", answers, passes, want)
		}
		d.Lane.Mu.Unlock()
	}
}

// TestAcksBeforeSleep holds that the goroutine does not go to sleep with acknowledgements that
// are held back for a program that has polled, however few passes it made after that.
func TestAcksBeforeSleep(t *testing.T) {
	a, b := newPair(t)
	held := func() (int, bool) {
		b.soft.Lane.Mu.Lock()
		defer b.soft.Lane.Mu.Unlock()
		return len(b.soft.lane.schedule.heldAcks), b.soft.lane.schedule.answers && b.soft.Lane.PollsOn()
	}
	var sleeps chan int
	b.Eventually(func() bool {
		b.Port.Slow.Store(0)
		b.Port.AtWait.Store(nil)
		a.CQ.Poll(make([]verbs.WC, 8)) // which has room for few of the tries
		a.Write(&b.Side, 8)
		b.Port.Wake() // it looks around, and sees the polls
		for range 1000 {
			b.CQ.Poll(make([]verbs.WC, 1))
			if n, _ := held(); n > 0 && b.soft.Lane.PollsOn() {
				break
			}
		}
		b.Write(&a.Side, 8)                             // as a program that answers does
		b.Port.Slow.Store(int64(50 * time.Microsecond)) // one pass without anything is enough to go to sleep
		first := make(chan int, 1)
		b.Port.AtWait.Store(new(func() {
			n, _ := held()
			select {
			case first <- n:
			default:
			}
		}))
		sleeps = first
		n, so := held()
		return n > 0 && so
	}, "the acknowledgement is held back, and the goroutine leaves the program alone")
	if n := <-sleeps; n > 0 {
		t.Errorf("it sleeps with %d acknowledgements held back", n)
	}
}
