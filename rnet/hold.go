// SPDX-License-Identifier: Apache-2.0

package rnet

import "time"

// holdTime bounds how long the end of a Write waits for the next one.
const holdTime = 500 * time.Microsecond

// hold keeps back the end of a Write that fills no message, while messages before it are under way:
// the next Write fills it, and the device has fewer and fuller messages to send. A Write that finds
// nothing much under way is never kept back.
//
// What is held leaves when what was under way has arrived, when the program waits for anything, before
// whatever else it sends, and after holdTime: nobody may be there to see the completions.
type hold struct {
	timer   *time.Timer
	armed   bool
	copying bool // a Write fills the ring behind what is held
	due     bool // what is held was to leave meanwhile
}

// holds says whether the end of a Write that begins may be held back.
func (c *Conn) holds() bool {
	if c.stream.Staged() > 0 {
		return true
	}
	if c.stream.Busy() && !c.poll.busy { // perhaps no longer, and nobody has looked
		c.handle(c.poll.wcs[:c.ep.cq.Poll(c.poll.wcs[:])], &c.write)
	}
	return c.stream.Busy()
}

// keep holds back what is staged, after a Write.
func (c *Conn) keep() {
	if h := &c.held; c.stream.Staged() > 0 && !h.armed {
		h.armed = true
		if h.timer == nil {
			h.timer = time.AfterFunc(holdTime, c.release)
		} else {
			h.timer.Reset(holdTime)
		}
	}
}

// release runs when the timer fires.
func (c *Conn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held.armed = false
	c.flush()
}

// flush posts what is held. While a Write adds to it, that Write does.
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
