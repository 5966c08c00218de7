// SPDX-License-Identifier: Apache-2.0

package link

import "github.com/ramjet-rdma/ramjet/internal/base/clock"

// fifo is a queue of packets.
type fifo struct {
	head, tail *Packet
	n          int32
}

func (q *fifo) push(p *Packet) {
	if q.head == nil {
		q.head = p
	} else {
		q.tail.next = p
	}
	q.tail = p
	q.n++
}

func (q *fifo) pop() *Packet {
	p := q.head
	if p == nil {
		return nil
	}
	q.head, p.next = p.next, nil
	q.n--
	return p
}

// outLane is the output queue of a virtual lane of a port: one queue for each input port, served in turn.
type outLane struct {
	inputs      []input
	first, last int16 // inputs that have packets, in the order of their turns
	n           int32 // packets in all of them

	fctbs uint16 // blocks sent since the link came up
	fccl  uint16 // of the other end: the limit of fctbs

	since      clock.Time // when the packet at the head got there
	stalled    clock.Time // until when all packets are discarded; 0: they are not
	discards   uint8      // packets in a row that were discarded for their age
	roomWanted bool       // Send has returned false
}

// input is the queue of one input port.
type input struct {
	fifo
	next int16 // the input served after this one
}

// none stands for no input, or no row of a table.
const none = -1

// head returns the packet whose turn it is.
func (l *outLane) head() *Packet { return l.inputs[l.first].head }

// push queues p at the input port from; ports is how many the node has.
func (l *outLane) push(p *Packet, from, ports int) {
	if l.inputs == nil {
		l.inputs = make([]input, ports)
	}
	q := &l.inputs[from]
	if q.head == nil {
		q.next = none
		if l.first == none {
			l.first = int16(from)
		} else {
			l.inputs[l.last].next = int16(from)
		}
		l.last = int16(from)
	}
	q.push(p)
	l.n++
}

// pop removes the packet whose turn it is, and passes the turn to the next input.
func (l *outLane) pop() *Packet {
	at := l.first
	q := &l.inputs[at]
	p := q.pop()
	l.n--
	if at == l.last {
		if q.head == nil {
			l.first, l.last = none, none
		}
		return p
	}
	l.first = q.next
	if q.head != nil {
		q.next = none
		l.inputs[l.last].next = at
		l.last = at
	}
	return p
}

// queueLen returns how many packets of one input are queued.
func (l *outLane) queueLen(from int) int {
	if l.inputs == nil {
		return 0
	}
	return int(l.inputs[from].n)
}

// enqueue queues p on a lane of output port o; it came in at port from of the same node.
func (n *Net) enqueue(o *Port, lane uint8, from int, p *Packet) {
	l := &o.out[lane]
	if l.stalled != 0 {
		if n.now < l.stalled {
			o.state.Counters.XmitDiscards++
			n.lose(p)
			return
		}
		l.stalled = 0
	}
	p.lane = lane
	if l.n == 0 {
		l.since = n.now
		o.busy |= 1 << lane
	}
	l.push(p, from, len(o.node.ports))
	if !o.queued {
		n.markReady(o)
	}
}

// dequeue removes the packet whose turn it is from a lane.
func (n *Net) dequeue(o *Port, lane uint8) *Packet {
	l := &o.out[lane]
	p := l.pop()
	l.since = n.now
	if l.n == 0 {
		o.busy &^= 1 << lane
	}
	if l.roomWanted && int(l.n) <= n.cfg.SendQueue/2 {
		l.roomWanted = false
		n.wake(o, Room)
	}
	return p
}

// flush discards the packets queued on a lane.
func (n *Net) flush(o *Port, lane uint8) {
	for o.out[lane].n > 0 {
		p := n.dequeue(o, lane)
		o.state.Counters.XmitDiscards++
		n.lose(p)
	}
}
