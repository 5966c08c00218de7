// SPDX-License-Identifier: Apache-2.0

package memorydev

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// In shared memory a message that finds no receive waits in its ring. It is counted as on InfiniBand, where it meets an
// RNR NAK, is tried again after the target's MinRNRTimer, and fails after the sender's RNRRetry retries (IBTA
// 9.7.5.2.8).

// agreeOnRetries sets the attributes of a queue pair that a connection manager connects, as package cm does on
// InfiniBand: retries that have an end last long.
func (ep *endpoint) agreeOnRetries() {
	a := ep.engine.Attr()
	own, peers := ep.c.RNRRetries()
	a.RNRRetry, a.MinRNRTimer = own, 12 // 0.64 ms
	if peers < 7 {
		a.MinRNRTimer = 0 // 655.36 ms
	}
}

// countTime is how often the RNR NAKs are counted of a message that waits without end.
const countTime = clock.Time(10 * time.Millisecond)

// Resumed receives the messages that waited. The next message may wait as well, for a time of its own.
func (ep *endpoint) Resumed() {
	if ep.rnrTimer.IsSet() && !ep.engine.Refused() {
		ep.carrier.dev.Lane.NewTime()
		ep.countRetries()
		ep.carrier.dev.Lane.Timers.Stop(&ep.rnrTimer)
	}
	ep.Receive()
}

// awaitReceive sets the timer of a message that waits for a receive, or fails the message.
func (ep *endpoint) awaitReceive() {
	if !ep.engine.Paused() || ep.peer == nil || ep.rnrTimer.IsSet() {
		return
	}
	d := ep.carrier.dev
	now := d.Lane.PassTime()
	refused := ep.engine.Refused()
	switch {
	case ep.pause != ep.engine.Pauses():
		ep.pause, ep.since, ep.retries = ep.engine.Pauses(), now, 0
	case refused: // again
		ep.count(1)
	default:
		ep.countRetries()
	}
	most, limited := ep.engine.Patience()
	deadline := ep.since + clock.Time(most)*ep.retryTime()
	if limited && (refused && ep.retries >= uint64(most) || !refused && now >= deadline) {
		ep.engine.Deny()
		d.AddReady(ep.c)
		return
	}
	at := now + max(ep.retryTime(), countTime)
	switch {
	case refused:
		at = now + ep.retryTime()
	case limited:
		at = deadline
	}
	d.Lane.Timers.Set(&ep.rnrTimer, at)
	d.Lane.WakeForTimer()
}

// rnrTimeout looks again for a receive, or fails the message.
func (ep *endpoint) rnrTimeout() {
	if !ep.engine.Refused() {
		ep.awaitReceive()
		return
	}
	ep.engine.Retry()
	ep.Receive()
}

// countRetries counts the RNR NAKs that the message that waits, or has just found a receive, would have met.
func (ep *endpoint) countRetries() {
	n := uint64((ep.carrier.dev.Lane.PassTime() - ep.since) / ep.retryTime())
	if most, limited := ep.engine.Patience(); limited {
		n = min(n, uint64(most))
	}
	if n > ep.retries {
		ep.count(n - ep.retries)
	}
}

// count counts retries that have met RNR NAKs. The sender looks at its count when it is woken.
func (ep *endpoint) count(n uint64) {
	ep.retries += n
	ep.engine.CountNotReady(n)
	ep.carrier.dev.Lane.Touch(ep.qp)
	ep.carrier.dev.Lane.Mu.Counted = true
	ep.link.Ring()
}

// retryTime is how long a sender waits after an RNR NAK.
func (ep *endpoint) retryTime() clock.Time {
	return clock.Time(ib.RNRTimer(ep.engine.Attr().MinRNRTimer).Duration())
}

// RefuseMessages has faults decide which messages find no receive; nil: none are there.
func (m *carrier) RefuseMessages(x *softdev.Faulty) {
	m.engine.Refuses = nil
	if x == nil || !x.Unready {
		return
	}
	m.engine.Refuses = func(q *local.QP) bool {
		p := faults.Packet{Way: faults.Received, QP: x.QPNumbered(q.Number()), Name: "a message"}
		if s, ok := m.dev.QPs[q.Number()].(*streamdev.QP); ok && s.Conn() != nil {
			p.Peer = s.Conn().Link().PeerAddr().Addr().Unmap().WithZone("")
		}
		return x.Injector.NotReady(&p, x.Since(&m.dev.Lane))
	}
}
