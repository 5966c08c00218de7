// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// bottleneck is a switch with one link that senders share, in virtual time. Each sender has a link of the same rate to
// the switch, and always something to send. The switch marks packets by the length of its queue, as RED does (the ECN
// of DCQCN's paper), and the receiver answers each packet, and marks with a notification each 50 µs at most.
type bottleneck struct {
	rate       float64    // bytes per second
	delay      clock.Time // one way
	kmin, kmax int        // bytes of the queue
	pmax       float64

	now       clock.Time
	events    events
	queueFree clock.Time // when the link has sent the packets in the queue
	queue     int
	rand      *rand.Rand
	senders   []*sender
	busy      clock.Time // of the link, since it is measured
	longest   int        // queue, since it is measured
	measured  clock.Time
	packet    int
}

type sender struct {
	control  Controller
	inflight int
	nicFree  clock.Time
	waits    clock.Time // when it looks again; zero: it waits for acknowledgements
	again    clock.Time // no notification before
	sent     int        // bytes that arrived, since it is measured
}

type event struct {
	at  clock.Time
	n   int
	run func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].n < e[j].n
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (b *bottleneck) at(t clock.Time, run func()) {
	heap.Push(&b.events, event{t, int(b.rand.Uint32() >> 1), run})
}

func (b *bottleneck) takes(bytes int) clock.Time {
	return clock.Time(float64(bytes) / b.rate * float64(time.Second))
}

// send sends as much as a sender may.
func (b *bottleneck) send(s *sender) {
	for {
		v := s.control.Allows(b.now)
		if v.Next > b.now {
			if s.waits == 0 || s.waits > v.Next {
				s.waits = v.Next
				b.at(v.Next, func() { s.waits = 0; b.send(s) })
			}
			return
		}
		burst := 0
		for (s.inflight == 0 || s.inflight+b.packet <= min(v.Window, 1<<20)) &&
			(burst == 0 || burst+b.packet <= min(v.Burst, 64<<10)) {
			burst += b.packet
			s.inflight += b.packet
			s.nicFree = max(s.nicFree, b.now) + b.takes(b.packet)
			sentAt := b.now
			b.at(s.nicFree+b.delay/2, func() { b.arrive(s, sentAt) })
		}
		if burst == 0 {
			return
		}
		s.control.Sent(b.now, burst)
	}
}

// arrive has a packet join the switch's queue.
func (b *bottleneck) arrive(s *sender, sentAt clock.Time) {
	marked := b.queue > b.kmax || b.queue > b.kmin &&
		b.rand.Float64() < b.pmax*float64(b.queue-b.kmin)/float64(b.kmax-b.kmin)
	b.queue += b.packet
	b.longest = max(b.longest, b.queue)
	took := b.takes(b.packet)
	b.queueFree = max(b.queueFree, b.now) + took
	b.at(b.queueFree, func() {
		b.queue -= b.packet
		b.busy += took
		s.sent += b.packet
	})
	there := b.queueFree + b.delay/2
	if marked && there >= s.again {
		s.again = there + NotifyInterval
		b.at(there+b.delay, func() { s.control.Notified(b.now) })
	}
	b.at(there+b.delay, func() {
		s.inflight -= b.packet
		s.control.RoundTrip(b.now, b.now-sentAt)
		s.control.Arrived(b.now, b.packet)
		b.send(s)
	})
}

// run lets the time pass, and measures from a time on.
func (b *bottleneck) run(from, until time.Duration) {
	measuring := false
	for len(b.events) > 0 && b.events[0].at < clock.Time(until) {
		e := heap.Pop(&b.events).(event)
		if b.now = e.at; !measuring && b.now >= clock.Time(from) {
			measuring = true
			b.busy, b.longest, b.measured = 0, 0, b.now
			for _, s := range b.senders {
				s.sent = 0
			}
		}
		e.run()
	}
}

// newBottleneck has n senders with a controller at a link of 40 Gb/s, with the marks of DCQCN's paper: Kmin 5 KB, Kmax
// 200 KB, Pmax 1 %. They begin one after the other.
func newBottleneck(t testing.TB, n int, choice string, seed uint64) *bottleneck {
	b := &bottleneck{rate: 40e9 / 8, delay: 4 * us, kmin: 5000, kmax: 200_000, pmax: 0.01,
		rand: rand.New(rand.NewPCG(seed, 1)), packet: 1024}
	for i := range n {
		s := &sender{control: controller(t, choice, 40)}
		b.senders = append(b.senders, s)
		b.at(clock.Time(i+1)*100*us, func() { b.send(s) })
	}
	return b
}

// figures returns how busy the link was, the mean and the longest queue, and the least and the most that a sender had
// of a fair share.
func (b *bottleneck) figures() (busy float64, longest int, least, most float64) {
	total := 0
	for _, s := range b.senders {
		total += s.sent
	}
	fair := float64(total) / float64(len(b.senders))
	least = 1
	for _, s := range b.senders {
		least, most = min(least, float64(s.sent)/fair), max(most, float64(s.sent)/fair)
	}
	return float64(b.busy) / float64(b.now-b.measured), b.longest, least, most
}

// Senders share a link that marks: it is busy, its queue short, and each has about its share.
func TestBottleneck(t *testing.T) {
	seeds := uint64(1)
	if testrun.Long() {
		seeds = 5
	}
	for _, c := range []struct {
		choice string
		n      int
		queue  int // bytes at most
	}{
		{"dcqcn", 2, 400_000},
		{"dcqcn", 8, 800_000},
		{"swift,base_target=25", 2, 300_000},
		{"swift,base_target=25", 8, 600_000},
		{"swift,base_target=25", 200, 1_000_000},
	} {
		for seed := range seeds {
			b := newBottleneck(t, c.n, c.choice, seed)
			b.run(30*time.Millisecond, 70*time.Millisecond)
			busy, longest, least, most := b.figures()
			t.Logf("%d senders with %s: link %.3f, queue up to %d KB, shares %.2f to %.2f", c.n, c.choice, busy,
				longest/1000, least, most)
			if busy < 0.95 || longest > c.queue || c.n == 2 && least < 0.8 {
				t.Errorf("%d senders with %s, seed %d: the link was busy %.3f of the time, want 0.95; the queue had %d bytes, want %d at most; shares were %.2f to %.2f of fair",
					c.n, c.choice, seed, busy, longest, c.queue, least, most)
			}
		}
	}
}

// A window that does not hear of the queue fills it with all that it may have in flight.
func TestBottleneckOfWindows(t *testing.T) {
	b := newBottleneck(t, 2, "window", 1)
	b.kmin, b.kmax = 1<<30, 1<<30
	b.run(2*time.Millisecond, 10*time.Millisecond)
	if busy, longest, _, _ := b.figures(); busy < 0.99 || longest < 1<<20 {
		t.Errorf("the link was busy %.3f of the time, and the queue had %d bytes: this is no bottleneck", busy, longest)
	}
}
