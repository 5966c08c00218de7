// SPDX-License-Identifier: Apache-2.0

package rnet

import "time"

// keepAlive probes a silent peer while a caller waits. The probe is an empty WRITE, as librdmacm's
// is. The peer's device acknowledges it, and its program notices nothing. The probe of a dead peer
// fails after the transport's retries and breaks the connection.
//
// The timer runs only while a caller waits. It is not restarted for each wait: when it fires it
// checks how long the silence was.
type keepAlive struct {
	period time.Duration // of silence; 0 or less: no probes
	heard  time.Time     // time of the last completion
	timer  *time.Timer
	armed  bool
	probe  func() // the timer's: Conn.probe
}

// await makes sure that the timer runs for a wait that begins. Conn.mu is held.
func (k *keepAlive) await() {
	if k.period > 0 && !k.armed {
		k.arm(k.left())
	}
}

// left returns how much longer the silence has to last.
func (k *keepAlive) left() time.Duration { return max(0, k.period-time.Since(k.heard)) }

func (k *keepAlive) arm(d time.Duration) {
	k.armed = true
	if k.timer == nil {
		k.timer = time.AfterFunc(d, k.probe)
	} else {
		k.timer.Reset(d)
	}
}

// setPeriod changes the period. waits says that a caller is already waiting. Conn.mu is held.
func (k *keepAlive) setPeriod(d time.Duration, waits bool) {
	if k.period = d; d > 0 && waits {
		k.arm(k.left())
	}
}

// stop stops the timer for good.
func (k *keepAlive) stop() {
	if k.period = 0; k.timer != nil {
		k.timer.Stop()
	}
}

// waits reports whether a caller waits for the peer, or has promised to with Arm.
func (c *Conn) waits() bool { return c.poll.busy || c.armed }

// probe runs when the timer fires.
func (c *Conn) probe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &c.alive
	k.armed = false
	if !c.waits() || c.closed || c.err != nil || k.period <= 0 {
		return // the next wait starts the timer
	}
	left := k.left()
	if left == 0 {
		if left = k.period; c.stream.Probe(&c.post) {
			c.postNow(nil)
		}
	}
	k.arm(left)
}
