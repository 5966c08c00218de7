// SPDX-License-Identifier: Apache-2.0

package smbdirect

import (
	"fmt"
	"syscall"
	"time"
)

// tick runs when the timer fires, perhaps for a deadline that was moved since.
func (c *Conn) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.closed {
		return
	}
	now := time.Now()
	switch c.idle.check(now) {
	case dead:
		c.failLocked(fmt.Errorf("%w: the peer did not answer within %v", syscall.ETIMEDOUT, c.opt.IdleResponse))
		return
	case ask:
		c.asks = true
		c.progress()
	}
	c.timer.Reset(c.idle.deadline.Sub(now))
}
