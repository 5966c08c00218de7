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
)

// progress is the state of moving data.
type progress struct {
	deliverTo   func(*ib.Packet, *ibta.Arrival) // d.take, made once
	batch       *ibta.Batch
	isStalled   bool   // the port took no more: batch is to be sent again
	passPackets int    // received in the present pass
	sentBatches int    // sent in it
	dropped     uint64 // packets, as the network was told
	ackWait     ackWait
}

func (p *progress) init(d *Device, lim ibta.Limits) {
	p.deliverTo = d.take
	p.batch = ibta.NewBatch(lim)
}

// Receive takes packets from the port to their queue pairs.
func (d *Device) Receive() int {
	d.progress.passPackets, d.progress.sentBatches = 0, 0
	// an error is that of a closed port; others are counted where they happen
	n, _ := d.port.Receive(&d.engineLane.Counters, d.progress.deliverTo)
	if n > 0 && d.losses != nil {
		if now := d.engineLane.Counters.Lost(); now != d.progress.dropped {
			d.losses.Dropped(now - d.progress.dropped)
			d.progress.dropped = now
		}
	}
	return n
}

// take takes a packet to its queue pair.
func (d *Device) take(p *ib.Packet, from *ibta.Arrival) {
	d.engineLane.Counters.RecvPackets++
	d.engineLane.Counters.RecvBytes += uint64(len(p.Payload))
	d.progress.passPackets++
	if p.DestQP == ib.QPNMulticast {
		for _, q := range d.groups[group{from.To, from.From.Port}] {
			if !q.blockSelf || p.DETH.SrcQP != q.engine.Num || !d.isOwn(&from.From) {
				d.receiveAt(q, p, from)
			}
		}
		return
	}
	q := d.last
	if q == nil || q.engine.Num != p.DestQP {
		if q = d.findQP(p.DestQP); q == nil {
			d.receiveOther(p, from)
			return
		}
		d.last = q
	}
	d.receiveAt(q, p, from)
}

// isOwn reports whether a datagram from an address is one of this device, or of another process
// that shares the address and has other queue pair numbers.
func (d *Device) isOwn(from *ibta.PathKey) bool {
	gids := d.port.Info(int(from.Port)).GIDTable
	return slices.ContainsFunc(gids, func(g verbs.GIDEntry) bool { return g.GID == from.GID })
}

func (d *Device) receiveAt(q *qp, p *ib.Packet, from *ibta.Arrival) {
	if av := q.engine.AV(); av != nil && av.Key != from.From {
		d.engineLane.Counters.Dropped[ibta.DropAddress]++
		return
	}
	if r := q.Capture.Load(); r != nil {
		captureReceived(r, p, from)
	}
	if r := q.engine.HandlePacket(d.Lane.PassTime(), p, from); r != ibta.Taken {
		d.engineLane.Counters.Dropped[r]++
	} else if from.Marked {
		q.engine.Marked(d.Lane.PassTime(), p)
	}
	d.Lane.Touch(&q.QP)
	d.schedule.addReady(q)
}

// Respond holds back acknowledgements of what just arrived while a program polls that may answer it, and sends the
// rest.
func (d *Device) Respond(polling bool, n int, busy bool) {
	// What just arrived may be answered at once: the answer goes first.
	hold := polling && n > 0 && !busy && d.progress.passPackets <= holdPackets &&
		(d.schedule.answers || !d.schedule.acksDue())
	if hold {
		d.schedule.heldPasses = 0
	} else if len(d.schedule.heldAcks) > 0 {
		if d.schedule.heldPasses++; d.schedule.heldPasses >= d.schedule.holdsFor() || n > 0 || !polling || busy {
			d.schedule.releaseAcks()
		}
	}
	if d.progress.isStalled || d.schedule.ready.Len() > 0 {
		d.transmit(!hold)
	}
	if len(d.schedule.heldAcks) > 0 {
		// The program may never poll again. The packets woke the goroutine only if it saw
		// them before this pass took them.
		d.Lane.WakeBy(d.Lane.PassTime() + holdTime)
	}
}

// Polling notes that the program may wait for nothing but an acknowledgement.
func (d *Device) Polling(from *queue.CQ) {
	if from != nil && d.last != nil && d.last.engine.AwaitsAck(from) {
		d.progress.ackWait.polls++
	}
}

func (d *Device) Long(int) bool { return d.progress.sentBatches+d.progress.passPackets > bulk }

// transmit sends what ready queue pairs have, as much as the budget of a pass allows, and delivers the results
// to the program. The rest goes with the next pass.
func (d *Device) transmit(acks bool) {
	if !d.progress.isStalled || d.send() {
		d.sendReady(acks)
	}
	d.Lane.Deliver()
	if d.Pending() {
		d.Lane.WakeBy(d.Lane.PassTime()) // the program may never poll again
	}
	d.Lane.WakeForTimer()
}

// sendReady sends what ready queue pairs have, one send of each after the other. Those that
// have little share a send.
func (d *Device) sendReady(acks bool) {
	now := d.Lane.PassTime()
	spent := softdev.Budget{Start: now}
	d.progress.batch.Acks = acks
	for q := d.schedule.nextReady(now); q != nil; q = d.schedule.nextReady(now) {
		d.Lane.Touch(&q.QP)
		if !q.engine.NextPackets(now, d.progress.batch) {
			d.idle(q)
			continue
		}
		others := d.schedule.ready.Len()
		if others == 0 {
			q.engine.AppendAck(d.progress.batch)
		}
		d.captureSent(q, 0)
		d.schedule.addReady(q)
		for ; others > 0 && !d.progress.batch.Full(); others-- {
			q := d.schedule.nextReady(now)
			d.Lane.Touch(&q.QP)
			before := d.progress.batch.Len()
			if q.engine.AppendPackets(now, d.progress.batch) || d.progress.batch.Full() {
				d.schedule.addReady(q)
			} else {
				d.idle(q)
			}
			d.captureSent(q, before)
		}
		n := d.progress.batch.Bytes()
		if !d.send() {
			return
		}
		if spent.Sent(n, budgetBytes, d.Lane.Now()); spent.Over {
			return
		}
	}
}

// settle finishes what happened to q before it changes: it sends what q owes its peer, which would
// otherwise wait for nothing, as far as the budget goes, and delivers its completions.
func (d *Device) settle(q *qp) {
	d.Lane.NewTime()
	d.Lane.Touch(&q.QP)
	if !d.progress.isStalled && (q.ready || q.ackHeld) {
		spent := softdev.Budget{Start: d.Lane.PassTime()}
		d.progress.batch.Acks = true
		for q.engine.NextPackets(spent.Start, d.progress.batch) {
			d.captureSent(q, 0)
			n := d.progress.batch.Bytes()
			if !d.send() {
				break
			}
			if spent.Sent(n, budgetBytes, d.Lane.Now()); spent.Over {
				break
			}
		}
	}
	d.Lane.Deliver()
}

// idle notes what q waits for, which has nothing to send now.
func (d *Device) idle(q *qp) {
	d.setTimer(q)
	if !d.progress.batch.Acks && q.engine.HasAck() {
		d.schedule.holdAck(q)
	}
	if av := q.engine.AV(); av != nil && av.Flow.Waiting() {
		d.schedule.addWaiting(av.Flow)
	}
}

// send hands the batch to the port; false: the port is full.
func (d *Device) send() bool {
	err := d.hand(d.progress.batch)
	d.Lane.Mu.Counted = true
	d.progress.sentBatches++
	d.progress.isStalled = errors.Is(err, softdev.ErrAgain)
	if err != nil && !d.progress.isStalled {
		d.engineLane.Counters.SendErrors++
	}
	if d.progress.isStalled && !d.progress.batch.Detach() {
		d.progress.isStalled = false // as if it were lost: sending it again will show the error
		d.engineLane.Counters.SendErrors++
	}
	if d.progress.isStalled {
		if d.Lane.Waiting() {
			d.port.Wake() // it is to wait for room
		}
	}
	return !d.progress.isStalled
}

// kick sends what was just posted to q, unless it can join a send that is about to leave.
func (d *Device) kick(q *qp) {
	d.Lane.NewTime()
	d.schedule.addReady(q)
	d.schedule.answers = d.schedule.answers || len(d.schedule.heldAcks) > 0
	if d.Lane.PollsOn() && !q.engine.Eager() {
		return // the poll that follows sends it
	}
	d.transmit(d.progress.ackWait.posted() || !d.Lane.PollsOn())
	if d.schedule.acksDue() {
		d.flushAcks()
	}
}

// flushAcks sends the acknowledgements that are held back.
func (d *Device) flushAcks() {
	if len(d.schedule.heldAcks) > 0 {
		d.Lane.NewTime()
		d.schedule.releaseAcks()
		d.transmit(true)
	}
}

// Flush sends the acknowledgements that are held back, and leaves what else there is to the
// device's goroutine.
func (d *Device) Flush() {
	d.flushAcks()
	if d.Pending() {
		d.Lane.NewTime()
		d.Lane.WakeBy(d.Lane.PassTime())
	}
}

func (d *Device) Pending() bool            { return d.schedule.ready.Len() > 0 && !d.progress.isStalled }
func (d *Device) Stalled() bool            { return d.progress.isStalled }
func (d *Device) Arm() bool                { return true }
func (d *Device) SetDeadline(t time.Time)  { d.port.SetDeadline(t) }
func (d *Device) Wait(writable bool) error { return d.port.Wait(writable) }
func (d *Device) Waited()                  {}
func (d *Device) Wake()                    { d.port.Wake() }
