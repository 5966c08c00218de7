// SPDX-License-Identifier: Apache-2.0

package memorydev

import (
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// carrier carries data in memory that the processes share: engine local.
type carrier struct {
	dev     *streamdev.Device
	net     Network
	engine  local.Device
	lane    local.Lane
	counted local.Counters // of the lane, as published to observers
	domains map[memory.PD]Domain
	ud      *datagrams
}

// New creates a device of a network of processes that share memory, and starts its goroutines.
// name is the name by which the program opened it, and oneSided the text displayed about who carries out one-sided
// operations. With eventsOnly, programs that wait for completions sleep at once.
func New(name, kind string, guid uint64, oneSided string, eventsOnly bool, net Network) (*streamdev.Device, error) {
	attr := softdev.AttrOf(name, kind, verbs.TransportIB, guid)
	attr.OneSided = oneSided
	attr.Caps &^= verbs.CapExclude | verbs.CapWatch // peers write to the memory by themselves
	attr.Caps |= verbs.CapRNRNak | verbs.CapUC | verbs.CapUD | verbs.CapUDMulticast | verbs.CapFlush |
		verbs.CapAtomicWrite
	if memory.CanPersist {
		attr.Caps |= verbs.CapFlushPersistent
	}
	attr.MaxAH, attr.MaxMcastGroups, attr.MaxMcastQP = softdev.MaxObjects, softdev.MaxObjects, softdev.MaxQP
	return streamdev.NewWith(net, attr, func(d *streamdev.Device) streamdev.Carrier {
		d.WorkInMemory(eventsOnly)
		m := &carrier{dev: d, net: net, domains: make(map[memory.PD]Domain)}
		m.engine.Resolve, m.engine.Persist = net.Resolve, m.persist
		m.ud = newDatagrams(d, net, &m.engine, &m.lane)
		return m
	})
}

// slotBits is how many bits of a queue pair's number tell devices of one address apart.
const slotBits = 6

func (m *carrier) Bytes() bool                        { return false }
func (m *carrier) SlotBits() int                      { return slotBits }
func (m *carrier) Shared() *queue.Device              { return &m.engine.Device }
func (m *carrier) Outbox() *queue.Outbox              { return &m.lane.Outbox }
func (m *carrier) Patient() bool                      { return true }
func (m *carrier) Loop() (streamdev.Link, error)      { return m.net.Loop() }
func (m *carrier) Datagrams() streamdev.DatagramMaker { return m.ud }
func (m *carrier) Scans() bool                        { return false }
func (m *carrier) Arm() bool                          { return m.net.Arm() }
func (m *carrier) Publish()                           { m.counted = m.lane.Counters }
func (m *carrier) Metrics() []metric.Metric           { return m.counted.Metrics() }

func (m *carrier) Close() {
	for pd := range m.domains {
		m.DomainRemoved(pd)
	}
}

func (m *carrier) Equip(q *streamdev.QP, c queue.Config) {
	e := local.New(&m.engine, &m.lane, c)
	f := &endpoint{carrier: m, engine: e, qp: &q.QP, done: queue.Completion{CQ: c.SendCQ}}
	f.rnrTimer.Fire, f.ucTimer.Fire, f.goneTimer.Fire = f.rnrTimeout, f.ucTimeout, f.retriesEnded
	q.Engine, q.Endpoint = e, f
	if !m.engine.NIC { // where every work request takes a place in its queue
		q.Performs = f
	}
}

// domain returns the domain that tells peers of a protection domain's regions.
func (m *carrier) domain(pd memory.PD) (Domain, error) {
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
func (m *carrier) Allocate(pd memory.PD, size int, access verbs.Access) (buf []byte, unmap func(), segment uint64) {
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
	return local.Entry{Key: uint32(r.Key()), Access: uint32(r.Access()), Segment: r.Segment(), Base: r.Addr(),
		Length: uint64(n), Memory: at}
}

// RegionAdded tells peers of a region that they may use.
func (m *carrier) RegionAdded(r *memory.Region) {
	if r.Access()&forPeers == 0 {
		return
	}
	if d, err := m.domain(r.Domain()); err == nil {
		d.Publish(entryOf(r))
	}
}

// RegionRemoved withdraws it. SENDs may have named it, whatever its rights.
func (m *carrier) RegionRemoved(r *memory.Region, gone bool) {
	for _, c := range m.dev.Established() {
		p := c.QP().Endpoint.(*endpoint).peer
		if p != nil && !m.dev.Closed.Load() { // links were closed with the device
			p.Revoke()
		}
	}
	if d := m.domains[r.Domain()]; d != nil && (r.Access()&forPeers != 0 || r.Segment() != 0) {
		d.Withdraw(entryOf(r), gone)
	}
}

// Workers returns the peers that are at work.
func (m *carrier) Workers() map[softdev.Worker]uint32 {
	var all map[softdev.Worker]uint32
	add := func(w softdev.Worker) {
		if n := w.Work(); n%2 == 1 {
			if all == nil {
				all = make(map[softdev.Worker]uint32)
			}
			all[w] = n
		}
	}
	for _, c := range m.dev.Established() {
		add(c.Link().(softdev.Worker))
	}
	m.net.Leaving(add)
	return all
}

// DomainRemoved forgets a protection domain.
func (m *carrier) DomainRemoved(pd memory.PD) {
	if d := m.domains[pd]; d != nil {
		delete(m.domains, pd)
		d.Close()
	}
}
