// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// phase is how far a connection has come.
type phase uint8

const (
	dialing phase = iota // the link is being made
	asking               // our request is on its way
	hearing              // the peer's request is
	asked                // somebody has to answer it
	running              // the queue pair has it
	ending               // nothing more is sent; what the peer still sends is dropped
	gone
)

// Bounds of what peers can make us wait.
const (
	setupTime     = ibta.Time(10 * time.Second)       // of a set-up frame
	answerTime    = ibta.Time(60 * time.Second)       // of the program's answer
	endTime       = ibta.Time(2 * time.Second)        // of the peer's end of a stream
	maxHearing    = 1024                              // links whose request has not come
	promptTime    = ibta.Time(10 * time.Millisecond)  // until an initiator prompts a quiet peer; then twice as long each time
	pauseTime     = ibta.Time(200 * time.Millisecond) // until a responder does
	promptEnd     = ibta.Time(5 * time.Second)        // and no longer than that
	lookTime      = ibta.Time(10 * time.Second)       // between looks whether the peer of a stream is still there
	forsakenLooks = 3                                 // that find it gone while what it sent waits for a receive, until the stream ends
)

// conn is a connection: a link and what is done with it.
type conn struct {
	dev    *StreamDevice
	link   Link
	phase  phase
	setup  *rdmap.Setup
	wishes rdmap.Wishes
	out    []byte // set-up frame that is being sent
	qp     *streamQP
	batch  *rdmap.Batch // is partly sent: goes first
	bound  alarm
	quiet  ibta.Time // until the peer is prompted again
	ready  bool
	hurry  bool // bound is for the end of what is partly sent
	looks  int  // in a row that found the peer gone, and the stream waiting for a receive

	listener *streamListener         // took it
	seeker   bool                    // queue pairs meet by their numbers
	tell     func(verbs.StreamEvent) // hears of it; nil: nobody
	private  []byte                  // of our request
	failed   func(err error)         // of a seeker: another attempt is to be made
}

func (d *StreamDevice) newConn(l Link, p phase) *conn {
	c := &conn{dev: d, link: l, phase: p, setup: &rdmap.Setup{}, wishes: d.net.Wishes()}
	c.bound.do = c.late
	d.conns[c] = struct{}{}
	d.alarms.set(&c.bound, d.passTime()+setupTime)
	l.Own(c)
	return c
}

// addReady notes that c may have something to send.
func (d *StreamDevice) addReady(c *conn) {
	if !c.ready && c.phase == running {
		c.ready = true
		*d.ready.PushBack() = c
	}
}

// inform tells whoever hears of the connection.
func (c *conn) inform(e verbs.StreamEvent) {
	if f := c.tell; f != nil {
		e.Stream = (*stream)(c)
		c.dev.news.tell(func() { f(e) })
	}
}

// late ends what has taken too long.
func (c *conn) late() {
	switch c.phase {
	case ending:
		c.end(false)
	case running:
		switch {
		case c.hurry:
			c.end(false)
		case c.link.Silent(), c.forsaken():
			c.lost(errGone)
		default:
			c.prompt()
		}
	default:
		c.fail(errTooLate)
	}
}

// forsaken says whether the peer ended the link long ago, and the program has since posted no
// receive for what came before that: nobody would ever see the end.
func (c *conn) forsaken() bool {
	if !c.qp.engine.Paused() || !c.link.Ended() {
		c.looks = 0
		return false
	}
	c.looks++
	return c.looks > forsakenLooks
}

var errGone = errors.New("the peer acknowledges nothing")

var errTooLate = fmt.Errorf("the peer does not answer: %w", context.DeadlineExceeded)

// handle does what can be done.
func (c *conn) handle(read, write bool) {
	switch c.phase {
	case dialing:
		err := c.link.Connected()
		if errors.Is(err, ErrAgain) {
			return
		}
		if err != nil {
			c.fail(err)
			return
		}
		c.phase = asking
		c.wishes.MSS = c.link.MSS()
		c.out = rdmap.AppendRequest(nil, &c.wishes, c.private)
		c.flush()
	case asking, hearing:
		if write {
			c.flush()
		}
		if read {
			c.hear()
		}
	case asked:
		if read {
			c.fail(errors.New("the peer closed the connection, or sent before it was answered"))
		}
	case running:
		if write {
			c.watch()
			c.dev.addReady(c)
		}
		if read {
			c.receive()
		}
	case ending:
		c.drop()
	}
}

// begin gives the stream to the queue pair.
func (c *conn) begin(q *streamQP, p rdmap.Params) {
	d := c.dev
	if q == nil || q.conn != nil && q.conn != c || !q.engine.Begin(p) {
		c.fail(errors.New("the queue pair is in a state that takes no connection"))
		return
	}
	c.qp, q.conn, c.phase = q, c, running
	said := c.said()
	said.IRD, said.ORD = p.IRD, p.ORD
	c.setup, c.out, c.failed = nil, nil, nil
	c.quiet = promptTime
	if p.Pause {
		c.quiet = pauseTime
	}
	d.alarms.set(&c.bound, d.passTime()+c.quiet)
	q.leave()
	d.hot = append(d.hot, c)
	c.watch()
	d.addReady(c)
	c.inform(verbs.StreamEvent{Type: verbs.StreamEstablished, Param: said})
}

// prompt has a peer look again that has sent nothing yet.
func (c *conn) prompt() {
	next := lookTime
	if c.qp.engine.Quiet() && c.quiet < promptEnd {
		c.qp.engine.Prompt()
		c.quiet *= 2
		next = c.quiet
		c.dev.addReady(c)
	}
	c.dev.alarms.set(&c.bound, c.dev.passTime()+next)
}

// watch has Ready report what the connection waits for.
func (c *conn) watch() { c.link.Watch(!c.qp.engine.Paused(), c.batch != nil) }

// receive takes what has arrived and returns how often there was something.
func (c *conn) receive() (got int) {
	d, q := c.dev, c.qp.engine
	reads := max(1, min(streamTurns, streamReads/max(1, len(d.hot))))
	for range reads {
		into := q.Into()
		if into == nil {
			if c.watch(); !q.Paused() {
				d.addReady(c) // for the Terminate
			}
			break
		}
		d.pieces[0] = into
		n, err := c.link.Read(d.pieces[:])
		if err != nil {
			if !errors.Is(err, ErrAgain) {
				c.lost(err)
			}
			break
		}
		got++
		d.engine.Counters.Reads++
		d.moved(n)
		q.Received(n)
		if n < len(into) {
			break // that was all
		}
		if got == reads { // TLS may have the rest, and the program may never poll again
			d.wakeBy(d.passTime())
		}
	}
	if got > 0 {
		d.addReady(c)
	}
	return got
}

// transmit sends what the queue pair has.
func (c *conn) transmit() {
	if c.phase != running {
		return
	}
	d, q := c.dev, c.qp.engine
	if c.batch != nil {
		if !c.write(c.batch) {
			c.stay()
			return
		}
		d.spare = append(d.spare, c.batch)
		c.batch = nil
		d.stuck--
		c.watch()
	}
	for i := 0; i < streamTurns && !d.sends.over; i++ {
		d.batch.Reset()
		if !q.NextFPDUs(d.batch) {
			if q.Ending() {
				c.finish()
			}
			return
		}
		if c.write(d.batch) {
			continue
		}
		if c.phase == running { // the rest goes first when there is room
			c.batch = d.batch
			d.stuck++
			c.watch()
			if n := len(d.spare); n > 0 {
				d.batch, d.spare = d.spare[n-1], d.spare[:n-1]
			} else {
				d.batch = rdmap.NewBatch()
			}
			c.stay()
		}
		return
	}
	d.addReady(c)
}

// stay has a stream that is to end wait no longer than for its peer's end until the rest of what
// is partly sent can leave: the peer may not read.
func (c *conn) stay() {
	if c.phase == running && c.qp.engine.State() == verbs.Err && !c.hurry {
		c.hurry = true
		c.dev.alarms.set(&c.bound, c.dev.passTime()+endTime)
	}
}

// write sends a batch; false: some of it is left, or the connection is lost.
func (c *conn) write(b *rdmap.Batch) bool {
	d, q := c.dev, c.qp.engine
	d.pieces[0] = b.Bytes()
	n, err := c.link.Write(d.pieces[:])
	if err != nil && !errors.Is(err, ErrAgain) {
		c.lost(err)
		return false
	}
	d.engine.Counters.Writes++
	d.engine.Counters.SentBytes += uint64(n)
	d.moved(n)
	d.sends.sent(n, streamTurnBytes, d.now())
	whole := n == b.Len()
	if n > 0 {
		b.Sent(n)
		q.Sent(n)
	}
	return whole
}

// lost ends a stream that the peer has closed or that broke.
func (c *conn) lost(err error) {
	q := c.qp
	q.engine.Lost(errors.Is(err, io.EOF))
	c.end(!errors.Is(err, io.EOF))
}

// detach takes the connection from its queue pair.
func (c *conn) detach() {
	d := c.dev
	if c.phase == running {
		for i, o := range d.hot {
			if o == c {
				d.hot[i] = d.hot[len(d.hot)-1]
				d.hot[len(d.hot)-1] = nil
				d.hot = d.hot[:len(d.hot)-1]
				break
			}
		}
		if c.batch != nil {
			d.stuck--
			d.spare = append(d.spare, c.batch)
			c.batch = nil
		}
	}
	if c.qp != nil && c.qp.conn == c {
		c.qp.conn = nil
	}
	c.qp = nil
}

// finish says that nothing more is sent, and waits for the peer to do the same: closing
// while it still sends would make it lose what we sent.
func (c *conn) finish() {
	c.link.Shutdown()
	c.linger()
}

// linger waits for the peer to end the link.
func (c *conn) linger() {
	c.detach()
	c.phase = ending
	c.link.Watch(true, false)
	c.dev.alarms.set(&c.bound, c.dev.passTime()+endTime)
	c.dev.wakeForTimer()
	c.drop()
}

// drop reads what is not wanted any more.
func (c *conn) drop() {
	var b [4096]byte
	for range streamTurns {
		if _, err := c.link.Read([][]byte{b[:]}); err != nil {
			if !errors.Is(err, ErrAgain) {
				c.end(false)
			}
			return
		}
	}
}

// fail ends a connection that could not be made.
func (c *conn) fail(err error) {
	failed := c.failed
	if c.phase != running {
		c.inform(verbs.StreamEvent{Type: verbs.StreamFailed, Err: err})
		c.tell = nil
	}
	c.end(true)
	if failed != nil {
		failed(err)
	}
}

// wanted says whether the program has not ended the stream: if it has, the peer may still take what
// was sent, and the system sees to that when the link is closed.
func (c *conn) wanted() bool {
	return c.phase != ending && (c.phase != running || c.qp.engine.State() != verbs.Err)
}

// end closes the link.
func (c *conn) end(abort bool) {
	if c.phase == gone {
		return
	}
	c.detach()
	if c.phase == hearing {
		c.listener.silent.Remove(c.link.PeerAddr().Addr(), c)
	}
	established := c.phase == running || c.phase == ending
	c.phase = gone
	c.dev.meet.forget(c)
	c.dev.alarms.stop(&c.bound)
	delete(c.dev.conns, c)
	c.link.Close(abort)
	if established {
		c.inform(verbs.StreamEvent{Type: verbs.StreamClosed})
	}
	if l := c.listener; l != nil && l.waiting[c] {
		delete(l.waiting, c)
	}
}

// stream is a conn as package cm has it.
type stream conn

func (s *stream) LocalAddr() netip.AddrPort { return s.link.LocalAddr() }
func (s *stream) PeerAddr() netip.AddrPort  { return s.link.PeerAddr() }
