// SPDX-License-Identifier: Apache-2.0

package streamdev

import (
	"io"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
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
	dev     *Device
	net     MemoryNetwork
	engine  local.Device
	counted local.Counters // of the engine, as published to observers
	domains map[memory.PD]Domain
	ud      *datagrams
}

// NewMemory creates a device of a network of processes that share memory, and starts its goroutines.
// name is the name by which the program opened it, and oneSided the text displayed about who carries out one-sided
// operations. With eventsOnly, programs that wait for completions sleep at once.
func NewMemory(name, kind string, guid uint64, oneSided string, eventsOnly bool, net MemoryNetwork) (*Device, error) {
	d := &Device{net: net}
	d.WorkInMemory(eventsOnly)
	m := &memoryCarrier{dev: d, net: net, domains: make(map[memory.PD]Domain)}
	m.engine.Resolve, m.engine.Persist = net.Resolve, m.persist
	m.ud = newDatagrams(d, net, &m.engine)
	d.carrier = m
	attr := softdev.AttrOf(name, kind, verbs.TransportIB, guid)
	attr.OneSided = oneSided
	attr.Caps &^= verbs.CapExclude | verbs.CapWatch // peers write to the memory by themselves
	attr.Caps |= verbs.CapRNRNak | verbs.CapUC | verbs.CapUD | verbs.CapUDMulticast | verbs.CapFlush | verbs.CapAtomicWrite
	if memory.CanPersist {
		attr.Caps |= verbs.CapFlushPersistent
	}
	attr.MaxAH, attr.MaxMcastGroups, attr.MaxMcastQP = softdev.MaxObjects, softdev.MaxObjects, softdev.MaxQP
	return d, d.start(attr)
}

func (m *memoryCarrier) bytes() bool              { return false }
func (m *memoryCarrier) slotBits() int            { return 6 }
func (m *memoryCarrier) shared() *queue.Device    { return &m.engine.Device }
func (m *memoryCarrier) patient() bool            { return true }
func (m *memoryCarrier) loop() (Link, error)      { return m.net.Loop() }
func (m *memoryCarrier) datagrams() datagramMaker { return m.ud }
func (m *memoryCarrier) scans() bool              { return false }
func (m *memoryCarrier) arm() bool                { return m.net.Arm() }
func (m *memoryCarrier) publish()                 { m.counted = m.engine.Counters }
func (m *memoryCarrier) metrics() []metric.Metric { return m.counted.Metrics() }

func (m *memoryCarrier) close() {
	for pd := range m.domains {
		m.DomainRemoved(pd)
	}
}

func (m *memoryCarrier) equip(q *streamQP, c queue.Config) {
	e := local.New(&m.engine, c)
	f := &memoryEndpoint{carrier: m, engine: e, qp: &q.QP, done: queue.Completion{CQ: c.SendCQ}}
	f.rnrTimer.Fire, f.ucTimer.Fire = f.rnrTimeout, f.ucTimeout
	q.engine, q.endpoint = e, f
	if !m.engine.NIC { // where every work request takes a place in its queue
		q.Performs = f
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
		if p := c.qp.endpoint.(*memoryEndpoint).peer; p != nil && !m.dev.Lane.Closed { // links were closed with the device
			p.Revoke()
		}
	}
	if d := m.domains[r.Domain()]; d != nil && (r.Access()&forPeers != 0 || r.Segment() != 0) {
		d.Withdraw(entryOf(r), gone)
	}
}

// limitDrain limits the time to tell a peer why its request was refused: it may not look.
func (ep *memoryEndpoint) limitDrain() {
	if c := ep.c; ep.engine.State() == verbs.StateError && !ep.drains {
		ep.drains = true
		c.dev.Lane.Timers.Set(&c.timer, c.dev.Lane.PassTime()+endTime)
	}
}

// workers returns the peers that are at work.
func (m *memoryCarrier) workers() map[softdev.Worker]uint32 {
	var all map[softdev.Worker]uint32
	add := func(w softdev.Worker) {
		if n := w.Work(); n%2 == 1 {
			if all == nil {
				all = make(map[softdev.Worker]uint32)
			}
			all[w] = n
		}
	}
	for _, c := range m.dev.established {
		add(c.link.(softdev.Worker))
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

// memoryEndpoint is a queue pair's part of the memory.
type memoryEndpoint struct {
	carrier  *memoryCarrier
	engine   *local.QP
	qp       *softdev.QP
	c        *conn
	link     MemoryLink
	peer     *local.Peer
	done     queue.Completion // of what was performed last
	drains   bool             // the connection's bound limits how long a refusal waits for room
	endedAt  uint             // the pass that found the peer gone; 0: it is there
	rnrTimer softdev.Timer    // fails the peer's message that waits for a receive
	ucTimer  softdev.Timer    // UC: drops what waits for room
}

func (ep *memoryEndpoint) begin(c *conn, p rdmap.Params) bool {
	d, err := ep.carrier.domain(ep.engine.PD)
	if err != nil {
		return false
	}
	link := c.link.(MemoryLink)
	peer, err := link.Join(d)
	if err != nil || !ep.engine.Begin(peer, p.IRD, p.ORD) {
		return false
	}
	ep.c, ep.link, ep.peer, ep.drains, ep.endedAt = c, link, peer, false, 0
	ep.again() // it may have done something before
	return true
}

func (ep *memoryEndpoint) prompt() bool                  { return true }
func (ep *memoryEndpoint) draining() bool                { return ep.drains }
func (ep *memoryEndpoint) first(rdmap.Params) clock.Time { return ep.check() }

// check returns when to look again whether the peer has ended, and its last message still waits for a receive.
func (ep *memoryEndpoint) check() clock.Time {
	if ep.c.link.Ended() {
		return checkTime
	}
	return restTime
}

func (ep *memoryEndpoint) detach() {
	ep.carrier.dev.Lane.Timers.Stop(&ep.rnrTimer)
	ep.carrier.dev.Lane.Timers.Stop(&ep.ucTimer)
	ep.engine.Part()
	ep.c, ep.link, ep.peer = nil, nil, nil
}

// watch does nothing: the network reports a link when its peer did something.
func (ep *memoryEndpoint) watch() {}

// resumed receives what waited. The next message may wait as well, for a time of its own.
func (ep *memoryEndpoint) resumed() {
	ep.carrier.dev.Lane.Timers.Stop(&ep.rnrTimer)
	ep.receive()
}

// startRNRTimer bounds how long a message waits for a receive: by the sender's retries and this side's timer.
func (ep *memoryEndpoint) startRNRTimer() {
	retries, ok := ep.engine.Patience()
	if !ok || ep.rnrTimer.IsSet() {
		return
	}
	d := ep.carrier.dev
	d.Lane.Timers.Set(&ep.rnrTimer, d.Lane.PassTime()+clock.Time(retries)*clock.Time(ib.RNRTimer(ep.engine.Attr().MinRNRTimer).Duration()))
	d.Lane.WakeForTimer()
}

// rnrTimeout fails it.
func (ep *memoryEndpoint) rnrTimeout() {
	ep.engine.Deny()
	ep.carrier.dev.addReady(ep.c)
}

// startUCTimer bounds how long messages of UC wait for room. some says that one has found room.
func (ep *memoryEndpoint) startUCTimer(some bool) {
	d := ep.carrier.dev
	if ep.engine.Type != verbs.UC {
		return
	}
	d.Lane.Touch(ep.qp)
	d.Lane.Mu.Counted = true // one may have been dropped
	switch held := ep.engine.Held(); {
	case !held:
		d.Lane.Timers.Stop(&ep.ucTimer)
	case some || !ep.ucTimer.IsSet():
		d.Lane.Timers.Set(&ep.ucTimer, d.Lane.PassTime()+datagramTimeout)
		d.Lane.WakeForTimer()
	}
}

// ucTimeout drops them.
func (ep *memoryEndpoint) ucTimeout() {
	ep.engine.Stall()
	ep.carrier.dev.Lane.Mu.Counted = true
	ep.carrier.dev.Lane.Deliver()
}

// receive handles what the peer has sent and done.
func (ep *memoryEndpoint) receive() int {
	c, d := ep.c, ep.carrier.dev
	d.Lane.Touch(&c.qp.QP)
	d.Lane.Mu.Counted = true
	ended := ep.link.Ended()
	if ended {
		ep.engine.DropResponses()
		if soon := d.Lane.PassTime() + checkTime; c.timer.At > soon && !ep.drains {
			d.Lane.Timers.Set(&c.timer, soon)
		}
	}
	count, moved := ep.engine.Receive(memoryBudget)
	ep.startRNRTimer()
	d.moved(moved)
	ep.ring()
	ended = ended && !ep.engine.Paused() && !ep.engine.Flushing()
	if ended && count == 0 && !ep.peer.Arrived() && ep.othersSeen() {
		ep.lost()
		return 1
	}
	if ended || ep.engine.More() {
		ep.again() // nothing else will report the link
	}
	if ep.engine.Due() {
		d.addReady(c)
	}
	return count
}

// othersSeen reports whether the device has looked at all other links since it found the peer gone. A process that
// ends leaves requests done on many links: their completions come before the status of a request that it has not done,
// as on a NIC, which goes on trying for a while. A pass takes the links in no order, so that takes a whole one.
func (ep *memoryEndpoint) othersSeen() bool {
	now := ep.carrier.dev.Lane.Passes()
	if ep.endedAt == 0 {
		ep.endedAt = now
	}
	return now-ep.endedAt >= 2
}

// lost ends the connection with a peer that has gone. A connection manager reports that on its side.
// Queue pairs that were connected by number find out as on InfiniBand: what they send fails.
func (ep *memoryEndpoint) lost() {
	managed := ep.c.events != nil
	switch {
	case !managed && ep.engine.DropPeer():
		ep.c.end(false)
	case managed && ep.peer.Left():
		ep.c.lost(io.EOF)
	default:
		ep.c.lost(errGone)
	}
}

// again has the next pass look at the link, and makes sure that there is one: the program may never
// poll again.
func (ep *memoryEndpoint) again() {
	ep.link.Again()
	ep.carrier.dev.Lane.WakeBy(ep.carrier.dev.Lane.PassTime())
}

// ring wakes the peer, if it sleeps.
func (ep *memoryEndpoint) ring() {
	if ep.engine.Rings() {
		ep.link.Ring()
	}
}

// Perform carries out a work request at once.
func (ep *memoryEndpoint) Perform(wr *verbs.SendWR) bool {
	d := ep.carrier.dev
	if wr.Op >= verbs.OpSend && wr.Op <= verbs.OpSendInv {
		return ep.send(wr)
	}
	n, ok := ep.engine.Perform(wr, &ep.done.WC)
	if !ok {
		return false
	}
	d.Lane.NewTime()
	d.Lane.Touch(ep.qp)
	d.Lane.Mu.Counted = true
	d.moved(n)
	if ep.engine.Signals(wr) {
		d.Lane.Deliver() // what completed before
		d.Lane.Complete(&ep.done)
	}
	return true
}

// send sends a short SEND at once.
func (ep *memoryEndpoint) send(wr *verbs.SendWR) bool {
	n, ok := ep.engine.SendShort(wr)
	if !ok {
		return false
	}
	d := ep.carrier.dev
	d.Lane.NewTime()
	d.Lane.Touch(ep.qp)
	d.Lane.Mu.Counted = true
	d.moved(n)
	ep.ring()
	if ep.engine.More() {
		ep.again()
	}
	d.Lane.Deliver() // what has completed before
	return true
}

// transmit does what there is to do.
func (ep *memoryEndpoint) transmit() {
	c, d := ep.c, ep.carrier.dev
	for !d.sends.Over {
		n := ep.engine.Advance(memoryBudget)
		if n > 0 {
			d.Lane.Touch(&c.qp.QP)
			d.Lane.Mu.Counted = true
			d.moved(n)
		}
		ep.ring()
		if ep.engine.Ending() {
			c.end(false)
			return
		}
		if n < memoryBudget {
			ep.limitDrain()
			ep.startUCTimer(n > 0)
			if ep.engine.More() { // a request waited for room for its answer
				ep.again()
			}
			return
		}
		now := d.Lane.Now()
		if d.sends.Start == 0 {
			d.sends.Start = now
		}
		d.sends.Sent(n, streamBudgetBytes, now)
	}
	d.addReady(c)
}
