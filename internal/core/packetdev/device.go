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

	engine     ibta.Device
	engineLane ibta.Lane
	last       *qp // the one that the last packet was for
	groups     map[group][]*qp
	flows      map[ibta.PathKey]*ibta.Flow
	agents     agents

	impaired *impairment // nil: faults do nothing to packets

	schedule schedule
	progress progress
	counted  ibta.Counters // of the engine, as published to observers
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
	d := &Device{
		port:   port,
		groups: make(map[group][]*qp),
		flows:  make(map[ibta.PathKey]*ibta.Flow),
	}
	d.engine = ibta.Device{Resolve: d.resolve, Persist: d.persist, Limits: lim, Congestion: control,
		LineRate: d.lineRate}
	if n, ok := port.(LossCounter); ok {
		d.engine.Network, d.losses = n, n
	}
	d.Device.Init(d, port, &d.engine.Device, &d.engineLane.Outbox, attrOf(name, kind, guid))
	d.progress.init(d, lim)
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
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	d.engine.Unready = on
}

func (d *Device) Publish() { d.counted = d.engineLane.Counters }

func (d *Device) Counted() []metric.Metric {
	return d.counted.Metrics()
}

// Workers returns none: this process carries out what peers ask for.
func (d *Device) Workers() map[softdev.Worker]uint32 { return nil }

// findQP returns the queue pair of a number, or nil.
func (d *Device) findQP(n verbs.QPN) *qp {
	q, _ := d.QPs[n].(*qp)
	return q
}

// resolve makes an address vector; the lock is held.
func (d *Device) resolve(attr verbs.AHAttr) (*ibta.Vector, error) {
	path, err := d.port.Resolve(&attr)
	if err != nil {
		return nil, err
	}
	d.port.Connect(path)
	key := path.Key()
	return &ibta.Vector{Attr: attr, Flow: d.flow(key), Path: path, Key: key}, nil
}

// flow returns the flow to one host.
func (d *Device) flow(to ibta.PathKey) *ibta.Flow {
	f := d.flows[to]
	if f == nil {
		f = ibta.NewFlow(d.engine.Limits.Window, d.engine.HostControl())
		d.flows[to] = f
	}
	return f
}

// lineRate returns the bits per second of a port's link; 0: they are not known.
func (d *Device) lineRate(port int) float64 { return float64(d.port.Info(port).SpeedMbps) * 1e6 }

// dropFlow drops the flow of an address vector that a queue pair left.
func (d *Device) dropFlow(v *ibta.Vector) {
	if v != nil && v.Flow.Unused() && d.flows[v.Key] == v.Flow {
		delete(d.flows, v.Key)
		d.port.Disconnect(v.Path)
	}
}

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
	l := Load{Reorder: d.engineLane.ReorderBytes(), Flows: len(d.flows)}
	for _, f := range d.flows {
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
	for range drainPasses {
		if d.flushAcks(); !d.Pending() {
			break
		}
		d.Lane.NewTime()
		d.transmit(true)
	}
	for range drainPasses {
		if d.Receive() == 0 {
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
	d.last = nil
	clear(d.groups)
	clear(d.flows)
	d.schedule = schedule{}
	return nil
}
