// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"io"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/clock"
	"github.com/ramjet-rdma/ramjet/internal/core/memory"
	"github.com/ramjet-rdma/ramjet/internal/core/queue"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

const (
	// memoryBudget is how many bytes a queue pair moves before it looks at the time.
	memoryBudget = 256 << 10
	// restTime is the time between checks of a connection whose peer is there: the network tells of its end.
	restTime = clock.Time(time.Minute)
)

// memoryCarrier carries data in memory that the processes share: engine local.
type memoryCarrier struct {
	dev     *StreamDevice
	net     MemoryNetwork
	engine  local.Device
	counted local.Counters // of the engine, as published to observers
	domains map[memory.PD]Domain
	ud      *datagrams
}

// NewMemory creates a device of a network of processes that share memory, and starts its goroutines.
// name is what the program opened, and oneSided what is displayed of who carries out one-sided
// operations. With eventsOnly, programs that wait for completions sleep at once.
func NewMemory(name, kind string, guid uint64, oneSided string, eventsOnly bool, net MemoryNetwork) (*StreamDevice, error) {
	d := &StreamDevice{net: net}
	d.alone, d.eventsOnly = true, eventsOnly
	d.spinner.endless = true // nobody wakes it for what peers write
	m := &memoryCarrier{dev: d, net: net, domains: make(map[memory.PD]Domain)}
	m.engine.Resolve, m.engine.Persist = net.Resolve, m.persist
	m.ud = newDatagrams(d, net, &m.engine)
	d.carrier = m
	attr := attrOf(name, kind, verbs.TransportIB, guid)
	attr.OneSided = oneSided
	attr.Caps &^= verbs.CapExclude | verbs.CapWatch // peers write to the memory by themselves
	attr.Caps |= verbs.CapRNRNak | verbs.CapUC | verbs.CapUD | verbs.CapUDMulticast | verbs.CapFlush | verbs.CapAtomicWrite
	if memory.CanPersist {
		attr.Caps |= verbs.CapFlushPersistent
	}
	attr.MaxAH, attr.MaxMcastGroups, attr.MaxMcastQP = maxObjects, maxObjects, maxQP
	return d, d.start(attr)
}

func (m *memoryCarrier) slotBits() int           { return 6 }
func (m *memoryCarrier) shared() *queue.Device   { return &m.engine.Device }
func (m *memoryCarrier) patient() bool           { return true }
func (m *memoryCarrier) loop() (Link, error)     { return m.net.Loop() }
func (m *memoryCarrier) datagrams() *datagrams   { return m.ud }
func (m *memoryCarrier) scans() bool             { return false }
func (m *memoryCarrier) arm() bool               { return m.net.Arm() }
func (m *memoryCarrier) publish()                { m.counted = m.engine.Counters }
func (m *memoryCarrier) metrics() []verbs.Metric { return m.counted.Metrics() }

func (m *memoryCarrier) close() {
	for pd := range m.domains {
		m.DomainRemoved(pd)
	}
}

func (m *memoryCarrier) equip(q *streamQP, c queue.Config) {
	e := local.New(&m.engine, c)
	f := &memoryFlow{carrier: m, engine: e, qp: &q.qp, done: queue.Completion{CQ: c.SendCQ}}
	f.rnrTimer.fire, f.ucTimer.fire = f.rnrTimeout, f.ucTimeout
	q.engine, q.flow = e, f
	if !m.engine.NIC { // where every work request takes a place in its queue
		q.performs = f
	}
}

// domain returns the domain that tells peers of a protection domain's regions.
func (m *memoryCarrier) domain(pd memory.PD) (Domain, error) {
	if d := m.domains[pd]; d != nil {
		return d, nil
	}
	d, err := m.net.NewDomain()
	if err == nil {
		m.domains[pd] = d
	}
	return d, err
}

// Allocate makes a region's memory a segment, if peers may use the region. If the system has no
// room for one, peers go through this process.
func (m *memoryCarrier) Allocate(pd memory.PD, size int, access verbs.Access) (buf []byte, unmap func(), segment uint64) {
	if access&forPeers == 0 || access&verbs.HugePages != 0 {
		return nil, nil, 0
	}
	if _, err := m.domain(pd); err != nil {
		return nil, nil, 0
	}
	buf, unmap, segment, err := m.net.Allocate(size, access&(verbs.RemoteWrite|verbs.RemoteAtomic) != 0)
	if err != nil {
		return nil, nil, 0
	}
	return buf, unmap, segment
}

// forPeers are the rights that peers can have.
const forPeers = verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic

func entryOf(r *memory.Region) local.Entry {
	at, n := r.HostMemory()
	return local.Entry{Key: uint32(r.Key()), Access: uint32(r.Access()), Segment: r.Segment(), Base: r.Addr(), Length: uint64(n), Memory: at}
}

// RegionAdded tells peers of a region that they may use.
func (m *memoryCarrier) RegionAdded(r *memory.Region) {
	if r.Access()&forPeers == 0 {
		return
	}
	if d, err := m.domain(r.Domain()); err == nil {
		d.Publish(entryOf(r))
	}
}

// RegionRemoved withdraws it. SENDs may have named it, whatever its rights.
func (m *memoryCarrier) RegionRemoved(r *memory.Region, gone bool) {
	for _, c := range m.dev.established {
		if p := c.qp.flow.(*memoryFlow).peer; p != nil && !m.dev.closed { // links were closed with the device
			p.Revoke()
		}
	}
	if d := m.domains[r.Domain()]; d != nil && (r.Access()&forPeers != 0 || r.Segment() != 0) {
		d.Withdraw(entryOf(r), gone)
	}
}

// limitDrain limits the time to tell a peer why its request was refused: it may not look.
func (f *memoryFlow) limitDrain() {
	if c := f.c; f.engine.State() == verbs.StateError && !f.drains {
		f.drains = true
		c.dev.timers.set(&c.timer, c.dev.passTime()+endTime)
	}
}

// workers returns the peers that are at work.
func (m *memoryCarrier) workers() map[Worker]uint32 {
	var all map[Worker]uint32
	add := func(w Worker) {
		if n := w.Work(); n%2 == 1 {
			if all == nil {
				all = make(map[Worker]uint32)
			}
			all[w] = n
		}
	}
	for _, c := range m.dev.established {
		add(c.link.(Worker))
	}
	m.net.Leaving(add)
	return all
}

// DomainRemoved forgets a protection domain.
func (m *memoryCarrier) DomainRemoved(pd memory.PD) {
	if d := m.domains[pd]; d != nil {
		delete(m.domains, pd)
		d.Close()
	}
}

// memoryFlow is a queue pair's part of the memory.
type memoryFlow struct {
	carrier  *memoryCarrier
	engine   *local.QP
	qp       *qp
	c        *conn
	link     MemoryLink
	peer     *local.Peer
	done     queue.Completion // of what was performed last
	drains   bool             // the connection's bound limits how long a refusal waits for room
	endedAt  uint             // the pass that found the peer gone; 0: it is there
	rnrTimer timer            // fails the peer's message that waits for a receive
	ucTimer  timer            // UC: drops what waits for room
}

func (f *memoryFlow) begin(c *conn, p rdmap.Params) bool {
	d, err := f.carrier.domain(f.engine.PD)
	if err != nil {
		return false
	}
	link := c.link.(MemoryLink)
	peer, err := link.Join(d)
	if err != nil || !f.engine.Begin(peer, p.IRD, p.ORD) {
		return false
	}
	f.c, f.link, f.peer, f.drains, f.endedAt = c, link, peer, false, 0
	f.again() // it may have done something before
	return true
}

func (f *memoryFlow) prompt() bool                  { return true }
func (f *memoryFlow) draining() bool                { return f.drains }
func (f *memoryFlow) first(rdmap.Params) clock.Time { return f.check() }

// check returns when to look again whether the peer has ended, and its last message still waits for a receive.
func (f *memoryFlow) check() clock.Time {
	if f.c.link.Ended() {
		return checkTime
	}
	return restTime
}

func (f *memoryFlow) detach() {
	f.carrier.dev.timers.stop(&f.rnrTimer)
	f.carrier.dev.timers.stop(&f.ucTimer)
	f.engine.Part()
	f.c, f.link, f.peer = nil, nil, nil
}

// watch does nothing: the network reports a link when its peer did something.
func (f *memoryFlow) watch() {}

// resumed receives what waited. The next message may wait as well, for a time of its own.
func (f *memoryFlow) resumed() {
	f.carrier.dev.timers.stop(&f.rnrTimer)
	f.receive()
}

// startRNRTimer bounds how long a message waits for a receive: by the sender's retries and this side's timer.
func (f *memoryFlow) startRNRTimer() {
	retries, ok := f.engine.Patience()
	if !ok || f.rnrTimer.index != 0 {
		return
	}
	d := f.carrier.dev
	d.timers.set(&f.rnrTimer, d.passTime()+clock.Time(retries)*clock.Time(ib.RNRTimer(f.engine.Attr().MinRNRTimer).Duration()))
	d.wakeForTimer()
}

// rnrTimeout fails it.
func (f *memoryFlow) rnrTimeout() {
	f.engine.Deny()
	f.carrier.dev.addReady(f.c)
}

// startUCTimer bounds how long messages of UC wait for room. some says that one has found room.
func (f *memoryFlow) startUCTimer(some bool) {
	d := f.carrier.dev
	if f.engine.Type != verbs.UC {
		return
	}
	d.touch(f.qp)
	d.mu.counted = true // one may have been dropped
	switch held := f.engine.Held(); {
	case !held:
		d.timers.stop(&f.ucTimer)
	case some || f.ucTimer.index == 0:
		d.timers.set(&f.ucTimer, d.passTime()+datagramTimeout)
		d.wakeForTimer()
	}
}

// ucTimeout drops them.
func (f *memoryFlow) ucTimeout() {
	f.engine.Stall()
	f.carrier.dev.mu.counted = true
	f.carrier.dev.deliver()
}

// receive handles what the peer has sent and done.
func (f *memoryFlow) receive() int {
	c, d := f.c, f.carrier.dev
	d.touch(&c.qp.qp)
	d.mu.counted = true
	ended := f.link.Ended()
	if ended {
		f.engine.DropResponses()
		if soon := d.passTime() + checkTime; c.timer.at > soon && !f.drains {
			d.timers.set(&c.timer, soon)
		}
	}
	count, moved := f.engine.Receive(memoryBudget)
	f.startRNRTimer()
	d.moved(moved)
	f.ring()
	ended = ended && !f.engine.Paused() && !f.engine.Flushing()
	if ended && count == 0 && !f.peer.Arrived() && f.othersSeen() {
		f.lost()
		return 1
	}
	if ended || f.engine.More() {
		f.again() // nothing else will report the link
	}
	if f.engine.Due() {
		d.addReady(c)
	}
	return count
}

// othersSeen reports whether the device has looked at all other links since it found the peer gone. A process that
// ends leaves requests done on many links: their completions come before the status of a request that it has not done,
// as on a NIC, which goes on trying for a while. A pass takes the links in no order, so that takes a whole one.
func (f *memoryFlow) othersSeen() bool {
	now := f.carrier.dev.pass.count
	if f.endedAt == 0 {
		f.endedAt = now
	}
	return now-f.endedAt >= 2
}

// lost ends the connection with a peer that has gone. A connection manager reports that on its side.
// Queue pairs that were connected by number find out as on InfiniBand: what they send fails.
func (f *memoryFlow) lost() {
	managed := f.c.events != nil
	switch {
	case !managed && f.engine.DropPeer():
		f.c.end(false)
	case managed && f.peer.Left():
		f.c.lost(io.EOF)
	default:
		f.c.lost(errGone)
	}
}

// again has the next pass look at the link, and makes sure that there is one: the program may never
// poll again.
func (f *memoryFlow) again() {
	f.link.Again()
	f.carrier.dev.wakeBy(f.carrier.dev.passTime())
}

// ring wakes the peer, if it sleeps.
func (f *memoryFlow) ring() {
	if f.engine.Rings() {
		f.link.Ring()
	}
}

// perform carries out a work request at once.
func (f *memoryFlow) perform(wr *verbs.SendWR) bool {
	d := f.carrier.dev
	if wr.Op >= verbs.OpSend && wr.Op <= verbs.OpSendInv {
		return f.send(wr)
	}
	n, ok := f.engine.Perform(wr, &f.done.WC)
	if !ok {
		return false
	}
	d.newTime()
	d.touch(f.qp)
	d.mu.counted = true
	d.moved(n)
	if f.engine.Signals(wr) {
		d.deliver() // what completed before
		d.complete(&f.done)
	}
	return true
}

// send sends a short SEND at once.
func (f *memoryFlow) send(wr *verbs.SendWR) bool {
	n, ok := f.engine.SendShort(wr)
	if !ok {
		return false
	}
	d := f.carrier.dev
	d.newTime()
	d.touch(f.qp)
	d.mu.counted = true
	d.moved(n)
	f.ring()
	if f.engine.More() {
		f.again()
	}
	d.deliver() // what has completed before
	return true
}

// transmit does what there is to do.
func (f *memoryFlow) transmit() {
	c, d := f.c, f.carrier.dev
	for !d.sends.over {
		n := f.engine.Advance(memoryBudget)
		if n > 0 {
			d.touch(&c.qp.qp)
			d.mu.counted = true
			d.moved(n)
		}
		f.ring()
		if f.engine.Ending() {
			c.end(false)
			return
		}
		if n < memoryBudget {
			f.limitDrain()
			f.startUCTimer(n > 0)
			if f.engine.More() { // a request waited for room for its answer
				f.again()
			}
			return
		}
		now := d.now()
		if d.sends.start == 0 {
			d.sends.start = now
		}
		d.sends.sent(n, streamBudgetBytes, now)
	}
	d.addReady(c)
}
