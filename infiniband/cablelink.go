// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
)

// The link of a cable to another host comes up when both ends want it to. Each numbers its links: an end that
// may come up begins an epoch, and tells it, with the other's that it knows. When the other has repeated its own,
// it is up. Another epoch of the other end means that its link has been down, so this end's goes down, too.

// errPeerTimeout ends a cable whose other end, which joined it, is gone.
var errPeerTimeout = fmt.Errorf("infiniband: the other end has said nothing for %v", peerTimeout)

// run sends what is due, and frames, until the cable ends.
func (c *Cable) run() {
	var buf []byte
	var ends []int
	tick := time.NewTicker(aliveInterval)
	defer tick.Stop()
	for {
		to, err := c.step()
		if err != nil {
			c.end(err, err == fabric.ErrPulled)
			return
		}
		for to.token != 0 {
			buf, ends = c.remote.Next(buf[:0], ends[:0])
			if len(ends) == 0 {
				break
			}
			c.transmit(buf, ends, to)
		}
		select {
		case <-c.ring:
		case <-tick.C:
		case <-c.done:
			return
		}
	}
}

// transmit sends frames, a datagram each.
func (c *Cable) transmit(buf []byte, ends []int, there destination) {
	var out [frameHeader + 8192]byte
	from := 0
	for _, to := range ends {
		d := datagram{kind: datagramFrame, token: there.token, epoch: there.epoch, frame: buf[from:to]}
		c.socket.conn.WriteToUDPAddrPort(d.append(out[:0]), there.peer) // the link can do with losses
		from = to
	}
}

// destination is who frames are sent to; without a token nobody.
type destination struct {
	peer  netip.AddrPort
	token uint64
	epoch uint32
}

// step sends what is due besides frames.
func (c *Cable) step() (to destination, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	linked, may, err := c.remote.State()
	if err != nil {
		return to, err
	}
	now := time.Now()
	if c.peerToken != 0 && now.Sub(c.lastHeard) > peerTimeout {
		c.remote.WatchdogExpired()
		if !c.joins {
			return to, errPeerTimeout
		}
		c.forgetPeer()
		linked = false
	}
	switch {
	case c.peerToken == 0:
		c.epoch = 0
	case !may:
		c.setEpoch(0)
	case !linked && (c.epoch == 0 || c.up()):
		// It has been up, and is no more, or may come up now.
		c.lastEpoch++
		c.setEpoch(c.lastEpoch)
	}
	if now.Sub(c.lastSent) >= aliveInterval {
		c.sendState(now)
	}
	return destination{c.peer, c.peerToken, c.epoch}, nil
}

// up reports whether the link of this epoch has been brought up.
func (c *Cable) up() bool { return c.upEpoch != 0 && c.upEpoch == c.epoch }

// setEpoch begins an epoch, and tells it.
func (c *Cable) setEpoch(e uint32) {
	if c.epoch != e {
		c.epoch = e
		c.sendState(time.Now())
	}
}

// forgetPeer forgets the other end, which is to be called again.
func (c *Cable) forgetPeer() {
	c.remote.Down()
	c.peerToken, c.peerEpoch, c.epoch, c.challenge = 0, 0, 0, [challengeLen]byte{}
}

// sendState calls the other end, or tells it that this one is there.
func (c *Cable) sendState(now time.Time) {
	c.lastSent = now
	if c.peerToken != 0 {
		c.socket.send(&datagram{kind: datagramAlive, token: c.peerToken, epoch: c.epoch, seen: c.peerEpoch}, c.peer)
		return
	}
	width, speed := c.remote.Enabled()
	c.socket.send(&datagram{kind: datagramHello, from: c.token, challenge: c.challenge, width: width, speed: speed, port: uint8(c.far.Port),
		to: c.far.Node, own: c.local.String()}, c.peer)
}

// handle takes a datagram that has come to this end.
func (c *Cable) handle(d *datagram, from netip.AddrPort) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from != c.peer || c.err != nil {
		return
	}
	now := time.Now()
	switch d.kind {
	case datagramChallenge:
		if c.joins && c.peerToken == 0 && c.challenge != d.challenge {
			c.challenge = d.challenge
			c.sendState(now)
		}
		return
	case datagramRefused:
		if c.joins && c.peerToken == 0 {
			c.finishJoin(fmt.Errorf("infiniband: the fabric at %v refuses: %s", c.peer, d.why))
		}
		return
	case datagramWelcome:
		if c.joins && c.peerToken == 0 {
			c.peerToken, c.width, c.speed, c.lastHeard = d.from, d.width, d.speed, now
			c.finishJoin(nil)
			c.Wake()
		}
		return
	}
	if c.peerToken == 0 {
		return
	}
	c.lastHeard = now
	switch d.kind {
	case datagramAlive:
		c.handleAlive(d, now)
	case datagramFrame:
		if c.up() && d.epoch == c.peerEpoch {
			c.remote.Handle(d.frame)
		}
	case datagramBye:
		if c.joins && !d.pulled {
			c.forgetPeer()
			return
		}
		go c.end(fabric.ErrPulled, d.pulled)
	}
}

// finishJoin says how the first call has ended.
func (c *Cable) finishJoin(err error) {
	select {
	case c.first <- err:
	default:
	}
}

// handleAlive takes what the other end tells of its link.
func (c *Cable) handleAlive(d *datagram, now time.Time) {
	if d.epoch != c.peerEpoch {
		c.peerEpoch = d.epoch
		if c.up() {
			c.remote.Down()
			c.epoch, c.upEpoch = 0, 0
			c.Wake() // which begins another
		}
		if c.epoch != 0 {
			c.sendState(now)
		}
	}
	if c.epoch == 0 || d.epoch == 0 || d.seen != c.epoch || c.up() {
		return
	}
	if c.remote.Up(c.width, c.speed) == nil {
		c.upEpoch = c.epoch
		c.Wake()
	}
}
