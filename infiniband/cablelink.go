// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
)

// The link of a cable to another host comes up when both ends are ready. Each end numbers its links by epochs: when
// its link may come up it begins an epoch, and sends it in its alive messages together with the peer's epoch. The
// link is up once the peer has repeated this end's epoch. A new epoch of the peer means that its link has been
// down, so this end's goes down too.

// errPeerTimeout ends a cable whose other end had joined this one, and is silent.
var errPeerTimeout = fmt.Errorf("infiniband: the other end has said nothing for %v", peerTimeout)

// run sends alive messages, and the frames that others leave to it, until the cable ends.
func (c *Cable) run() {
	tick := time.NewTicker(aliveInterval)
	defer tick.Stop()
	for {
		if err := c.step(); err != nil {
			c.socket.f.leave(c, err == fabric.ErrPulled)
			c.end(err, err == fabric.ErrPulled)
			return
		}
		c.goOn()
		c.remote.Flush()
		select {
		case <-c.ring:
		case <-tick.C:
		case <-c.done:
			return
		}
	}
}

// destination is the address that frames are sent to; without a token they are not sent.
type destination struct {
	peer  netip.AddrPort
	token uint64
	epoch uint32
}

// destination returns where to send frames now.
func (c *Cable) destination() destination {
	c.mu.Lock()
	defer c.mu.Unlock()
	return destination{c.peer, c.peerToken, c.epoch}
}

// step updates the state of the link, and sends due datagrams other than frames.
func (c *Cable) step() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	linked, may, err := c.remote.State()
	if err != nil {
		return err
	}
	now := time.Now()
	if c.peerToken != 0 && now.Sub(c.lastHeard) > peerTimeout {
		c.remote.WatchdogExpired()
		if !c.joins {
			return errPeerTimeout
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
		// The link has gone down, or may come up now.
		c.lastEpoch++
		c.setEpoch(c.lastEpoch)
	}
	if now.Sub(c.lastSent) >= aliveInterval {
		c.sendState(now)
	}
	return nil
}

// up reports whether the link has come up in the current epoch.
func (c *Cable) up() bool { return c.upEpoch != 0 && c.upEpoch == c.epoch }

// setEpoch begins an epoch, and sends it.
func (c *Cable) setEpoch(e uint32) {
	if c.epoch != e {
		c.epoch = e
		c.sendState(time.Now())
	}
}

// forgetPeer forgets the other end, which this end then joins again.
func (c *Cable) forgetPeer() {
	c.remote.Down()
	c.peerToken, c.peerEpoch, c.epoch, c.challenge = 0, 0, 0, [challengeLen]byte{}
}

// sendState sends hello, or alive once joined.
func (c *Cable) sendState(now time.Time) {
	c.lastSent = now
	if c.peerToken != 0 {
		c.socket.send(&datagram{kind: datagramAlive, token: c.peerToken, epoch: c.epoch, seen: c.peerEpoch}, c.peer)
		return
	}
	if !c.peer.IsValid() {
		return // its name is not resolved yet
	}
	width, speed := c.remote.Enabled()
	c.socket.send(&datagram{kind: datagramHello, from: c.token, challenge: c.challenge, width: width, speed: speed,
		port: uint8(c.far.Port),
		to:   c.far.Node, own: c.local.String()}, c.peer)
}

// admits reports whether a frame belongs to the link as it is now.
func (c *Cable) admits(d *datagram, from netip.AddrPort, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from != c.peer || c.err != nil || c.peerToken == 0 {
		return false
	}
	c.lastHeard = now
	return c.up() && d.epoch == c.peerEpoch
}

// handle handles a datagram to this end that carries no frame.
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
			c.refused = fmt.Errorf("infiniband: the fabric at %v refuses: %s", c.peer, printable(d.why))
			c.finishJoin(c.refused)
		}
		return
	case datagramWelcome:
		if c.joins && c.peerToken == 0 {
			c.peerToken, c.width, c.speed, c.lastHeard, c.refused = d.from, d.width, d.speed, now, nil
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
	case datagramBye:
		if c.stays || c.joins && !d.pulled {
			c.forgetPeer()
			return
		}
		go c.end(fabric.ErrPulled, d.pulled)
	}
}

// finishJoin reports the result of the first join.
func (c *Cable) finishJoin(err error) {
	select {
	case c.first <- err:
	default:
	}
}

// handleAlive handles the state of the other end's link.
func (c *Cable) handleAlive(d *datagram, now time.Time) {
	if d.epoch != c.peerEpoch {
		c.peerEpoch = d.epoch
		if c.up() {
			c.remote.Down()
			c.epoch, c.upEpoch = 0, 0
			c.Wake() // to begin another
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
