// SPDX-License-Identifier: Apache-2.0

package ibta

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// Network is a network that counts the packets that it loses. It keeps a requester from retransmitting packets that are
// not lost, but only late: where processors are short, peers and the device itself have none for a while.
type Network interface {
	// Losses returns how many packets were lost so far, on the way or by the device at the end of it. The number
	// may be old: all that counts is that it changes after a loss, and once RefreshLosses was called, soon. Known
	// is false if packets may be lost without being counted.
	Losses() (n uint64, known bool)
	RefreshLosses()
}

// lateness is a requester's record of an acknowledgement that has not come in time.
type lateness struct {
	losses    uint64 // of the network, when it was last found that something may be lost
	overdue   bool   // a timeout has passed and nothing was sent again: nothing is lost
	unproven  bool   // went back for a timeout: the packets not acknowledged may have been only late
	restarted bool   // the timer began again because the device had no processor when it expired
}

// unattended is how late a device notices a timeout at most while it has a processor. It is longer than a program
// that polls leaves the timers alone.
const unattended = clock.Time(2 * time.Millisecond)

// onlyLate reports whether a timeout does not show a loss, so that the transport timer starts again. It does, once, if
// the device had no processor, because its packets may have left only now (IBTA 9.7.6.1.3 lets the timer take up to
// four times its value). It does while packets to a peer that acknowledges nothing at all are still on this host: if
// the peer acknowledges other queue pairs' packets, the packets on this host may be theirs. And it does if the network
// has lost none. Time without a processor is neither the peer's silence nor part of a round trip.
func (q *QP) onlyLate(now, due clock.Time) bool {
	r, network := &q.req, q.Device.Network
	if behind := now - due; behind >= unattended {
		r.progressAt += behind
		r.rtt.sentAt = 0
		if !r.late.restarted {
			r.late.restarted = true
			return true
		}
	}
	if q.av.Flow.heardAt < due-r.wait && q.av.Path.Holds() {
		return true
	}
	if network == nil {
		return false
	}
	before := r.late.losses
	n, known := network.Losses()
	network.RefreshLosses()
	r.late.losses = n
	return known && n == before
}

// losses returns the number of losses in the network so far; zero if the network does not count them.
func (q *QP) losses() uint64 {
	if q.Device.Network == nil {
		return 0
	}
	n, _ := q.Device.Network.Losses()
	return n
}

// ackedUnsent notes that packets of the oldest work request are acknowledged up to n. If they were not sent again
// since a timeout, the peer had them: the timeout was spurious, as F-RTO finds (RFC 5682).
func (r *requester) ackedUnsent(n int) {
	if r.late.unproven && n > r.sent {
		r.late.overdue, r.late.unproven = true, false
	}
}

// noteLate counts an acknowledgement that comes after its timeout.
func (q *QP) noteLate() {
	l := &q.req.late
	if l.overdue {
		q.Counts.LateAcks++
		q.lane.Counters.LateAcks++
	}
	l.overdue, l.restarted = false, false
}
