// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Device is a verbs device over ports for packets: RoCEv2, RoCE v1, InfiniBand.
type Device struct {
	softdev.Device
	port   Port
	losses LossCounter // the port; nil: it counts none

	engine ibta.Device
	lane   lane
	groups map[group][]*qp
	agents agents

	impaired *impairment // nil: faults do nothing to packets
}

const (
	// budgetBytes is how much a device sends in a pass: about 100 µs of copying. It receives as much as its port has
	// buffers for.
	budgetBytes = 256 << 10
	// drainPasses limits the passes in which a device sends the rest before it is closed.
	drainPasses = 16
)

// New makes a device of a port and starts its goroutine. name is what the program opened.
func New(name, kind string, guid uint64, port Port) *Device {
	return NewControlled(name, kind, guid, port, nil)
}

// NewControlled is New with the congestion control of queue pairs that choose none; nil: the default.
func NewControlled(name, kind string, guid uint64, port Port, control *congestion.Choice) *Device {
	lim := port.Limits()
	d := &Device{port: port, groups: make(map[group][]*qp)}
	d.engine = ibta.Device{Persist: d.persist, Limits: lim, Congestion: control,
		LineRate: d.lineRate}
	if n, ok := port.(LossCounter); ok {
		d.engine.Network, d.losses = n, n
	}
	d.lane.init(d)
	d.Device.Init(d, port, &d.engine.Device, softdev.Engine{Transport: &d.lane, Outbox: &d.lane.engine.Outbox},
		attrOf(name, kind, guid))
	d.Start()
	return d
}

// attrOf returns the engine's abilities and limits.
func attrOf(name, kind string, guid uint64) verbs.DeviceAttr {
	a := softdev.AttrOf(name, kind, verbs.TransportIB, guid)
	a.MaxAH, a.MaxXRCD, a.MaxMcastGroups, a.MaxMcastQP = softdev.MaxObjects, softdev.MaxObjects, softdev.MaxObjects,
		softdev.MaxQP
	a.LocalCAAckDelay = 16 * time.Millisecond
	a.Caps |= verbs.CapXRC | verbs.CapRNRNak | verbs.CapFlush | verbs.CapAtomicWrite | verbs.CapUDMulticast |
		verbs.CapUC | verbs.CapUD
	if memory.CanPersist {
		a.Caps |= verbs.CapFlushPersistent
	}
	return a
}

// HoldReceives has messages find no receive, as if the program had posted none, or lets them find those that are
// posted. It is for simulations.
func (d *Device) HoldReceives(on bool) {
	d.Lock()
	defer d.Unlock()
	d.engine.Unready = on
}

func (d *Device) Publish() { d.lane.counted = d.lane.engine.Counters }

func (d *Device) Counted() []metric.Metric { return d.lane.counted.Metrics() }

// Workers returns none: this process carries out what peers ask for.
func (d *Device) Workers() map[softdev.Worker]uint32 { return nil }

// findQP returns the queue pair of a number, or nil.
func (d *Device) findQP(n verbs.QPN) *qp {
	q, _ := d.QPs[n].(*qp)
	return q
}

// lineRate returns the bits per second of a port's link; 0: they are not known.
func (d *Device) lineRate(port int) float64 { return float64(d.port.Info(port).SpeedMbps) * 1e6 }

// Load counts the resources of operations under way. Only flows are left once queue pairs are idle, and none of those
// without queue pairs and address handles.
type Load struct {
	Requests, Reads int // bytes that flows count
	Reorder         int // bytes of packets that came out of order
	Flows           int
}

// Load returns the work that the device's queue pairs have under way, for tests that look for what was left behind.
func (d *Device) Load() Load {
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	l := Load{Reorder: d.lane.engine.ReorderBytes(), Flows: len(d.lane.flows)}
	for _, f := range d.lane.flows {
		requests, reads := f.InFlight()
		l.Requests += requests
		l.Reads += reads
	}
	return l
}

// SendRest sends what is queued, for a limited number of passes, and takes what has come: a port that other
// devices share has packets for them, which would end with it. Among them is what a connection manager here
// has just told the peers at its own address.
func (d *Device) SendRest() {
	l := &d.lane
	for range drainPasses {
		if l.flushAcks(); !l.Pending() {
			break
		}
		l.core.NewTime()
		l.transmit(true)
	}
	for range drainPasses {
		if l.Receive() == 0 {
			break
		}
	}
}

func (d *Device) Shut() error {
	d.Lane.Mu.Lock()
	open := d.agents.byID
	d.agents = agents{}
	d.Lane.Mu.Unlock()
	for _, a := range open {
		a.end()
	}
	return d.port.Close()
}

func (d *Device) Free() error {
	clear(d.groups)
	d.lane.free()
	return nil
}
