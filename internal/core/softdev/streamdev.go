// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/clock"
	"github.com/ramjet-rdma/ramjet/internal/core/queue"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// StreamDevice is a verbs device over streams of bytes: iWARP.
type StreamDevice struct {
	Device
	net     Network
	engine  rdmap.Device
	counted rdmap.Counters // of the engine, as published to observers
	conns   map[*conn]struct{}
	meet    rendezvous
	news    news

	ready       queue.Ring[*conn] // may have something to send
	established []*conn           // connections that have a queue pair
	refused     *HalfOpen[*conn]  // rejected links whose peers have not ended them
	lastShared  int               // index of the one that took the last receive of a shared queue
	sends       turn
	load        int // bytes moved that are not yet counted in movedMuch
	blocked     int // connections that wait for the network to take more
	batch       *rdmap.Batch
	spare       []*rdmap.Batch
	pieces      [1][]byte   // what is read or written
	woken       atomic.Bool // the goroutine's wait has ended
	handle      func(owner any, read, write bool)
}

const (
	// scanStreams is how many streams are read one by one. With more the network is asked which of
	// them are ready, which costs their senders too.
	scanStreams = 4
	// burst is how many posts since the last poll wait for the next one, so that their messages
	// leave in one write.
	burst = 64
	// heavyLoad is how many bytes between two polls make polls rare: about 50 µs of copying.
	heavyLoad = 256 << 10
	// bulkCompletions at once come from a full queue, whose messages need not leave at once.
	bulkCompletions = 8
)

// NewStream creates a device of a network and starts its goroutines. name is what the program
// opened.
func NewStream(name, kind string, guid uint64, net Network) (*StreamDevice, error) {
	d := &StreamDevice{net: net, conns: make(map[*conn]struct{}), refused: NewHalfOpen[*conn](maxRefused), batch: rdmap.NewBatch()}
	d.engine = rdmap.Device{Resolve: net.Resolve}
	d.Device.init(d, net, &d.engine.Device, attrOf(name, kind, verbs.TransportIWARP, guid))
	d.handle = d.handleReady
	if err := d.meet.open(d); err != nil {
		return nil, err
	}
	d.news.start()
	d.run()
	return d, nil
}

func (d *StreamDevice) publish() { d.counted = d.engine.Counters }

func (d *StreamDevice) metrics() []verbs.Metric {
	d.view.Lock()
	c := d.counted
	d.view.Unlock()
	return c.Metrics()
}

// at returns the queue pair of a number, or nil.
func (d *StreamDevice) at(n verbs.QPN) *streamQP {
	q, _ := d.qps[n].(*streamQP)
	return q
}

func (d *StreamDevice) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// newAH fails: there are no datagrams.
func (d *StreamDevice) newAH(verbs.AHAttr) (verbs.AHDriver, error) {
	return nil, &verbs.OpError{Op: "create_ah", Err: verbs.ErrNotSupported, Detail: "iWARP has no datagrams: use RC queue pairs"}
}

// adopt makes the streams of a shared receive queue continue when it has receives again.
func (d *StreamDevice) adopt(s *srq, _ *verbs.SRQInit) { s.posted = d.resumeAll }

// drain sends what TCP takes now.
func (d *StreamDevice) drain() {
	d.newTime()
	d.transmit()
}

func (d *StreamDevice) shut() error {
	d.mu.Lock()
	for _, c := range d.inOrder() {
		c.link.Close(c.wanted())
	}
	d.meet.close()
	d.mu.Unlock()
	d.news.stop()
	d.net.StopFollowing()
	return nil
}

func (d *StreamDevice) free() error {
	clear(d.conns)
	d.established, d.ready = nil, queue.Ring[*conn]{}
	return d.net.Close()
}

// inOrder returns all connections, in a reproducible order.
func (d *StreamDevice) inOrder() []*conn {
	return slices.SortedFunc(maps.Keys(d.conns), func(a, b *conn) int {
		return cmp.Or(a.link.LocalAddr().Compare(b.link.LocalAddr()), a.link.PeerAddr().Compare(b.link.PeerAddr()))
	})
}

// moved counts bytes that were read or written.
func (d *StreamDevice) moved(n int) {
	if d.load += n; d.load >= heavyLoad {
		d.load = 0
		d.movedMuch.Store(true)
	}
}

// receive delivers what has arrived to its queue pairs.
func (d *StreamDevice) receive() (n int) {
	if len(d.established) == 0 || !d.scans() || d.woken.Load() {
		d.woken.Store(false)
		return d.net.Ready(d.handle)
	}
	for i := 0; i < len(d.established); i++ {
		n += d.established[i].receive()
	}
	return n
}

// scans reports whether this pass reads the streams one by one.
func (d *StreamDevice) scans() bool {
	all := len(d.established)
	return all <= scanStreams && all == len(d.conns) && d.blocked == 0 && d.pass.count%32 != 0
}

// respond sends what there is.
func (d *StreamDevice) respond(bool, int, bool) { d.transmit() }

// handleReady handles a link or acceptor that is ready.
func (d *StreamDevice) handleReady(owner any, read, write bool) {
	switch o := owner.(type) {
	case *conn:
		o.handle(read, write)
	case *streamListener:
		o.accept()
	}
}

func (d *StreamDevice) polling(*queue.CQ) {}

func (d *StreamDevice) long(received int) bool { return received > 1 }

// transmit sends what there is to send, a few writes of each stream in turn and as much as a turn
// allows, and delivers the results to the program.
func (d *StreamDevice) transmit() {
	d.sends = turn{start: d.passTime()}
	for n := d.ready.Len(); n > 0 && !d.sends.over; n-- {
		c := *d.ready.Front()
		*d.ready.Front() = nil
		d.ready.PopFront()
		c.ready = false
		c.transmit()
	}
	d.deliver()
	if d.ready.Len() > 0 {
		d.wakeBy(d.passTime() + clock.Time(lease)) // the program may never poll again
	}
	d.wakeForTimer()
}

// flush leaves the rest of what has had its turn to the goroutine.
func (d *StreamDevice) flush() {
	d.transmit()
	if d.ready.Len() > 0 {
		d.wakeBy(d.passTime())
	}
}

func (d *StreamDevice) pending() bool           { return d.ready.Len() > 0 }
func (d *StreamDevice) stalled() bool           { return false }
func (d *StreamDevice) setDeadline(t time.Time) { d.net.SetDeadline(t) }

// wait makes the next pass ask what woke it.
func (d *StreamDevice) wait(bool) error {
	err := d.net.Wait()
	d.woken.Store(true)
	return err
}
func (d *StreamDevice) wake() { d.net.Wake() }
