// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"time"

	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// repeat is what a connection says again until the peer answers (IBTA 12.9.8.2).
type repeat struct {
	last     *[mad.Size]byte // the message
	tid      uint64          // of the last message that was asked
	interval Time            // after which it is repeated
	retries  uint8           // repetitions left
	max      uint8
	hasty    uint8 // repetitions of a DREQ left that come sooner, and do not count
	patience patience
}

// patience is what an MRA of the peer asked for.
type patience struct {
	until Time // until then repetitions do not count
	end   Time // of all patience with this message; 0: no MRA came
	told  bool // the program has heard of it
}

// Patience ends, however many MRAs come: an MRA costs its sender nothing, and keeps something
// here that waits. Linux asks once, for 69 s.
const (
	maxPatienceREQ = Time(5 * time.Minute)  // of who asks for a connection: the peer's program has to decide
	maxPatienceREP = Time(90 * time.Second) // of who accepted one
)

// extend notes that the peer asks for time. It returns the time that it gets, 0: none any more.
func (p *patience) extend(now, extra, total Time) Time {
	if p.end == 0 {
		p.end = now + total
	}
	p.until = min(now+extra, p.end)
	return max(0, p.until-now)
}

// pace sets how often c repeats what it asks.
func (c *conn) pace(t mad.Timeout, retries uint8) {
	c.repeat.interval = Time(max(minResponse, t).Duration())
	c.repeat.max = retries
}

// pause is the time until c repeats what it asks.
func (c *conn) pause() Time {
	if c.repeat.hasty == 0 {
		return c.repeat.interval
	}
	return min(c.repeat.interval, max(Time(c.wait.Duration())/2, Time(minResponse.Duration())))
}

// repeatLast is called when c was not answered in time.
func (e *Engine) repeatLast(now Time, c *conn) {
	r := &c.repeat
	pause := r.interval
	switch crowded := c.state == repSent && c.place.listener != nil && c.place.listener.crowded(); {
	case now < r.patience.until:
		pause = max(r.interval, patientRepeats)
	case r.hasty > 0:
		r.hasty--
		pause = c.pause()
	case r.retries == 0, crowded && r.max-r.retries >= patientHalfOpen:
		e.giveUp(now, c)
		return
	default:
		r.retries--
	}
	e.again(c)
	e.deadlines.set(c, now+pause)
}
