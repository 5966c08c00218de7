// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"math"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/queue"
)

// Flow bounds what all queue pairs of a device have under way to one host, so that its
// socket buffer is not overrun for long: requests by bytes that are not acknowledged,
// READs by bytes that have not come back. The window halves on a loss and grows again with
// what is acknowledged or has come, up to what the socket buffers and the path hold. Queue
// pairs for which there is no room wait in line.
type Flow struct {
	max       int // bytes: what the socket buffers allow
	window    int
	threshold int // below, the window doubles in a round trip
	path      path
	inflight  int
	reads     int // bytes of READ responses asked for
	lines     [numLines]queue.Ring[*QP]
	users     int // queue pairs connected to that host
}

// line is what a queue pair waits for.
type line uint8

const (
	forRequests line = iota // room in the window
	forReads                // room for responses of READs
	numLines
)

const (
	// minWindow lets one send go out whatever happened before.
	minWindow = 64 << 10
	// packetOverhead is what a packet costs a socket buffer beyond its payload.
	packetOverhead = 192
	// longSend is what the beginning of a long message costs: its first packets are a
	// short send, and a full one follows.
	longSend = 72 << 10
)

// NewFlow makes a flow for a peer whose socket buffer is believed to hold max bytes.
func NewFlow(limit int) *Flow {
	limit = max(limit, minWindow)
	return &Flow{max: limit, window: limit, threshold: math.MaxInt}
}

// Unused says that no queue pair is connected to that host any more.
func (f *Flow) Unused() bool { return f.users == 0 }

// room says whether n more bytes of requests may leave.
func (f *Flow) room(n int) bool { return f.inflight == 0 || f.inflight+n <= f.window }

// roomForRead says whether a READ of n bytes may be asked for.
func (f *Flow) roomForRead(n int) bool { return f.reads == 0 || f.reads+n <= f.window }

// readChunk is the most bytes that one READ request asks for: there is no other way to
// slow a responder down.
func (f *Flow) readChunk() int { return max(f.window/2, minWindow) }

// fits says whether there is room for n more bytes of a kind.
func (f *Flow) fits(l line, n int) bool {
	if l == forReads {
		return f.roomForRead(n)
	}
	return f.room(n)
}

// fullSend is the room that a long message waits for: the window is not handed out in
// pieces that are not worth a send.
func (f *Flow) fullSend() int { return min(longSend, f.window/4) }

// acked gives the room of n bytes of requests back.
func (f *Flow) acked(now Time, n int) {
	f.inflight -= n
	f.grow(now, n)
}

// came gives the room of n bytes of READ responses back.
func (f *Flow) came(now Time, n int) {
	f.reads -= n
	f.grow(now, n)
}

// grow opens the window for n bytes that have arrived: by as much until it is as large as
// it was at half the last loss, then by an eighth.
func (f *Flow) grow(now Time, n int) {
	limit := f.max + f.path.arrived(now, n)
	if f.window >= limit {
		return
	}
	if f.window >= f.threshold {
		n /= 8
	}
	f.window = min(limit, f.window+n)
}

// lost halves the window.
func (f *Flow) lost() {
	f.window = max(f.window/2, minWindow)
	f.threshold = f.window
}

// silent closes the window: a peer that does not answer in time may be slow, and more
// copies of the same packets would make it slower. It may also be further away than it was.
func (f *Flow) silent() {
	if f.window > minWindow && f.path.rtt != 0 { // else it may be nothing but a long path
		f.threshold = f.window / 2
	}
	f.window = minWindow
	f.path = path{}
}

// sample takes a round trip that was measured.
func (f *Flow) sample(rtt Time) { f.path.sample(rtt) }

// path estimates the bytes that are on their way at any time, and so in nobody's buffer:
// the rate at which they arrive times the shortest round trip.
type path struct {
	rtt   Time // the shortest round trip; zero: unknown
	since Time // when counting bytes began
	bytes int  // that have arrived since
	holds int
}

// shortPath is the round trip below which a path holds nothing worth counting.
const shortPath = Time(100 * time.Microsecond)

func (p *path) sample(rtt Time) {
	if p.rtt == 0 || rtt < p.rtt {
		p.rtt = rtt
	}
}

// arrived notes that n bytes have arrived, and returns how many more than a socket buffer
// holds may be under way. That is half as much again as arrived in a round trip, so that
// the rate can be found out.
func (p *path) arrived(now Time, n int) int {
	if p.rtt < shortPath {
		return 0
	}
	p.bytes += n
	if took := now - p.since; took >= p.rtt/8*7 {
		arrived := int(float64(p.bytes) * float64(p.rtt) / float64(took))
		p.holds = max(arrived+arrived/2, p.holds-p.holds/8)
		p.since, p.bytes = now, 0
	}
	return p.holds
}

// wait puts q in line until there is room for need bytes.
func (f *Flow) wait(q *QP, l line, need int) {
	r := &q.req
	if !r.waiting {
		r.waiting, r.line, r.need = true, l, need
		*f.lines[l].PushBack() = q
	}
}

// first says whether nobody stands before q in line.
func (f *Flow) first(q *QP, l line) bool {
	return f.lines[l].Len() == 0 || *f.lines[l].Front() == q
}

// Waiting says whether queue pairs wait for room.
func (f *Flow) Waiting() bool { return f.lines[forRequests].Len()+f.lines[forReads].Len() > 0 }

// Next returns the queue pair that has waited longest, now that there is room for what it
// has to send; nil: there is none. It is to be drained before Next is called again.
func (f *Flow) Next() *QP {
	for l := range f.lines {
		waiting := &f.lines[l]
		if waiting.Len() == 0 {
			continue
		}
		if q := *waiting.Front(); f.fits(line(l), q.req.need) {
			*waiting.Front() = nil
			waiting.PopFront()
			q.req.waiting, q.req.turn = false, q.fullTurn()
			return q
		}
	}
	return nil
}

// forget takes q out of the line.
func (f *Flow) forget(q *QP) {
	if q.req.turn = 0; !q.req.waiting {
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

// InFlight returns the bytes of requests that are not acknowledged, and of READs that have
// not come back.
func (f *Flow) InFlight() (requests, reads int) { return f.inflight, f.reads }
