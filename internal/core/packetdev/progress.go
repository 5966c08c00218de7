// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"errors"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

const (
	// bulk is how many packets received and sends make a poll a long one.
	bulk = 4
	// An acknowledgement for a lone message, of at most holdPackets packets, waits for the
	// program's answer, which a program that has one posts before it polls again, or once
	// more: briefPasses that find nothing. Where it answers, the acknowledgement waits for the
	// next message too, for holdPasses in a row that find nothing, and is for holdMessages at
	// most: with one more under way the peer would not send at once (ibta.QP.Eager).
	holdPackets  = 2
	briefPasses  = 2
	holdPasses   = 24
	holdTime     = clock.Time(200 * time.Microsecond)
	holdMessages = 7
	// promptSleeps is before how many sleeps of a program that answers acknowledgements are sent, after one in which
	// some were held and nothing arrived: the peer may have waited for them.
	promptSleeps = 256
)

// progress is the state of moving data.
type progress struct {
	deliverTo   func(*ib.Packet, *ibta.Arrival) // lane.take, made once
	batch       *ibta.Batch
	isStalled   bool   // the port took no more: batch is to be sent again
	passPackets int    // received in the present pass
	sentBatches int    // sent in it
	dropped     uint64 // packets, as the network was told
	ackWait     ackWait
}

func (p *progress) init(l *lane, lim ibta.Limits) {
	p.deliverTo = l.take
	p.batch = ibta.NewBatch(lim)
}

// Receive takes packets from the port to their queue pairs.
func (l *lane) Receive() int {
	l.progress.passPackets, l.progress.sentBatches = 0, 0
	// an error is that of a closed port; others are counted where they happen
	n, _ := l.port.Receive(&l.engine.Counters, l.progress.deliverTo)
	if n > 0 && l.dev.losses != nil {
		if now := l.engine.Counters.Lost(); now != l.progress.dropped {
			l.dev.losses.Dropped(now - l.progress.dropped)
			l.progress.dropped = now
		}
	}
	return n
}

// take takes a packet to its queue pair.
func (l *lane) take(p *ib.Packet, from *ibta.Arrival) {
	l.engine.Counters.RecvPackets++
	l.engine.Counters.RecvBytes += uint64(len(p.Payload))
	l.progress.passPackets++
	if p.DestQP == ib.QPNMulticast && l.isFirst() {
		for _, q := range l.dev.groups[group{from.To, from.From.Port}] {
			if !q.blockSelf || p.DETH.SrcQP != q.engine.Num || !l.dev.isOwn(&from.From) {
				l.receiveAt(q, p, from)
			}
		}
		return
	}
	q := l.last
	if q == nil || q.engine.Num != p.DestQP {
		if q = l.dev.findQP(p.DestQP); q == nil || q.lane != l {
			l.receiveOther(p, from)
			return
		}
		l.last = q
	}
	l.receiveAt(q, p, from)
}

// isOwn reports whether a datagram from an address is one of this device, or of another process
// that shares the address and has other queue pair numbers.
func (d *Device) isOwn(from *ibta.PathKey) bool {
	gids := d.port.Info(int(from.Port)).GIDTable
	return slices.ContainsFunc(gids, func(g verbs.GIDEntry) bool { return g.GID == from.GID })
}

func (l *lane) receiveAt(q *qp, p *ib.Packet, from *ibta.Arrival) {
	if av := q.engine.AV(); av != nil && av.Key != from.From {
		l.engine.Counters.Dropped[ibta.DropAddress]++
		return
	}
	if r := q.Capture.Load(); r != nil {
		captureReceived(r, p, from)
	}
	if r := q.engine.HandlePacket(l.core.PassTime(), p, from); r != ibta.Taken {
		l.engine.Counters.Dropped[r]++
	} else if from.Marked {
		q.engine.Marked(l.core.PassTime(), p)
	}
	l.core.Touch(&q.QP)
	l.schedule.addReady(q)
}

// Respond holds back acknowledgements of the requests that just arrived while a program polls that may answer them, and
// sends the rest.
func (l *lane) Respond(polling bool, n int, busy bool) {
	// The program may answer at once the requests that just arrived: its answer goes first.
	hold := polling && n > 0 && !busy && l.progress.passPackets <= holdPackets &&
		(l.schedule.answers || !l.schedule.acksDue())
	prompt := l.schedule.sleptForNothing(n > 0)
	if hold {
		l.schedule.heldPasses = 0
	} else if len(l.schedule.heldAcks) > 0 {
		l.schedule.heldPasses++
		if enough := l.schedule.heldPasses >= l.schedule.holdsFor(); enough || prompt || n > 0 || !polling || busy {
			l.schedule.releaseAcks()
		}
	}
	if l.progress.isStalled || l.schedule.ready.Len() > 0 {
		l.transmit(!hold)
	}
	if len(l.schedule.heldAcks) > 0 {
		// The program may never poll again. The packets woke the goroutine only if it saw
		// them before this pass took them.
		l.core.WakeBy(l.core.PassTime() + holdTime)
	}
}

// Polling notes that the program may wait for nothing but an acknowledgement.
func (l *lane) Polling(from *queue.CQ) {
	if from != nil && l.last != nil && l.last.engine.AwaitsAck(from) {
		l.progress.ackWait.polls++
	}
}

func (l *lane) Long(int) bool { return l.progress.sentBatches+l.progress.passPackets > bulk }

// transmit sends the packets of ready queue pairs, as many as the budget of a pass allows, and delivers the results to
// the program. The rest goes with the next pass.
func (l *lane) transmit(acks bool) {
	if !l.progress.isStalled || l.send() {
		l.sendReady(acks)
	}
	l.core.Deliver()
	if l.Pending() {
		l.core.WakeBy(l.core.PassTime()) // the program may never poll again
	}
	l.core.WakeForTimer()
}

// sendReady sends the packets of ready queue pairs, one send of each after the other. Queue pairs that have little
// share a send.
func (l *lane) sendReady(acks bool) {
	now := l.core.PassTime()
	spent := softdev.Budget{Start: now}
	l.progress.batch.Acks = acks
	for q := l.schedule.nextReady(now); q != nil; q = l.schedule.nextReady(now) {
		l.core.Touch(&q.QP)
		if !q.engine.NextPackets(now, l.progress.batch) {
			l.idle(q)
			continue
		}
		others := l.schedule.ready.Len()
		if others == 0 {
			q.engine.AppendAck(l.progress.batch)
		}
		l.captureSent(q, 0)
		l.schedule.addReady(q)
		for ; others > 0 && !l.progress.batch.Full(); others-- {
			q := l.schedule.nextReady(now)
			l.core.Touch(&q.QP)
			before := l.progress.batch.Len()
			if q.engine.AppendPackets(now, l.progress.batch) || l.progress.batch.Full() {
				l.schedule.addReady(q)
			} else {
				l.idle(q)
			}
			l.captureSent(q, before)
		}
		n := l.progress.batch.Bytes()
		if !l.send() {
			return
		}
		if spent.Sent(n, budgetBytes, l.core.Now()); spent.Over {
			return
		}
	}
}

// settle finishes the work of q before q changes: it sends the acknowledgements and responses that q owes its peer,
// which would otherwise wait for nothing, as far as the budget goes, and delivers its completions.
func (l *lane) settle(q *qp) {
	l.core.NewTime()
	l.core.Touch(&q.QP)
	if !l.progress.isStalled && (q.ready || q.ackHeld) {
		spent := softdev.Budget{Start: l.core.PassTime()}
		l.progress.batch.Acks = true
		for q.engine.NextPackets(spent.Start, l.progress.batch) {
			l.captureSent(q, 0)
			n := l.progress.batch.Bytes()
			if !l.send() {
				break
			}
			if spent.Sent(n, budgetBytes, l.core.Now()); spent.Over {
				break
			}
		}
	}
	l.core.Deliver()
}

// idle notes the event that q waits for, which has nothing to send now.
func (l *lane) idle(q *qp) {
	l.setTimer(q)
	if !l.progress.batch.Acks && q.engine.HasAck() {
		l.schedule.holdAck(q)
	}
	if av := q.engine.AV(); av != nil && av.Flow.Waiting() {
		l.schedule.addWaiting(av.Flow)
	}
}

// send hands the batch to the port; false: the port is full.
func (l *lane) send() bool {
	err := l.hand(l.progress.batch)
	l.core.Mu.Counted = true
	l.progress.sentBatches++
	l.progress.isStalled = errors.Is(err, softdev.ErrAgain)
	if err != nil && !l.progress.isStalled {
		l.engine.Counters.SendErrors++
	}
	if l.progress.isStalled && !l.progress.batch.Detach() {
		l.progress.isStalled = false // as if it were lost: sending it again will show the error
		l.engine.Counters.SendErrors++
	}
	if l.progress.isStalled {
		if l.core.Waiting() {
			l.port.Wake() // it is to wait for room
		}
	}
	return !l.progress.isStalled
}

// kick sends the work request that was just posted to q, unless it can join a send that is about to leave.
func (l *lane) kick(q *qp) {
	l.core.NewTime()
	l.schedule.addReady(q)
	l.schedule.answers = l.schedule.answers || len(l.schedule.heldAcks) > 0
	if l.core.PollsOn() && !q.engine.Eager() {
		return // the poll that follows sends it
	}
	l.transmit(l.progress.ackWait.posted() || !l.core.PollsOn())
	if l.schedule.acksDue() {
		l.flushAcks()
	}
}

// flushAcks sends the acknowledgements that are held back.
func (l *lane) flushAcks() {
	if len(l.schedule.heldAcks) > 0 {
		l.core.NewTime()
		l.schedule.releaseAcks()
		l.transmit(true)
	}
}

// Flush sends the acknowledgements that are held back, and leaves other work to the device's goroutine.
func (l *lane) Flush() {
	l.flushAcks()
	if l.Pending() {
		l.core.NewTime()
		l.core.WakeBy(l.core.PassTime())
	}
}

// Arm sends the acknowledgements that are not to be held while the program sleeps: it makes no passes that would.
func (l *lane) Arm() bool {
	if !l.schedule.holdAsleep() {
		l.flushAcks()
	}
	return !l.Pending()
}

func (l *lane) Pending() bool            { return l.schedule.ready.Len() > 0 && !l.progress.isStalled }
func (l *lane) Stalled() bool            { return l.progress.isStalled }
func (l *lane) SetDeadline(t time.Time)  { l.port.SetDeadline(t) }
func (l *lane) Wait(writable bool) error { return l.port.Wait(writable) }
func (l *lane) Waited()                  {}
func (l *lane) Wake()                    { l.port.Wake() }
