// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"errors"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

const (
	// lease is how long the device's goroutine leaves a polling program alone before it
	// looks again.
	lease = time.Millisecond
	// busyPolls within recently says that a program polls.
	busyPolls = 32
	recently  = ibta.Time(300 * time.Microsecond)
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
	holdTime     = ibta.Time(200 * time.Microsecond)
	holdMessages = 7
	// spin is how long the device's goroutine polls after it had something to do: the
	// next packet is mostly near, and waking an idle processor takes longer.
	spin = ibta.Time(50 * time.Microsecond)
)

// progress is the state of moving data.
type progress struct {
	deliver     func(*ib.Packet, *Arrival) // d.receive, made once
	batch       *ibta.Batch
	isStalled   bool      // the port took no more: batch is to be sent again
	passNow     ibta.Time // of the pass under way; zero: the clock was not read yet
	passPackets int       // received in it
	sentBatches int       // sent in it
	passes      uint
	patience    patience
}

func (p *progress) init(d *Device, lim Limits) {
	p.deliver = d.receive
	p.batch = ibta.NewBatch(lim.MaxPackets, lim.MaxBytes)
}

// passTime returns the time of the pass under way.
func (d *Device) passTime() ibta.Time {
	if d.passNow == 0 {
		d.passNow = d.now()
	}
	return d.passNow
}

// receive takes a packet from the port to its queue pair.
func (d *Device) receive(p *ib.Packet, from *Arrival) {
	d.engine.Counters.RecvPackets++
	d.passPackets++
	if p.DestQP == ib.QPNMulticast {
		for _, q := range d.groups[from.Dst] {
			if !q.deaf || p.DETH.SrcQP != q.engine.Num || !d.isOwn(from.Src) {
				d.receiveAt(q, p, from)
			}
		}
		return
	}
	q := d.last
	if q == nil || q.engine.Num != p.DestQP {
		if q = d.qps[p.DestQP]; q == nil {
			d.receiveOther(p, from)
			return
		}
		d.last = q
	}
	d.receiveAt(q, p, from)
}

// isOwn says whether a datagram from an address is one of this device, or of another process
// that shares the address and has other queue pair numbers.
func (d *Device) isOwn(from verbs.GID) bool {
	_, gids := d.port.Attr()
	return slices.ContainsFunc(gids, func(g verbs.GIDEntry) bool { return g.GID == from })
}

func (d *Device) receiveAt(q *qp, p *ib.Packet, from *Arrival) {
	if path := q.engine.Path(); path != nil && path.Attr.DGID != from.Src {
		d.engine.Counters.Dropped[ibta.DropAddress]++
		return
	}
	if r := q.engine.HandlePacket(d.passTime(), p, from); r != ibta.Taken {
		d.engine.Counters.Dropped[r]++
	}
	d.addReady(q)
}

// pass moves data once: it receives what is there, does what is due, and sends what may
// leave. It returns how many buffers were received. polling says that a program does this,
// which will answer and poll again, or leave what is held back to the device's goroutine.
func (d *Device) pass(polling bool) int {
	d.passes++
	busy := d.pending() // with what the turn before has left: passes take long
	d.passNow, d.passPackets, d.sentBatches = 0, 0, 0
	n, err := d.port.Receive(&d.engine.Counters, d.deliver)
	if err != nil {
		return 0 // a closed port; others are counted where they happen
	}
	if n > 0 {
		d.deliverOutbox()
		if d.engine.Memory.TakeChanged() {
			d.watch.notify()
		}
	}
	if len(d.timers) > 0 && (n > 0 || busy || d.passes%16 == 0) {
		d.runTimers()
	}
	// What just arrived may be answered at once: the answer goes first.
	hold := polling && n > 0 && !busy && d.passPackets <= holdPackets && (d.answers || !d.acksDue())
	if hold {
		d.heldPasses = 0
	} else if len(d.heldAcks) > 0 {
		if d.heldPasses++; d.heldPasses >= d.holdsFor() || n > 0 || !polling || busy {
			d.releaseAcks()
		}
	}
	if d.isStalled || d.ready.Len() > 0 {
		d.transmit(!hold)
	}
	if len(d.heldAcks) > 0 {
		// The program may never poll again. The packets woke the goroutine only if it saw
		// them before this pass took them.
		d.wakeBy(d.passTime() + holdTime)
	}
	return n
}

// poll is a pass on behalf of a polling program.
func (d *Device) poll(from *queue.CQ) (n int, long bool) {
	if from != nil && d.last != nil && d.last.engine.AwaitsAck(from) {
		d.patience.polls++
	}
	n = d.pass(true)
	return n, d.sentBatches+d.passPackets > bulk
}

// runTimers does what is due; what is left of it is done by the next pass.
func (d *Device) runTimers() {
	now := d.passTime()
	for range turnTimers {
		q := d.popDue(now)
		if q == nil {
			return
		}
		if due := q.engine.Deadline(); due != 0 && due <= now {
			q.engine.HandleTimeout(now)
			d.addReady(q)
		}
		d.setTimer(q)
	}
}

// transmit sends what ready queue pairs have, as much as a turn may take, and tells the program
// what came of all that happened. What is left goes with the next turn.
func (d *Device) transmit(acks bool) {
	if !d.isStalled || d.send() {
		d.sendReady(acks)
	}
	d.deliverOutbox()
	if d.pending() {
		d.wakeBy(d.passTime()) // the program may never poll again
	}
	d.wakeForTimer()
}

// sendReady sends what ready queue pairs have, one send of each after the other. Those that
// have little share a send.
func (d *Device) sendReady(acks bool) {
	now := d.passTime()
	turn := turn{start: now}
	d.batch.Acks = acks
	for q := d.nextReady(); q != nil; q = d.nextReady() {
		if !q.engine.NextPackets(now, d.batch) {
			d.rest(q)
			continue
		}
		others := d.ready.Len()
		if others == 0 {
			q.engine.AppendAck(d.batch)
		}
		d.addReady(q)
		for ; others > 0 && !d.batch.Full(); others-- {
			if q := d.nextReady(); q.engine.AppendPackets(now, d.batch) || d.batch.Full() {
				d.addReady(q)
			} else {
				d.rest(q)
			}
		}
		n := d.batch.Bytes()
		if !d.send() {
			return
		}
		if turn.sent(n, turnBytes, d.now()); turn.over {
			return
		}
	}
}

// settle brings to an end what happened to q before it changes: it sends what q owes its peer, which
// would wait for it in vain, as far as a turn goes, and delivers its completions.
func (d *Device) settle(q *qp) {
	d.passNow = 0
	if !d.isStalled && (q.ready || q.ackHeld) {
		turn := turn{start: d.passTime()}
		d.batch.Acks = true
		for q.engine.NextPackets(turn.start, d.batch) {
			n := d.batch.Bytes()
			if !d.send() {
				break
			}
			if turn.sent(n, turnBytes, d.now()); turn.over {
				break
			}
		}
	}
	d.deliverOutbox()
}

// rest notes what q waits for, which has nothing to send now.
func (d *Device) rest(q *qp) {
	d.setTimer(q)
	if !d.batch.Acks && q.engine.HasAck() {
		d.holdAck(q)
	}
	if path := q.engine.Path(); path != nil && path.Flow.Waiting() {
		d.addCrowded(path.Flow)
	}
}

// send hands the batch to the port; false: the port is full.
func (d *Device) send() bool {
	err := d.port.Send(d.batch)
	d.sentBatches++
	d.isStalled = errors.Is(err, ErrAgain)
	if err != nil && !d.isStalled {
		d.engine.Counters.SendErrors++
	}
	if d.isStalled && !d.batch.Detach() {
		d.isStalled = false // as if it were lost: sending it again will tell
		d.engine.Counters.SendErrors++
	}
	if d.isStalled {
		if d.waiting {
			d.port.Wake() // it is to wait for room
		}
	}
	return !d.isStalled
}

// kick sends what was just posted to q, unless it can join a send that is about to leave.
func (d *Device) kick(q *qp) {
	d.passNow = 0
	d.addReady(q)
	d.answers = d.answers || len(d.heldAcks) > 0
	if d.leased.Load() && !q.engine.Eager() {
		return // the poll that follows sends it
	}
	d.transmit(d.patience.posted() || !d.leased.Load())
	if d.acksDue() {
		d.flushAcks()
	}
}

// deliverOutbox hands completions to their queues and events to the program.
func (d *Device) deliverOutbox() {
	out := &d.engine.Outbox
	if len(out.Completions) == 0 && len(out.Events) == 0 {
		return
	}
	d.core.deliverOutbox(out, d.passTime(), d.overflowed)
}

// overflowed puts the queue pair whose completion was lost into the error state.
func (d *Device) overflowed(n verbs.QPN) {
	if q := d.qps[n]; q != nil && q.engine.State() != verbs.Err {
		q.engine.Modify(&verbs.QPAttr{State: verbs.Err}, verbs.MaskState)
		d.addReady(q) // others may have its room in the flow
		q.events(verbs.EventQPFatal)
	}
}

// flushAcks sends the acknowledgements that are held back.
func (d *Device) flushAcks() {
	if len(d.heldAcks) > 0 {
		d.passNow = 0
		d.releaseAcks()
		d.transmit(true)
	}
}

// flush sends the acknowledgements that are held back, and leaves what else there is to the
// device's goroutine.
func (d *Device) flush() {
	d.flushAcks()
	if d.pending() {
		d.passNow = 0
		d.wakeBy(d.passTime())
	}
}

func (d *Device) pending() bool            { return d.ready.Len() > 0 && !d.isStalled }
func (d *Device) stalled() bool            { return d.isStalled }
func (d *Device) nextDue() ibta.Time       { return d.schedule.nextDue() }
func (d *Device) setDeadline(t time.Time)  { d.port.SetDeadline(t) }
func (d *Device) wait(writable bool) error { return d.port.Wait(writable) }
func (d *Device) wake()                    { d.port.Wake() }
