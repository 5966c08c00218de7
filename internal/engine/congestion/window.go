// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"math"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// MinWindow is the smallest window, one send, unless that fills a queue on the path.
const MinWindow = 64 << 10

// minQueuedWindow is the smallest window where it does.
const minQueuedWindow = 8 << 10

// queuedGrowth is by how many bytes the window grows in a round trip in which a queue has grown: a packet of
// Ethernet. So it has its share beside flows that fill the queue, and loses few packets when that is full.
const queuedGrowth = 1500

// NotifyInterval is the shortest time between two notifications that a queue pair sends. Annex A17.9.3
// leaves it to implementations; this is DCQCN's value (Zhu et al., SIGCOMM 2015).
const NotifyInterval = clock.Time(50 * time.Microsecond)

// Window is the congestion control of sockets (docs/decisions/0005-flow-control.md): it begins with one send, halves on
// a loss and grows again with bytes that arrive, up to as many as the socket buffers and the path hold. Where
// a queue grows the window grows slowly. It does not pace.
type Window struct {
	max        int // bytes: as many as the socket buffers allow
	size       int
	threshold  int // below, the window doubles in a round trip
	bdp        bdp
	open       int        // the size once the link is known not to be slow
	unknown    int        // bytes in flight when going back: they may have arrived long before they are acknowledged
	firstAt    clock.Time // when something arrived, of less than half a send since
	since      int        // bytes that have arrived since
	notifiedAt clock.Time // when it was made smaller for a notification
}

// NewWindow makes a window for a peer whose socket buffer is assumed to hold limit bytes. lineRate is the rate of our
// own link, in bits per second; zero: it is not known. The first window has the bytes that the link sends in firstSend,
// one send at least, since nothing is known of the path yet.
func NewWindow(limit int, lineRate float64) *Window {
	w := NewOpenWindow(limit)
	w.size = min(w.size, max(MinWindow, int(lineRate/8*firstSend.Seconds())))
	return w
}

// firstSend is the time of our own link that the first window takes.
const firstSend = 20 * time.Microsecond

// NewOpenWindow makes a window that is as large as the buffer from the beginning, for flows with another control
// for the path.
func NewOpenWindow(limit int) *Window {
	limit = max(limit, MinWindow)
	return &Window{max: limit, size: limit, open: limit, threshold: math.MaxInt}
}

// Allows returns the window.
func (w *Window) Allows(clock.Time) Verdict { return Verdict{Window: w.size, Burst: AnyBurst} }

// State returns nothing: the engine knows the window.
func (w *Window) State() State { return State{} }

// Sent has nothing to do: the engine counts bytes in flight.
func (w *Window) Sent(clock.Time, int) {}

// Arrived opens the window for n bytes that have arrived. As long as nothing was lost and no queue has grown, it is
// four times as large after a round trip. After a loss it doubles until it has half its size before the loss, and grows
// by an eighth from there on; in a queue by a packet.
func (w *Window) Arrived(now clock.Time, n int) {
	holds := w.bdp.arrived(now, n)
	limit := w.max + holds
	if w.threshold == math.MaxInt {
		limit += holds
	}
	w.first(now, n)
	if w.size >= limit {
		return
	}
	enough := uint8(queuedSamples)
	if w.threshold == math.MaxInt {
		enough = 1 // the window is four times as large after the next
	}
	switch queue := w.bdp.delayed(enough); {
	case queue && w.size < w.threshold:
		w.threshold = w.size
		return
	case queue:
		n = max(n*queuedGrowth/w.size, 1)
	case w.size >= w.threshold:
		n /= 8
	case w.threshold == math.MaxInt:
		n *= 3
	}
	w.size = min(limit, w.size+n)
}

// first opens the window when the link is found not to be slow: half a send has arrived in less than queueTime, which
// takes a link of 140 Mb/s. If packets were lost before, the window then has the size that the losses would have left
// of a window that was open from the beginning.
func (w *Window) first(now clock.Time, n int) {
	switch {
	case w.size >= w.open:
	case w.unknown > 0:
		w.unknown -= n
	case w.firstAt == 0 || now-w.firstAt >= queueTime:
		w.firstAt, w.since = now, 0 // packets that are acknowledged now may have arrived before
	default:
		if w.since += n; w.since < MinWindow/2 {
			return
		}
		w.size = w.open
		if w.threshold != math.MaxInt {
			w.threshold = w.size
		}
	}
}

// RoundTrip notes a round trip, which may be the shortest.
func (w *Window) RoundTrip(_, took clock.Time) { w.bdp.sample(took) }

// Lost halves the window.
func (w *Window) Lost(clock.Time) {
	least := w.smallest()
	w.unknown, w.firstAt = w.size, 0
	w.open = min(w.open, max(w.open/2, least))
	w.size = min(w.size, max(w.size/2, least))
	w.threshold = w.size
}

// smallest is the smallest window that losses leave: one send, or the bandwidth-delay product of the path if there is a
// queue. On a slow link one send fills the queue, and would lose a part of itself each time. Where packets are lost
// without a queue, a smaller window loses as many.
func (w *Window) smallest() int {
	if !w.bdp.queued() {
		return MinWindow
	}
	return min(max(w.bdp.holds, minQueuedWindow), MinWindow)
}

// Notified halves the window, once in a round trip: later notifications in it are for packets that were sent before.
func (w *Window) Notified(now clock.Time) {
	if w.notifiedAt == 0 || now-w.notifiedAt >= max(w.bdp.rtt, NotifyInterval) {
		w.notifiedAt = now
		w.Lost(now)
	}
}

// Marked is Notified: the requester asks for less.
func (w *Window) Marked(now clock.Time) { w.Notified(now) }

// Silent closes the window: a peer that does not answer in time may be slow, and more
// copies of the same packets would make it slower.
func (w *Window) Silent(clock.Time) {
	w.unknown, w.firstAt = w.size, 0
	known := w.bdp.rtt != 0 // else it may be nothing but a long path
	if w.size > MinWindow && known {
		w.threshold = w.size / 2
	}
	w.size = min(w.size, MinWindow)
	if known {
		w.open = w.size
	}
}

// bdp estimates the bandwidth-delay product of the path, the bytes that are on their way at any time, and so
// in no buffer: the rate at which bytes arrive times the shortest round trip.
type bdp struct {
	rtt   clock.Time // the shortest round trip; zero: unknown
	last  clock.Time // the last sample
	long  uint8      // how many of the last ones were so long that they were in a queue; at most queuedSamples
	since clock.Time // when counting bytes began
	bytes int        // that have arrived since
	holds int
}

// shortRTT is the round trip below which a path holds nothing worth counting.
const shortRTT = clock.Time(100 * time.Microsecond)

// rttAge is the number of samples after which the shortest round trip comes closer to the present ones: the peer may
// be further away than it was.
const rttAge = 512

// queueTime is the time in a queue that is more than a late processor. It takes a link of less than 260 Mb/s for a send
// to wait so long for itself.
const queueTime = clock.Time(2 * time.Millisecond)

// queued reports whether the last round trip was in a queue for longer than on its way.
func (b *bdp) queued() bool { return b.last-b.rtt > max(b.rtt, queueTime) }

// queuedSamples is how many round trips in a row are in a queue that has grown. A single one may be of a packet that
// others overtook, or of a program that was off the processor.
const queuedSamples = 3

// delayed reports whether n round trips in a row have been longer in a queue than late packets explain.
func (b *bdp) delayed(n uint8) bool { return b.long >= n }

func (b *bdp) sample(rtt clock.Time) {
	b.last = rtt
	if b.rtt != 0 && rtt-b.rtt > max(b.rtt/3, queueTime) {
		b.long = min(b.long+1, queuedSamples)
	} else {
		b.long = 0
	}
	if b.rtt == 0 || rtt < b.rtt {
		b.rtt = rtt
	}
	b.rtt += (rtt - b.rtt) / rttAge
}

// arrived notes that n bytes have arrived, and returns how many more than a socket buffer
// holds may be under way. That is half as much again as arrived in a round trip, so that
// the rate can be found out.
func (b *bdp) arrived(now clock.Time, n int) int {
	if b.rtt < shortRTT {
		return 0
	}
	b.bytes += n
	if took := now - b.since; took >= b.rtt/8*7 {
		arrived := int(float64(b.bytes) * float64(b.rtt) / float64(took))
		b.holds = max(arrived+arrived/2, b.holds-b.holds/8)
		b.since, b.bytes = now, 0
	}
	return b.holds
}
