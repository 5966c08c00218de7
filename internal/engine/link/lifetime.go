// SPDX-License-Identifier: Apache-2.0

package link

import (
	"math/bits"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// lifetime returns the nanoseconds of a code of HOQLife or LifeTimeValue: 4.096 µs × 2^code; 0: for ever
// (section 18.2.5.4).
func lifetime(code uint8) clock.Time {
	if code >= 20 {
		return 0
	}
	return 4096 << code
}

// stallFactor is how many head-of-queue lifetimes a lane is stalled (section 18.2.5.4).
const stallFactor = 8

// headLife is the head-of-queue lifetime of the port; 0: unlimited. Only switches have one.
func (o *Port) headLife() clock.Time {
	if o.node.state.Tables == nil {
		return 0
	}
	return lifetime(o.state.Lanes.HOQLife)
}

// switchLife is the lifetime of packets in the port's switch; 0: unlimited.
func (o *Port) switchLife() clock.Time {
	if t := o.node.state.Tables; t != nil {
		return lifetime(t.LifeTime)
	}
	return 0
}

// tooOld reports whether a packet has been in a switch for longer than its lifetime there (section
// 18.2.5.4).
func (n *Net) tooOld(o *Port, p *Packet) bool {
	life := o.switchLife()
	return life != 0 && n.now-p.arrived >= life
}

// expiry returns when the packet at the head of a lane is to be discarded, 0: never.
func (o *Port) expiry(lane uint8) clock.Time {
	l := &o.out[lane]
	var when clock.Time
	if life := o.headLife(); life != 0 {
		when = l.since + life
	}
	if life := o.switchLife(); life != 0 {
		if t := l.head().arrived + life; when == 0 || t < when {
			when = t
		}
	}
	return when
}

// expireLater sets the timer for the earliest expiry of the queued packets.
func (n *Net) expireLater(o *Port) {
	t := &o.timers[expireTimer]
	if t.when != 0 || o.headLife() == 0 && o.switchLife() == 0 {
		return
	}
	first := clock.Time(0)
	for busy := o.busy & dataLanes; busy != 0; busy &= busy - 1 {
		if when := o.expiry(uint8(bits.TrailingZeros32(busy))); when != 0 && (first == 0 || when < first) {
			first = when
		}
	}
	if first != 0 {
		n.timers.set(t, max(first, n.now+1))
	}
}

// expire discards packets whose lifetime is over. A lane that discards several in a row is stalled: it discards
// all packets for a while.
func (n *Net) expire(o *Port) {
	for busy := o.busy & dataLanes; busy != 0; busy &= busy - 1 {
		lane := uint8(bits.TrailingZeros32(busy))
		l := &o.out[lane]
		for l.n > 0 {
			when := o.expiry(lane)
			if when == 0 || when > n.now {
				break
			}
			p := n.dequeue(o, lane)
			o.state.Counters.XmitDiscards++
			n.lose(p)
			if l.discards++; o.state.Lanes.Stall != 0 && l.discards >= o.state.Lanes.Stall {
				l.discards = 0
				l.stalled = n.now + max(1, stallFactor*o.headLife())
				n.flush(o, lane)
			}
		}
	}
	if o.busy&dataLanes != 0 {
		n.expireLater(o)
	}
}
