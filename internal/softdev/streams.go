// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"errors"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// streamListener takes links at an address and port.
type streamListener struct {
	dev     *StreamDevice
	acc     Acceptor
	backlog int
	silent  *HalfOpen[*conn] // links whose request has not come
	waiting map[*conn]bool   // connections that the program has to answer
	heard   func(*conn)      // what to do with a request
	tell    func(verbs.StreamEvent)
	again   alarm // takes links again, after the system had no room for one
}

// acceptPause is how long links wait when the system has no room for one, mostly no file
// descriptor: the acceptor would be ready all the time.
const acceptPause = ibta.Time(100 * time.Millisecond)

func (d *StreamDevice) listen(at netip.AddrPort, backlog int) (*streamListener, error) {
	acc, err := d.net.Listen(at, backlog)
	if err != nil {
		return nil, err
	}
	l := &streamListener{dev: d, acc: acc, backlog: backlog, silent: NewHalfOpen[*conn](maxHearing), waiting: make(map[*conn]bool)}
	l.again.do = func() { acc.Watch(true) }
	acc.Own(l)
	return l, nil
}

// acceptsAtOnce is how many links are taken in a turn.
const acceptsAtOnce = 64

// accept takes links that are there. A flood of links that say nothing keeps none out that does.
func (l *streamListener) accept() {
	for range acceptsAtOnce {
		link, err := l.acc.Accept()
		if errors.Is(err, ErrAgain) {
			return
		}
		if err != nil {
			l.dev.engine.Counters.NoRoom++
			if l.silent.Len() > acceptsAtOnce {
				l.dropOldest() // it has what the system lacks
				continue
			}
			l.acc.Watch(false)
			l.dev.alarms.set(&l.again, l.dev.passTime()+acceptPause)
			l.dev.wakeForTimer()
			return
		}
		c := l.dev.newConn(link, hearing)
		c.listener = l
		l.silent.Add(link.PeerAddr().Addr(), c)
		link.Watch(true, false)
		c.hear() // the request may be there
		if l.silent.Full() {
			l.dropOldest()
		}
	}
}

// dropOldest ends the link that has been silent for longest, of the peer that has the most such
// links. It is asked once more: after a pause of this process all requests may be there.
func (l *streamListener) dropOldest() {
	if c, ok := l.silent.Oldest(); ok {
		if c.hear(); c.phase == hearing {
			l.dev.engine.Counters.Dropped++
			c.end(true)
		}
	}
}

// ListenStream takes connections for package cm.
func (d *StreamDevice) ListenStream(at netip.AddrPort, backlog int, f func(verbs.StreamEvent)) (verbs.StreamListener, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	l, err := d.listen(at, backlog)
	if err != nil {
		return nil, err
	}
	l.tell = f
	l.heard = l.ask
	return l, nil
}

// ask tells the program of a request.
func (l *streamListener) ask(c *conn) {
	if len(l.waiting) >= l.backlog {
		c.reject(nil)
		return
	}
	l.waiting[c] = true
	f := l.tell
	e := verbs.StreamEvent{Type: verbs.StreamAsked, Stream: (*stream)(c), Param: c.said()}
	l.dev.news.tell(func() { f(e) })
}

func (l *streamListener) Addr() netip.AddrPort { return l.acc.Addr() }

// Close stops listening; what waits for an answer is rejected. A device that is closed has
// done so already, and the listener's descriptor may be somebody else's.
func (l *streamListener) Close() error {
	l.dev.mu.Lock()
	defer l.dev.mu.Unlock()
	if l.dev.closed {
		return nil
	}
	for c := range l.dev.conns {
		if c.listener == l && c.phase == hearing {
			c.end(true)
		}
	}
	for c := range l.waiting {
		c.reject(nil)
	}
	l.dev.alarms.stop(&l.again)
	return l.acc.Close()
}

// DialStream asks for a connection for package cm.
func (d *StreamDevice) DialStream(qp verbs.QPDriver, from, to netip.AddrPort, p verbs.StreamParam, f func(verbs.StreamEvent)) (verbs.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q, err := d.own(qp)
	if err != nil {
		return nil, err
	}
	d.passNow = 0
	link, err := d.net.Dial(from, to, p.TOS)
	if err != nil {
		return nil, err
	}
	c := d.newConn(link, dialing)
	c.limit(p)
	c.qp, c.tell, c.private = q, f, p.PrivateData
	q.conn = c
	link.Watch(false, true)
	d.wakeForTimer()
	return (*stream)(c), nil
}

// own checks a queue pair that package cm brings.
func (d *StreamDevice) own(qp verbs.QPDriver) (*streamQP, error) {
	q, ok := qp.(*streamQP)
	switch {
	case d.closed:
		return nil, verbs.ErrClosed
	case !ok || q.dev != d:
		return nil, &verbs.OpError{Op: "connect", Err: verbs.ErrInvalid, Detail: "the queue pair is of another device"}
	case q.conn != nil:
		return nil, &verbs.OpError{Op: "connect", Err: verbs.ErrBusy, Detail: "the queue pair has a connection"}
	}
	return q, nil
}

// limit takes the program's wishes for READs and atomics.
func (c *conn) limit(p verbs.StreamParam) {
	c.wishes.IRD, c.wishes.ORD = min(c.wishes.IRD, p.IRD), min(c.wishes.ORD, p.ORD)
}

var errAnswered = errors.New("the connection was answered or has ended")

func (s *stream) Accept(qp verbs.QPDriver, p verbs.StreamParam, f func(verbs.StreamEvent)) error {
	c := (*conn)(s)
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	q, err := d.own(qp)
	if err != nil {
		return err
	}
	if c.phase != asked {
		return &verbs.OpError{Op: "accept", Err: verbs.ErrState, Detail: errAnswered.Error()}
	}
	d.passNow = 0
	delete(c.listener.waiting, c)
	c.tell = f
	c.limit(p)
	if ird := c.setup.Depths.ORD; c.setup.Enhanced() && ird < c.wishes.IRD {
		c.wishes.IRD = ird
	}
	err = c.accept(q, p.PrivateData)
	d.transmit()
	return err
}

func (s *stream) Reject(private []byte) error {
	c := (*conn)(s)
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	if c.phase != asked {
		return &verbs.OpError{Op: "reject", Err: verbs.ErrState, Detail: errAnswered.Error()}
	}
	delete(c.listener.waiting, c)
	c.dev.passNow = 0
	c.reject(private)
	return nil
}

func (s *stream) Disconnect() {
	c := (*conn)(s)
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	c.disconnect()
}

func (s *stream) Close() {
	c := (*conn)(s)
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	c.tell = nil
	c.disconnect()
}

// disconnect ends the connection in the way that suits how far it has come.
func (c *conn) disconnect() {
	d := c.dev
	if d.closed {
		return
	}
	d.passNow = 0
	switch c.phase {
	case running:
		q := c.qp
		q.engine.Modify(&verbs.QPAttr{State: verbs.Err}, verbs.MaskState)
		q.follow()
		d.transmit()
	case asked:
		delete(c.listener.waiting, c)
		c.reject(nil)
	case dialing, asking, hearing:
		c.end(true)
	}
}
