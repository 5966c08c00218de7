// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// repeat is the message that a connection repeats until the peer answers (IBTA 12.9.8.2).
type repeat struct {
	last        *[mad.Size]byte // the message
	tid         uint64          // of the last request
	interval    clock.Time      // after which it is repeated
	retries     uint8           // repetitions left
	max         uint8
	early       uint8 // repetitions of a DREQ left that come sooner, and do not count
	unconfirmed uint8 // repetitions of a REP since the peer's last REQ
	extension   extension
}

// extension is the time given to a peer that has sent an MRA.
type extension struct {
	until    clock.Time // until then repetitions do not count
	end      clock.Time // limit for all MRAs to this message; 0: no MRA has arrived
	notified bool       // the program got an EventMRA
}

// Extensions are limited, however many MRAs arrive: an MRA costs its sender nothing, and keeps state
// here. Linux asks once, for 69 s.
const (
	maxExtensionREQ = clock.Time(5 * time.Minute)  // for a REQ: the peer's program has to decide
	maxExtensionREP = clock.Time(90 * time.Second) // for a REP
)

// maxRepeatedREPs is how often a REP is repeated to a peer that has sent nothing but its REQ, which
// may be forged: a datagram of a few hundred bytes must not cause many datagrams to another host. A
// peer that lacks the REP repeats its REQ, and gets as many again. Linux repeats TCP's SYN-ACK as
// often.
const maxRepeatedREPs = 5

// grant records that the peer asks for time. It returns the time granted, or 0.
func (p *extension) grant(now, extra, total clock.Time) clock.Time {
	if p.end == 0 {
		p.end = now + total
	}
	p.until = min(now+extra, p.end)
	return max(0, p.until-now)
}

// setRepeat sets how often c repeats its request.
func (c *conn) setRepeat(t mad.Timeout, retries uint8) {
	c.repeat.interval = clock.Time(max(minResponse, t).Duration())
	c.repeat.max = retries
}

// repeatDelay returns the time until c repeats its request.
func (c *conn) repeatDelay() clock.Time {
	if c.repeat.early == 0 {
		return c.repeat.interval
	}
	return min(c.repeat.interval, max(clock.Time(c.wait.Duration())/2, clock.Time(minResponse.Duration())))
}

// repeatLast is called when c was not answered in time.
func (e *Engine) repeatLast(now clock.Time, c *conn) {
	r := &c.repeat
	pause := r.interval
	switch crowded := c.state == repSent && c.entry.listener != nil && c.entry.listener.overHalf(); {
	case now < r.extension.until:
		pause = max(r.interval, extendedInterval)
	case r.early > 0:
		r.early--
		pause = c.repeatDelay()
	case r.retries == 0, crowded && r.max-r.retries >= maxCrowdedRepeats:
		e.giveUp(now, c)
		return
	default:
		r.retries--
	}
	if c.state != repSent || r.extension.end != 0 || r.unconfirmed < maxRepeatedREPs {
		r.unconfirmed++
		e.resend(c)
	}
	e.deadlines.set(c, now+pause)
}
