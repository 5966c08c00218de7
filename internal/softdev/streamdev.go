// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/queue"
	"github.com/ramjet-rdma/ramjet/internal/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// StreamDevice is a verbs device over streams of bytes: iWARP.
type StreamDevice struct {
	core
	net    Network
	engine rdmap.Device
	qps    map[verbs.QPN]*streamQP
	conns  map[*conn]struct{}
	alarms alarms
	meet   rendezvous
	news   news

	ready   queue.Ring[*conn] // may have something to send
	hot     []*conn           // have a queue pair
	turn    int               // of them, whose was the last receive of a shared queue
	sends   turn
	bulk    bool // much completed at once: the program keeps its queues full
	load    int  // bytes moved that heavy does not know of
	stuck   int  // of them wait for the network to take more
	batch   *rdmap.Batch
	spare   []*rdmap.Batch
	pieces  [1][]byte // what is read or written
	passNow ibta.Time // of the pass under way; zero: the clock was not read yet
	passes  uint
	woken   atomic.Bool // the goroutine's wait has ended
	handle  func(owner any, read, write bool)
}

const (
	// few is how many streams are looked at one by one; with more the network is asked which
	// of them have something, which costs those who send to us too.
	few = 4
	// burst is how many posts since the last poll wait for the next one, so that their
	// messages leave in one write.
	burst = 64
	// heavyLoad is how many bytes between two polls make them rare: some 50 µs of copying.
	heavyLoad = 256 << 10
	// many completions at once are those of a full queue, whose messages need not leave at once.
	many = 8
)

// NewStream makes a device of a network and starts its goroutines. name is what the program
// opened.
func NewStream(name, kind string, guid uint64, net Network) (*StreamDevice, error) {
	pattr, _ := net.Attr()
	d := &StreamDevice{net: net, qps: make(map[verbs.QPN]*streamQP), conns: make(map[*conn]struct{}), batch: rdmap.NewBatch()}
	d.core = newCore(d)
	d.handle = d.handleReady
	d.engine = rdmap.Device{Memory: d.memory, PKeys: len(pKeys), Resolve: net.Resolve, MTU: pattr.ActiveMTU.Bytes(), MaxMsgSize: maxMessage}
	d.attr = attrOf(name, kind, guid)
	if err := d.meet.open(d); err != nil {
		return nil, err
	}
	d.news.start()
	net.Follow(d.raisePort)
	go d.loop()
	return d, nil
}

// QueryPort returns the attributes of port 1.
func (d *StreamDevice) QueryPort(port int) (verbs.PortAttr, error) {
	if err := checkPort(port); err != nil {
		return verbs.PortAttr{}, err
	}
	a, gids := d.net.Attr()
	a.GIDs, a.PKeys, a.MaxMsg = len(gids), len(pKeys), maxMessage
	return a, nil
}

// GIDs returns the GID table.
func (d *StreamDevice) GIDs(port int) ([]verbs.GIDEntry, error) {
	_, gids := d.net.Attr()
	return gids, checkPort(port)
}

func (d *StreamDevice) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// Counters returns what happened so far.
func (d *StreamDevice) Counters() []verbs.Counter {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.engine.Counters.List()
}

// streamPD is a protection domain.
type streamPD struct {
	domain
	dev *StreamDevice
}

// AllocPD allocates a protection domain.
func (d *StreamDevice) AllocPD() (verbs.PDDriver, error) {
	r, err := d.newDomain()
	if err != nil {
		return nil, err
	}
	return &streamPD{domain: r, dev: d}, nil
}

// CreateAH refuses: there are no datagrams.
func (p *streamPD) CreateAH(verbs.AHAttr) (verbs.AHDriver, error) {
	if p.dev.isClosed() {
		return nil, verbs.ErrClosed
	}
	return nil, &verbs.OpError{Op: "create_ah", Err: verbs.ErrNotSupported, Detail: "iWARP has no datagrams: use RC queue pairs"}
}

// CreateSRQ creates a shared receive queue.
func (p *streamPD) CreateSRQ(spec verbs.SRQSpec) (verbs.SRQDriver, error) {
	s, err := p.createSRQ(&spec)
	if err == nil {
		s.posted = p.dev.resumeAll
	}
	return s, err
}

// Close ends the device and everything in it.
func (d *StreamDevice) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	for c := range d.conns {
		c.link.Close(c.wanted())
	}
	d.meet.close()
	cqs := d.cqs
	d.cqs = make(map[*cq]struct{})
	d.watch.notify()
	d.mu.Unlock()
	closeQueues(cqs)
	d.wakeLoop()
	<-d.done
	d.news.stop()
	d.net.StopFollowing()
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.qps)
	clear(d.conns)
	d.hot, d.alarms, d.ready = nil, nil, queue.Ring[*conn]{}
	d.memory.Close()
	return d.net.Close()
}

// moved notes bytes that were read or written.
func (d *StreamDevice) moved(n int) {
	if d.load += n; d.load >= heavyLoad {
		d.load = 0
		d.heavy.Store(true)
	}
}

// passTime returns the time of the pass under way.
func (d *StreamDevice) passTime() ibta.Time {
	if d.passNow == 0 {
		d.passNow = d.now()
	}
	return d.passNow
}

// pass moves data once.
func (d *StreamDevice) pass(polling bool) int {
	d.passes++
	d.passNow = 0
	n := 0
	if hot := len(d.hot); hot > 0 && hot <= few && hot == len(d.conns) && d.stuck == 0 && d.passes%32 != 0 && !d.woken.Load() {
		for i := 0; i < len(d.hot); i++ {
			n += d.hot[i].receive()
		}
	} else {
		d.woken.Store(false)
		n = d.net.Ready(d.handle)
	}
	if len(d.alarms) > 0 && (n > 0 || !polling || d.passes%16 == 0) {
		d.alarms.ring(d.passTime())
	}
	d.transmit()
	if n > 0 && d.memory.TakeChanged() {
		d.watch.notify()
	}
	return n
}

// handleReady does what can be done on a link or acceptor.
func (d *StreamDevice) handleReady(owner any, read, write bool) {
	switch o := owner.(type) {
	case *conn:
		o.handle(read, write)
	case *streamListener:
		o.accept()
	}
}

// poll is a pass on behalf of a polling program.
func (d *StreamDevice) poll(*queue.CQ) (n int, long bool) {
	n = d.pass(true)
	return n, n > 1
}

// transmit sends what there is to send, a few writes of each stream after the other and as much as a
// turn may take, and tells the program what came of all that happened.
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
		d.wakeBy(d.passTime() + ibta.Time(lease)) // the program may never poll again
	}
	d.wakeForTimer()
}

// deliver hands completions to their queues and events to the program.
func (d *StreamDevice) deliver() {
	out := &d.engine.Outbox
	if n := len(out.Completions); n > 0 || len(out.Events) > 0 {
		d.bulk = n >= many
		d.deliverOutbox(out, d.passTime(), d.overflowed)
	}
}

// overflowed puts the queue pair whose completion was lost into the error state.
func (d *StreamDevice) overflowed(n verbs.QPN) {
	if q := d.qps[n]; q != nil && q.engine.State() != verbs.Err {
		q.engine.Modify(&verbs.QPAttr{State: verbs.Err}, verbs.MaskState)
		q.raise(verbs.EventQPFatal)
		q.follow()
	}
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
func (d *StreamDevice) nextDue() ibta.Time      { return d.alarms.next() }
func (d *StreamDevice) setDeadline(t time.Time) { d.net.SetDeadline(t) }

// wait has the next pass ask what woke it.
func (d *StreamDevice) wait(bool) error {
	err := d.net.Wait()
	d.woken.Store(true)
	return err
}
func (d *StreamDevice) wake() { d.net.Wake() }
