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
	lane    rdmap.Lane
	counted rdmap.Counters // of the lane, as published to observers
	blocked int            // connections that wait for the network to take more
	batch   *rdmap.Batch
	spare   []*rdmap.Batch
	pieces  [1][]byte // the bytes that are read or written
}

func newByteCarrier(d *Device) *byteCarrier {
	b := &byteCarrier{dev: d, batch: rdmap.NewBatch()}
	b.engine.Resolve = d.net.Resolve
	return b
}

func (b *byteCarrier) Workers() map[softdev.Worker]uint32 { return nil }
func (b *byteCarrier) Bytes() bool                        { return true }
func (b *byteCarrier) SlotBits() int                      { return 4 }
func (b *byteCarrier) Patient() bool                      { return false }
func (b *byteCarrier) RefuseMessages(*softdev.Faulty)     {}
func (b *byteCarrier) Shared() *queue.Device              { return &b.engine.Device }
func (b *byteCarrier) Outbox() *queue.Outbox              { return &b.lane.Outbox }
func (b *byteCarrier) Publish()                           { b.counted = b.lane.Counters }
func (b *byteCarrier) Metrics() []metric.Metric           { return b.counted.Metrics() }
func (b *byteCarrier) Datagrams() DatagramMaker           { return nil }
func (b *byteCarrier) Loop() (Link, error)                { return nil, verbs.ErrNotSupported }
func (b *byteCarrier) Close()                             {}
func (b *byteCarrier) Arm() bool                          { return true }

func (b *byteCarrier) Equip(q *QP, c queue.Config) {
	e := rdmap.New(&b.engine, &b.lane, c)
	q.Engine, q.Endpoint = e, &byteEndpoint{carrier: b, engine: e}
}

func (b *byteCarrier) Scans() bool {
	d := b.dev
	all := len(d.established)
	return all > 0 && all <= scanStreams && all == len(d.conns) && b.blocked == 0 && d.Lane.Passes()%32 != 0
}

// byteEndpoint is a queue pair's bytes.
type byteEndpoint struct {
	carrier *byteCarrier
	engine  *rdmap.QP
	c       *Conn
	batch   *rdmap.Batch // partly sent: goes first
	quiet   clock.Time   // until the peer is prompted again
	drains  bool         // the connection's bound limits the sending of the rest of batch
}

func (ep *byteEndpoint) Begin(c *Conn, p rdmap.Params) bool {
	if !ep.engine.Begin(p) {
		return false
	}
	ep.c, ep.drains = c, false
	return true
}

// running returns the endpoint of the queue pair that has taken over a stream of bytes; nil: none has.
func (c *Conn) running() *byteEndpoint {
	if c.qp == nil || c.phase != running {
		return nil
	}
	f, _ := c.qp.Endpoint.(*byteEndpoint)
	return f
}

func (ep *byteEndpoint) Prompt() bool   { return false }
func (ep *byteEndpoint) Draining() bool { return ep.drains }
func (ep *byteEndpoint) Resumed()       {}

func (ep *byteEndpoint) First(p rdmap.Params) clock.Time {
	ep.quiet = promptTime
	if p.Pause {
		ep.quiet = pauseTime
	}
	return ep.quiet
}

// Check sends something to a peer that has sent nothing yet, to make it look at its socket.
func (ep *byteEndpoint) Check() clock.Time {
	if !ep.engine.Quiet() || ep.quiet >= promptEnd {
		return CheckTime
	}
	ep.engine.Prompt()
	ep.quiet *= 2
	ep.carrier.dev.AddReady(ep.c)
	return ep.quiet
}

func (ep *byteEndpoint) Watch() { ep.c.link.Watch(!ep.engine.Paused(), ep.batch != nil) }

// Receive takes the bytes that have arrived. It returns how many reads found something.
func (ep *byteEndpoint) Receive() (got int) {
	c, d, q := ep.c, ep.carrier.dev, ep.engine
	d.Lane.Touch(&c.qp.QP)
	q.Trace = c.segmentCapture()
	reads := max(1, min(streamCalls, streamReads/max(1, len(d.established))))
	for range reads {
		into := q.Into()
		if into == nil {
			if ep.Watch(); !q.Paused() {
				d.AddReady(c) // for the Terminate
			}
			break
		}
		ep.carrier.pieces[0] = into
		n, err := c.link.Read(ep.carrier.pieces[:])
		if err != nil {
			if !errors.Is(err, softdev.ErrAgain) {
				c.Lost(err)
			}
			break
		}
		got++
		ep.carrier.lane.Counters.Reads++
		d.Moved(n)
		q.Received(n)
		if n < len(into) {
			break // nothing is left
		}
		if got == reads { // TLS may hold the rest, and the program may never poll again
			d.Lane.WakeBy(d.Lane.PassTime())
		}
	}
	if got > 0 {
		d.AddReady(c)
	}
	return got
}

// Transmit sends the queue pair's bytes.
func (ep *byteEndpoint) Transmit() {
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
		ep.Watch()
	}
	for i := 0; i < streamCalls && d.MaySend(); i++ {
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
			ep.Watch()
			if n := len(b.spare); n > 0 {
				b.batch, b.spare = b.spare[n-1], b.spare[:n-1]
			} else {
				b.batch = rdmap.NewBatch()
			}
			ep.limitDrain()
		}
		return
	}
	d.AddReady(c)
}

// limitDrain keeps a stream that is about to end until the rest of a partly sent batch has left, but no
// longer than EndTime: the peer may not read.
func (ep *byteEndpoint) limitDrain() {
	if c := ep.c; c.phase == running && ep.engine.State() == verbs.StateError && !ep.drains {
		ep.drains = true
		c.dev.Lane.Timers.Set(&c.timer, c.dev.Lane.PassTime()+EndTime)
	}
}

// write sends a batch. It returns false if some of it is left, or the connection is lost.
func (ep *byteEndpoint) write(b *rdmap.Batch) bool {
	c, d, q := ep.c, ep.carrier.dev, ep.engine
	ep.carrier.pieces[0] = b.Bytes()
	n, err := c.link.Write(ep.carrier.pieces[:])
	if err != nil && !errors.Is(err, softdev.ErrAgain) {
		c.Lost(err)
		return false
	}
	d.Lane.Mu.Counted = true
	d.Lane.Touch(&c.qp.QP)
	ep.carrier.lane.Counters.Writes++
	ep.carrier.lane.Counters.SentBytes += uint64(n)
	d.Moved(n)
	d.Sent(n)
	whole := n == b.Len()
	if n > 0 {
		b.Sent(n)
		q.Sent(n)
	}
	return whole
}

func (ep *byteEndpoint) Detach() {
	if ep.batch != nil {
		ep.carrier.blocked--
		ep.carrier.spare = append(ep.carrier.spare, ep.batch)
		ep.batch = nil
	}
}
