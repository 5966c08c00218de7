// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"github.com/ramjet-rdma/ramjet/internal/core/clock"
	"github.com/ramjet-rdma/ramjet/internal/core/queue"
)

// Flow is what all queue pairs of a device have in flight to one host: requests by bytes that are
// not acknowledged, READs by bytes that have not come back. Its congestion control decides how much that may be, and
// when more may leave. Queue pairs that have to wait for that do so in line.
type Flow struct {
	control  Congestion
	window   int        // as the congestion control returned last
	nextSend clock.Time // likewise; zero: at once
	timerQP  *QP        // has a deadline for those in line when nextSend comes; nil: whoever is drained next
	burst    int        // bytes of the present send
	max      int        // bytes: what the socket buffers allow
	inflight int
	reads    int // bytes of READ responses asked for
	lines    [numLines]queue.Ring[*QP]
	users    int        // queue pairs connected to that host
	heardAt  clock.Time // when something was last acknowledged or answered
}

// line is what a queue pair waits for.
type line uint8

const (
	forRequests line = iota // room in the window
	forReads                // room for responses of READs
	numLines
)

const (
	// minWindow lets one send leave in any case.
	minWindow = 64 << 10
	// longSend is the cost of the beginning of a long message: its first packets are a short send,
	// and a full one follows.
	longSend = 72 << 10
)

// NewFlow makes a flow to a peer whose socket buffer is believed to hold limit bytes.
func NewFlow(limit int, control Congestion) *Flow {
	f := &Flow{control: control, max: max(limit, minWindow)}
	f.window, f.nextSend = control.Allows()
	return f
}

// Unused reports whether no queue pair is connected to that host any more.
func (f *Flow) Unused() bool { return f.users == 0 }

// room reports whether n more bytes of requests may leave.
func (f *Flow) room(n int) bool { return f.inflight == 0 || f.inflight+n <= f.window }

// roomForRead reports whether a READ of n bytes may be requested.
func (f *Flow) roomForRead(n int) bool { return f.reads == 0 || f.reads+n <= f.window }

// readChunk limits the bytes that one READ request asks for: there is no other way to slow a
// responder down.
func (f *Flow) readChunk() int { return max(f.window/2, minWindow) }

// paced reports whether it is too early for the next send.
func (f *Flow) paced(now clock.Time) bool { return now < f.nextSend }

// fits reports whether n more bytes of a kind may leave now.
func (f *Flow) fits(now clock.Time, l line, n int) bool {
	if f.paced(now) {
		return false
	}
	if l == forReads {
		return f.roomForRead(n)
	}
	return f.room(n)
}

// fullSend is the room that a long message waits for: the window is not handed out in pieces too
// small for a send.
func (f *Flow) fullSend() int { return min(longSend, f.window/4) }

// ask asks the congestion control for the window and the time of the next send.
func (f *Flow) ask(now clock.Time) {
	f.window, f.nextSend = f.control.Allows()
	f.due(now)
}

// due lets the queue pairs in line go on whose time has come.
func (f *Flow) due(now clock.Time) {
	if f.nextSend <= now {
		f.nextSend = 0
	}
}

// deadline returns when the queue pairs in line may go on, if q has their timer; otherwise zero.
func (f *Flow) deadline(q *QP) clock.Time {
	if f.nextSend != 0 && (f.timerQP == q || f.timerQP == nil) && f.Waiting() {
		return f.nextSend
	}
	return 0
}

// sent ends a send of q.
func (f *Flow) sent(now clock.Time, q *QP) {
	f.control.Sent(now, f.burst)
	f.timerQP, f.burst = q, 0
	f.ask(now)
}

// acked gives the room of n bytes of requests back; ask follows.
func (f *Flow) acked(now clock.Time, n int) {
	f.inflight -= n
	f.heardAt = now
	f.control.Arrived(now, n)
}

// responseArrived gives the room of n bytes of READ responses back; ask follows.
func (f *Flow) responseArrived(now clock.Time, n int) {
	f.reads -= n
	f.heardAt = now
	f.control.Arrived(now, n)
}

func (f *Flow) lost(now clock.Time) {
	f.control.Lost(now)
	f.ask(now)
}

func (f *Flow) silent(now clock.Time) {
	f.control.Silent(now)
	f.ask(now)
}

func (f *Flow) notified(now clock.Time) {
	f.control.Notified(now)
	f.ask(now)
}

// sample takes a round trip that was measured.
func (f *Flow) sample(now, rtt clock.Time) {
	f.control.RoundTrip(now, rtt)
	f.ask(now)
}

// wait puts q in line until there is room for need bytes.
func (f *Flow) wait(q *QP, l line, need int) {
	r := &q.req
	if !r.waiting {
		r.waiting, r.line, r.need = true, l, need
		f.timerQP = q
		*f.lines[l].PushBack() = q
	}
}

// first reports whether nobody is before q in line.
func (f *Flow) first(q *QP, l line) bool {
	return f.lines[l].Len() == 0 || *f.lines[l].Front() == q
}

// Waiting reports whether queue pairs wait for room.
func (f *Flow) Waiting() bool { return f.lines[forRequests].Len()+f.lines[forReads].Len() > 0 }

// Next returns the queue pair that has waited longest, if what it has to send may leave now; nil:
// there is none. It is to be drained before Next is called again.
func (f *Flow) Next(now clock.Time) *QP {
	for l := range f.lines {
		waiting := &f.lines[l]
		if waiting.Len() == 0 {
			continue
		}
		if q := *waiting.Front(); f.fits(now, line(l), q.req.need) {
			*waiting.Front() = nil
			waiting.PopFront()
			q.req.waiting, q.req.quantum = false, q.fullTurn()
			return q
		}
	}
	return nil
}

// quit removes q, which sends no more. Another queue pair gets the timer for those in line.
func (f *Flow) quit(q *QP) {
	f.forget(q)
	if f.timerQP == q {
		f.timerQP, f.nextSend = nil, 0
	}
}

// forget takes q out of the line.
func (f *Flow) forget(q *QP) {
	if q.req.quantum = 0; !q.req.waiting {
		return
	}
	q.req.waiting = false
	waiting := &f.lines[q.req.line]
	for range waiting.Len() {
		w := *waiting.Front()
		*waiting.Front() = nil
		waiting.PopFront()
		if w != q {
			*waiting.PushBack() = w
		}
	}
}

// InFlight returns the bytes of unacknowledged requests, and of outstanding READs.
func (f *Flow) InFlight() (requests, reads int) { return f.inflight, f.reads }
