// SPDX-License-Identifier: Apache-2.0

package streamdev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// phase is the progress of a connection.
type phase uint8

const (
	settingUp phase = iota // handshake says how far
	running                // a queue pair has the connection
	closing                // nothing more is sent; bytes that the peer still sends are dropped
	closed
)

// Limits of waits for peers, and of links that wait.
const (
	// for a set-up frame, and for the link of queue pairs that connect by number
	setupTime = clock.Time(10 * time.Second)
	// for the link of a request of the program: as long as a REQ is repeated over InfiniBand
	linkTime = clock.Time(17 * time.Second)
	// for the program's answer, on both sides: as long as an MRA is believed over InfiniBand
	answerTime = clock.Time(5 * time.Minute)
	maxSilent  = 1024 // links whose request has not come
	maxRefused = 1024 // links of rejected requests, until their peers end them
	// until an initiator prompts a quiet peer; then twice as long each time
	promptTime = clock.Time(10 * time.Millisecond)
	pauseTime  = clock.Time(500 * time.Millisecond) // until a responder prompts a quiet peer
	promptEnd  = clock.Time(5 * time.Second)        // when an initiator or responder stops prompting
	// checks that find the peer gone while its data waits for a receive, until the stream ends
	abandonedChecks = 3
)

// Times that tests alone change.
var (
	CheckTime = clock.Time(10 * time.Second) // between checks whether the peer of a stream is alive
	EndTime   = clock.Time(2 * time.Second)  // for the peer's end of a stream
	// for the program's answer, while other requests want the place
	patientAnswer = clock.Time(10 * time.Second)
)

// How long the sides of a set-up wait. Of a request of the program the peer's program decides, else its device.
var (
	programTimes = rdmap.SetupTimes{Link: linkTime, Reply: answerTime, Frame: setupTime}
	numberTimes  = rdmap.SetupTimes{Link: setupTime, Frame: setupTime}
	peerTimes    = rdmap.SetupTimes{Frame: setupTime, Answer: answerTime}
)

// Conn is a connection: a link and its state.
type Conn struct {
	dev        *Device
	link       Link
	phase      phase
	handshake  *rdmap.Handshake // nil: it is over
	qp         *QP
	timer      softdev.Timer
	ready      bool
	goneChecks int    // checks in a row that found the peer gone and the stream waiting for a receive
	ownRNR     *uint8 // driver.StreamParam.OwnRNR

	listener *streamListener          // the listener that accepted it
	events   func(driver.StreamEvent) // gets its events; nil: nobody
	failed   func(err error)          // called if it could not be established, for another attempt
}

func (d *Device) newConn(l Link, h *rdmap.Handshake) *Conn {
	c := &Conn{dev: d, link: l, handshake: h}
	c.timer.Fire = c.timedOut
	d.conns[c] = struct{}{}
	c.setSetupTimer()
	l.Own(c)
	if d.impaired != nil {
		c.impair()
	}
	return c
}

// AddReady records that c may have something to send.
func (d *Device) AddReady(c *Conn) {
	if !c.ready && c.phase == running {
		c.ready = true
		*d.ready.PushBack() = c
	}
}

// notify delivers an event of the connection.
func (c *Conn) notify(e driver.StreamEvent) {
	if f := c.events; f != nil {
		e.Stream = (*stream)(c)
		c.dev.callbacks.add(func() { f(e) })
	}
}

// timedOut ends a phase that has taken too long.
func (c *Conn) timedOut() {
	switch {
	case c.phase == closing, c.phase == running && c.qp.Endpoint.Draining():
		c.End(false)
	case c.phase == running && (c.link.Silent() || c.abandoned()):
		c.Lost(ErrGone)
	case c.phase == running:
		c.dev.Lane.Timers.Set(&c.timer, c.dev.Lane.PassTime()+c.qp.Endpoint.Check())
	case c.handshake.Expired(c.dev.Lane.PassTime(), c.dev.carrier.Patient() && !c.link.Ended()):
		c.fail(errTooLate)
	default: // on a busy host the peer has not had its turn yet
		c.setSetupTimer()
	}
}

// abandoned reports whether the peer ended the link long ago, and the program has not posted a
// receive since for data that came before the end: otherwise nobody would ever see it.
func (c *Conn) abandoned() bool {
	if !c.qp.Engine.Paused() || !c.link.Ended() {
		c.goneChecks = 0
		return false
	}
	c.goneChecks++
	return c.goneChecks > abandonedChecks
}

var ErrGone = errors.New("the peer acknowledges nothing")

var errTooLate = fmt.Errorf("the peer does not answer: %w", context.DeadlineExceeded)

// Handle reads and writes, as far as the link is ready.
func (c *Conn) Handle(read, write bool) {
	switch c.phase {
	case settingUp:
		c.handleSetup(read, write)
	case running:
		if write {
			c.qp.Endpoint.Watch()
			c.dev.AddReady(c)
		}
		if read {
			c.qp.Endpoint.Receive()
		}
	case closing:
		c.discard()
	}
}

// begin hands the stream over to the queue pair.
func (c *Conn) begin(q *QP, p rdmap.Params) {
	d := c.dev
	if q == nil || q.conn != nil && q.conn != c || !q.Endpoint.Begin(c, p) {
		c.fail(errors.New("the queue pair is in a state that takes no connection"))
		return
	}
	c.qp, q.conn, c.phase = q, c, running
	q.Peer = ib.GIDFromAddr(c.link.PeerAddr().Addr())
	d.Lane.Touch(&q.QP)
	d.Lane.Mu.Counted = true
	said := c.peerParam()
	said.IRD, said.ORD = p.IRD, p.ORD
	c.handshake, c.failed = nil, nil
	d.Lane.Timers.Set(&c.timer, d.Lane.PassTime()+q.Endpoint.First(p))
	q.stopConnecting()
	d.established = append(d.established, c)
	q.Endpoint.Watch()
	d.AddReady(c)
	c.notify(driver.StreamEvent{Type: driver.StreamEstablished, Param: said})
}

// transmit sends the queue pair's data.
func (c *Conn) transmit() {
	if c.phase == running {
		c.qp.Endpoint.Transmit()
	}
}

// Lost ends a stream that the peer has closed or that broke.
func (c *Conn) Lost(err error) {
	q := c.qp
	q.Engine.Lost(errors.Is(err, io.EOF))
	c.End(!errors.Is(err, io.EOF))
}

// detach separates the connection from its queue pair.
func (c *Conn) detach() {
	d := c.dev
	if c.phase == running {
		for i, o := range d.established {
			if o == c {
				d.established[i] = d.established[len(d.established)-1]
				d.established[len(d.established)-1] = nil
				d.established = d.established[:len(d.established)-1]
				break
			}
		}
		c.qp.Endpoint.Detach()
	}
	if c.qp != nil {
		d.Lane.Touch(&c.qp.QP)
		d.Lane.Mu.Counted = true
	}
	if c.qp != nil && c.qp.conn == c {
		c.qp.conn = nil
	}
	c.qp = nil
}

// answered records that the connection no longer waits for the program's answer.
func (c *Conn) answered() {
	if l := c.listener; l != nil {
		l.waiting.Remove(c.link.PeerAddr().Addr(), c)
	}
}

// refuse waits for the peer to end the link of a rejected request: Linux siw misses a reply if the
// link has ended by the time it looks. The wait is limited, and so is the number of such links.
func (c *Conn) refuse() {
	d := c.dev
	c.answered()
	c.linger()
	if c.phase == closed {
		return
	}
	d.refused.Add(c.link.PeerAddr().Addr(), c)
	if d.refused.Full() {
		d.endRefused()
	}
}

// endRefused ends the oldest link of a rejected request, of the peer that has the most.
func (d *Device) endRefused() {
	if c, ok := d.refused.Oldest(); ok {
		c.End(false)
	}
}

// finish ends sending, and waits for the peer to end too: closing while it still sends would destroy the data that we
// sent.
func (c *Conn) finish() {
	c.link.Shutdown()
	c.linger()
}

// linger waits for the peer to end the link.
func (c *Conn) linger() {
	c.detach()
	c.phase = closing
	c.link.Watch(true, false)
	c.dev.Lane.Timers.Set(&c.timer, c.dev.Lane.PassTime()+EndTime)
	c.dev.Lane.WakeForTimer()
	c.discard()
}

// discard reads and discards.
func (c *Conn) discard() {
	var b [4096]byte
	for range streamCalls {
		if _, err := c.link.Read([][]byte{b[:]}); err != nil {
			if !errors.Is(err, softdev.ErrAgain) {
				c.End(false)
			}
			return
		}
	}
}

// fail ends a connection that could not be established.
func (c *Conn) fail(err error) {
	failed := c.failed
	if c.phase != running {
		c.notify(driver.StreamEvent{Type: driver.StreamFailed, Err: err})
		c.events = nil
	}
	c.End(true)
	if failed != nil {
		failed(err)
	}
}

// inUse reports whether the program has not ended the stream. If it has, the peer may still take the data that was
// sent: the system delivers it after the link is closed.
func (c *Conn) inUse() bool {
	return c.phase != closing && (c.phase != running || c.qp.Engine.State() != verbs.StateError)
}

// End closes the link.
func (c *Conn) End(abort bool) {
	if c.phase == closed {
		return
	}
	c.detach()
	if c.stage() == rdmap.StageRequest {
		c.listener.silent.Remove(c.link.PeerAddr().Addr(), c)
	}
	c.answered()
	if c.phase == closing {
		c.dev.refused.Remove(c.link.PeerAddr().Addr(), c)
	}
	established := c.phase == running || c.phase == closing
	c.phase = closed
	c.dev.rendezvous.forget(c)
	c.dev.Lane.Timers.Stop(&c.timer)
	delete(c.dev.conns, c)
	c.link.Close(abort)
	if established {
		c.notify(driver.StreamEvent{Type: driver.StreamClosed})
		c.notify(driver.StreamEvent{Type: driver.StreamReleased})
	}
}

// stream is a Conn as seen by package cm.
type stream Conn

func (s *stream) LocalAddr() netip.AddrPort { return s.link.LocalAddr() }
func (s *stream) PeerAddr() netip.AddrPort  { return s.link.PeerAddr() }
