// SPDX-License-Identifier: Apache-2.0

package streamdev

import (
	"errors"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// streamListener takes links at an address and port.
type streamListener struct {
	dev       *Device
	acc       Acceptor
	silent    *softdev.HalfOpen[*Conn] // links that have sent no request
	waiting   *softdev.HalfOpen[*Conn] // requests that wait for the program's answer
	onRequest func(*Conn)              // handles a request
	events    func(driver.StreamEvent)
	again     softdev.Timer // accepts again after the system had no room for a link
}

// AcceptPause is how long links wait if the system has no room for one, usually for lack of file
// descriptors: the acceptor would always be ready.
const AcceptPause = clock.Time(100 * time.Millisecond)

func (d *Device) listen(at netip.AddrPort, backlog int) (*streamListener, error) {
	acc, err := d.net.Listen(at, backlog)
	if err != nil {
		return nil, err
	}
	l := &streamListener{dev: d, acc: acc, silent: softdev.NewHalfOpen[*Conn](d.halfOpen(maxSilent)),
		waiting: softdev.NewHalfOpen[*Conn](backlog)}
	l.again.Fire = func() { acc.Watch(true) }
	acc.Own(l)
	return l, nil
}

// maxHalfOpenLocal is how many links of peers on the same host wait for one of the two sides. When many connect at
// once on a busy host, all of them may have to; the network leaves descriptors and mappings to the program.
const maxHalfOpenLocal = 1 << 14

// halfOpen returns how many links may be half open, of which a device on a network has some.
func (d *Device) halfOpen(some int) int {
	if d.carrier.Patient() {
		return maxHalfOpenLocal
	}
	return some
}

// AcceptsAtOnce limits the links accepted in a pass.
const AcceptsAtOnce = 64

func (o *streamListener) Handle(bool, bool) { o.accept() }

// accept accepts pending links. A flood of silent links keeps out no link with a request.
func (l *streamListener) accept() {
	for range AcceptsAtOnce {
		link, err := l.acc.Accept()
		if errors.Is(err, softdev.ErrAgain) {
			return
		}
		if err != nil {
			l.dev.links.noRoom++
			switch { // which of them holds the resource that the system lacks
			case l.dev.refused.Len() > AcceptsAtOnce:
				l.dev.endRefused()
				continue
			case l.silent.Len() > AcceptsAtOnce:
				l.dropOldest()
				continue
			case l.dev.rendezvous.waiting.Len() > AcceptsAtOnce:
				l.dev.rendezvous.endEarly()
				continue
			}
			l.acc.Watch(false)
			l.dev.Lane.Timers.Set(&l.again, l.dev.Lane.PassTime()+AcceptPause)
			l.dev.Lane.WakeForTimer()
			return
		}
		c := l.dev.newConn(link, rdmap.Await(l.dev.Lane.PassTime(), l.dev.net.Proposal(), peerTimes))
		c.listener = l
		l.silent.Add(link.PeerAddr().Addr(), c)
		link.Watch(true, false)
		c.readSetup() // the request may already be there
		if l.silent.Full() {
			l.dropOldest()
		}
	}
}

// dropOldest ends the longest silent link of the peer that has the most such links. It reads the
// link once more: after a pause of this process all requests may be there.
func (l *streamListener) dropOldest() {
	if c, ok := l.silent.Oldest(); ok {
		if c.readSetup(); c.stage() == rdmap.StageRequest {
			l.dev.links.dropped++
			c.End(true)
		}
	}
}

// Connections has queue pairs connected by streams.
func (d *Device) Connections(p driver.Protocols) error { return p.Streams(d) }

// ListenStream takes connections for package cm.
func (d *Device) ListenStream(at netip.AddrPort, backlog int,
	f func(driver.StreamEvent)) (driver.StreamListener, error) {
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	if d.Closed.Load() {
		return nil, verbs.ErrClosed
	}
	l, err := d.listen(at, backlog)
	if err != nil {
		return nil, err
	}
	l.events = f
	l.onRequest = l.deliverRequest
	return l, nil
}

// deliverRequest delivers a request to the program, and, as long as it is unanswered, also its end. If there
// are more requests than the backlog, one is rejected.
func (l *streamListener) deliverRequest(c *Conn) {
	l.waiting.Add(c.link.PeerAddr().Addr(), c)
	if l.waiting.Full() {
		out := l.surplus()
		out.notify(driver.StreamEvent{Type: driver.StreamFailed, Err: errCrowded})
		if out.reject(nil); out == c {
			return
		}
	}
	c.events = l.events
	c.notify(driver.StreamEvent{Type: driver.StreamRequested, Param: c.peerParam()})
}

// surplus returns which of the waiting requests gives way: one that has waited for long, or else the latest of the peer
// that has the most. So a flood from few addresses keeps out no others, and requests that the program is about to
// answer stay.
func (l *streamListener) surplus() *Conn {
	if c, _ := l.waiting.Earliest(); c.timer.At-l.dev.Lane.PassTime() <= answerTime-patientAnswer {
		return c
	}
	c, _ := l.waiting.Latest()
	return c
}

var errCrowded = errors.New("another request has its place in the backlog")

func (l *streamListener) Addr() netip.AddrPort { return l.acc.Addr() }

// Close stops listening and rejects waiting requests. A closed device has already done so, and the
// listener's descriptor may be another file's.
func (l *streamListener) Close() error {
	l.dev.Lane.Mu.Lock()
	defer l.dev.Lane.Mu.Unlock()
	if l.dev.Closed.Load() {
		return nil
	}
	for _, c := range l.dev.inOrder() {
		if c.listener == l && c.stage() == rdmap.StageRequest {
			c.End(true)
		}
	}
	for c, ok := l.waiting.Oldest(); ok; c, ok = l.waiting.Oldest() {
		c.reject(nil)
	}
	l.dev.Lane.Timers.Stop(&l.again)
	return l.acc.Close()
}

// DialStream requests a connection for package cm.
func (d *Device) DialStream(qp driver.QP, from, to netip.AddrPort, p driver.StreamParam,
	f func(driver.StreamEvent)) (driver.Stream, error) {
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	var q *QP
	if qp != nil {
		var err error
		if q, err = d.own(qp); err != nil {
			return nil, err
		}
	} else if d.Closed.Load() {
		return nil, verbs.ErrClosed
	}
	d.Lane.NewTime()
	link, err := d.net.Dial(from, to, p.TOS)
	if err != nil {
		return nil, err
	}
	c := d.newConn(link, d.dialed(p, p.PrivateData, programTimes))
	c.qp, c.events, c.ownRNR = q, f, p.OwnRNR
	if q != nil {
		q.conn = c
	}
	link.Watch(false, true)
	d.Lane.WakeForTimer()
	return (*stream)(c), nil
}

// QPNumbered returns the reliable queue pair with a number; nil: there is none.
func (d *Device) QPNumbered(n verbs.QPN) driver.QP {
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	if q, ok := d.QPs[n].(*QP); ok && q.typ == verbs.RC {
		return q
	}
	return nil
}

// own checks a queue pair given by package cm.
func (d *Device) own(qp driver.QP) (*QP, error) {
	q, ok := qp.(*QP)
	switch {
	case d.Closed.Load():
		return nil, verbs.ErrClosed
	case !ok || q.dev != d:
		return nil, &verbs.OpError{Op: "connect", Err: verbs.ErrInvalid, Detail: "the queue pair is of another device"}
	case q.conn != nil:
		return nil, &verbs.OpError{Op: "connect", Err: verbs.ErrBusy, Detail: "the queue pair has a connection"}
	}
	return q, nil
}

var errAnswered = errors.New("the connection was answered or has ended")

func (s *stream) Accept(qp driver.QP, p driver.StreamParam, f func(driver.StreamEvent)) error {
	c := (*Conn)(s)
	d := c.dev
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	q, err := d.own(qp)
	if err != nil {
		return err
	}
	if c.stage() != rdmap.StageAnswer {
		return &verbs.OpError{Op: "accept", Err: verbs.ErrState, Detail: errAnswered.Error()}
	}
	d.Lane.NewTime()
	c.answered()
	c.events = f
	c.handshake.Limit(p.IRD, p.ORD)
	c.handshake.Proposal.FewerRNR, c.ownRNR = p.FewerRNR, p.OwnRNR
	c.handshake.MatchPeer()
	err = c.accept(q, p.PrivateData)
	d.transmit()
	return err
}

func (s *stream) Reject(private []byte) error {
	c := (*Conn)(s)
	c.dev.Lane.Mu.Lock()
	defer c.dev.Lane.Mu.Unlock()
	if c.dev.Closed.Load() {
		return verbs.ErrClosed
	}
	if c.stage() != rdmap.StageAnswer {
		return &verbs.OpError{Op: "reject", Err: verbs.ErrState, Detail: errAnswered.Error()}
	}
	c.dev.Lane.NewTime()
	c.reject(private)
	return nil
}

func (s *stream) Disconnect() {
	c := (*Conn)(s)
	c.dev.Lane.Mu.Lock()
	defer c.dev.Lane.Mu.Unlock()
	c.disconnect()
}

func (s *stream) Close() {
	c := (*Conn)(s)
	c.dev.Lane.Mu.Lock()
	defer c.dev.Lane.Mu.Unlock()
	c.events = nil
	c.disconnect()
}

// disconnect ends the connection in the way that its phase requires.
func (c *Conn) disconnect() {
	d := c.dev
	if d.Closed.Load() {
		return
	}
	d.Lane.NewTime()
	switch c.phase {
	case running:
		q := c.qp
		q.Engine.Modify(&verbs.QPAttr{State: verbs.StateError}, verbs.MaskState)
		q.applyState()
		d.transmit()
	case settingUp:
		if c.stage() == rdmap.StageAnswer {
			c.reject(nil)
		} else {
			c.End(true)
		}
	}
}
