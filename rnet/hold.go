// SPDX-License-Identifier: Apache-2.0

package rnet

import "time"

const (
	// holdTime limits how long the end of a Write waits for the next Write.
	holdTime = time.Millisecond
	// If at least flowing full messages are sent before the timer fires, it runs longer, up to
	// longHold: waking a processor for nothing costs more than a send.
	flowing  = 8
	longHold = 4 * holdTime
)

// hold keeps back the end of a Write that fills no message, while messages before it are in flight.
// The next Write fills it, so the device has fewer and fuller messages to send. A Write that finds
// little in flight is never held back.
//
// The held message is sent when the messages in flight have arrived, when the program waits for anything,
// before any other message, and when a timer fires, because the program may not poll any more.
type hold struct {
	timer   *time.Timer
	release func() // the timer's: Conn.release
	armed   bool
	period  time.Duration
	full    int  // full messages sent since the timer was armed
	copying bool // a Write is filling the ring behind the held message
	due     bool // the held message should have been sent meanwhile
}

// holds reports whether the end of a Write that begins now may be held back.
func (c *Conn) holds() bool {
	if c.stream.Staged() > 0 {
		return true
	}
	if c.stream.Busy() && !c.poll.busy { // perhaps no longer busy, but the queue was not polled
		c.handle(c.poll.wcs[:c.ep.cq.Poll(c.poll.wcs[:])], &c.write)
	}
	return c.stream.Busy()
}

// keep holds back the staged message, after a Write.
func (c *Conn) keep() {
	if c.stream.Staged() > 0 && !c.held.armed {
		c.held.arm(holdTime)
	}
}

func (h *hold) arm(d time.Duration) {
	h.armed, h.period, h.full = true, d, 0
	if h.timer == nil {
		h.timer = time.AfterFunc(d, h.release)
	} else {
		h.timer.Reset(d)
	}
}

// release runs when the timer fires.
func (c *Conn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.held
	if h.full >= flowing && !c.closed {
		h.arm(min(2*h.period, longHold))
		return
	}
	h.armed = false
	c.flush()
}

// flush posts the held message. While a Write adds to it, that Write posts it.
func (c *Conn) flush() {
	if c.held.copying {
		c.held.due = true
		return
	}
	c.postStaged()
}

func (c *Conn) postStaged() {
	c.held.due = false
	if c.err == nil && c.stream.SendStaged(&c.post) {
		c.postNow(nil)
	}
}
