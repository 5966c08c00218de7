// SPDX-License-Identifier: Apache-2.0

package streamdev

import (
	"errors"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// scanStreams is how many streams are read one by one. With more the network is asked which of them
// are ready, which costs their senders too.
const scanStreams = 4

// byteCarrier carries data as bytes of the streams: iWARP.
type byteCarrier struct {
	dev     *Device
	engine  rdmap.Device
	counted rdmap.Counters // of the engine, as published to observers
	blocked int            // connections that wait for the network to take more
	batch   *rdmap.Batch
	spare   []*rdmap.Batch
	pieces  [1][]byte // what is read or written
}

func newByteCarrier(d *Device) *byteCarrier {
	b := &byteCarrier{dev: d, batch: rdmap.NewBatch()}
	b.engine.Resolve = d.net.Resolve
	return b
}

func (b *byteCarrier) workers() map[softdev.Worker]uint32 { return nil }
func (b *byteCarrier) bytes() bool                        { return true }
func (b *byteCarrier) slotBits() int                      { return 4 }
func (b *byteCarrier) patient() bool                      { return false }
func (b *byteCarrier) shared() *queue.Device              { return &b.engine.Device }
func (b *byteCarrier) publish()                           { b.counted = b.engine.Counters }
func (b *byteCarrier) metrics() []metric.Metric           { return b.counted.Metrics() }
func (b *byteCarrier) datagrams() datagramMaker           { return nil }
func (b *byteCarrier) loop() (Link, error)                { return nil, verbs.ErrNotSupported }
func (b *byteCarrier) close()                             {}
func (b *byteCarrier) arm() bool                          { return true }

func (b *byteCarrier) equip(q *streamQP, c queue.Config) {
	e := rdmap.New(&b.engine, c)
	q.engine, q.endpoint = e, &byteEndpoint{carrier: b, engine: e}
}

func (b *byteCarrier) scans() bool {
	d := b.dev
	all := len(d.established)
	return all > 0 && all <= scanStreams && all == len(d.conns) && b.blocked == 0 && d.Lane.Passes()%32 != 0
}

// byteEndpoint is a queue pair's bytes.
type byteEndpoint struct {
	carrier *byteCarrier
	engine  *rdmap.QP
	c       *conn
	batch   *rdmap.Batch // partly sent: goes first
	quiet   clock.Time   // until the peer is prompted again
	drains  bool         // the connection's bound limits the sending of the rest of batch
}

func (ep *byteEndpoint) begin(c *conn, p rdmap.Params) bool {
	if !ep.engine.Begin(p) {
		return false
	}
	ep.c, ep.drains = c, false
	return true
}

// running returns the endpoint of the queue pair that has taken over a stream of bytes; nil: none has.
func (c *conn) running() *byteEndpoint {
	if c.qp == nil || c.phase != running {
		return nil
	}
	f, _ := c.qp.endpoint.(*byteEndpoint)
	return f
}

func (ep *byteEndpoint) prompt() bool   { return false }
func (ep *byteEndpoint) draining() bool { return ep.drains }
func (ep *byteEndpoint) resumed()       {}

func (ep *byteEndpoint) first(p rdmap.Params) clock.Time {
	ep.quiet = promptTime
	if p.Pause {
		ep.quiet = pauseTime
	}
	return ep.quiet
}

// check sends something to a peer that has sent nothing yet, to make it look at its socket.
func (ep *byteEndpoint) check() clock.Time {
	if !ep.engine.Quiet() || ep.quiet >= promptEnd {
		return checkTime
	}
	ep.engine.Prompt()
	ep.quiet *= 2
	ep.carrier.dev.addReady(ep.c)
	return ep.quiet
}

func (ep *byteEndpoint) watch() { ep.c.link.Watch(!ep.engine.Paused(), ep.batch != nil) }

// receive takes what has arrived. It returns how many reads found something.
func (ep *byteEndpoint) receive() (got int) {
	c, d, q := ep.c, ep.carrier.dev, ep.engine
	d.Lane.Touch(&c.qp.QP)
	q.Trace = c.segmentCapture()
	reads := max(1, min(streamCalls, streamReads/max(1, len(d.established))))
	for range reads {
		into := q.Into()
		if into == nil {
			if ep.watch(); !q.Paused() {
				d.addReady(c) // for the Terminate
			}
			break
		}
		ep.carrier.pieces[0] = into
		n, err := c.link.Read(ep.carrier.pieces[:])
		if err != nil {
			if !errors.Is(err, softdev.ErrAgain) {
				c.lost(err)
			}
			break
		}
		got++
		ep.carrier.engine.Counters.Reads++
		d.moved(n)
		q.Received(n)
		if n < len(into) {
			break // nothing is left
		}
		if got == reads { // TLS may hold the rest, and the program may never poll again
			d.Lane.WakeBy(d.Lane.PassTime())
		}
	}
	if got > 0 {
		d.addReady(c)
	}
	return got
}

// transmit sends what the queue pair has to send.
func (ep *byteEndpoint) transmit() {
	b, c, d, q := ep.carrier, ep.c, ep.carrier.dev, ep.engine
	q.Trace = c.segmentCapture()
	if ep.batch != nil {
		if !ep.write(ep.batch) {
			ep.limitDrain()
			return
		}
		b.spare = append(b.spare, ep.batch)
		ep.batch = nil
		b.blocked--
		ep.watch()
	}
	for i := 0; i < streamCalls && !d.sends.Over; i++ {
		b.batch.Reset()
		seen := uint64(0)
		if d.impaired != nil {
			seen = c.captured()
		}
		if !q.NextFPDUs(b.batch) {
			if q.Ending() {
				c.finish()
			}
			return
		}
		all := ep.write(b.batch)
		if d.impaired != nil {
			c.commentSent(seen)
		}
		if all {
			continue
		}
		if c.phase == running { // the rest goes first when there is room
			ep.batch = b.batch
			b.blocked++
			ep.watch()
			if n := len(b.spare); n > 0 {
				b.batch, b.spare = b.spare[n-1], b.spare[:n-1]
			} else {
				b.batch = rdmap.NewBatch()
			}
			ep.limitDrain()
		}
		return
	}
	d.addReady(c)
}

// limitDrain keeps a stream that is about to end until the rest of a partly sent batch has left, but no
// longer than endTime: the peer may not read.
func (ep *byteEndpoint) limitDrain() {
	if c := ep.c; c.phase == running && ep.engine.State() == verbs.StateError && !ep.drains {
		ep.drains = true
		c.dev.Lane.Timers.Set(&c.timer, c.dev.Lane.PassTime()+endTime)
	}
}

// write sends a batch. It returns false if some of it is left, or the connection is lost.
func (ep *byteEndpoint) write(b *rdmap.Batch) bool {
	c, d, q := ep.c, ep.carrier.dev, ep.engine
	ep.carrier.pieces[0] = b.Bytes()
	n, err := c.link.Write(ep.carrier.pieces[:])
	if err != nil && !errors.Is(err, softdev.ErrAgain) {
		c.lost(err)
		return false
	}
	d.Lane.Mu.Counted = true
	d.Lane.Touch(&c.qp.QP)
	ep.carrier.engine.Counters.Writes++
	ep.carrier.engine.Counters.SentBytes += uint64(n)
	d.moved(n)
	d.sends.Sent(n, streamBudgetBytes, d.Lane.Now())
	whole := n == b.Len()
	if n > 0 {
		b.Sent(n)
		q.Sent(n)
	}
	return whole
}

func (ep *byteEndpoint) detach() {
	if ep.batch != nil {
		ep.carrier.blocked--
		ep.carrier.spare = append(ep.carrier.spare, ep.batch)
		ep.batch = nil
	}
}
