// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"errors"
	"slices"
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

	engine   ibta.Device
	lane     lane    // the first
	lanes    []*lane // all, as in softdev.Device
	lastLane int     // that got a queue pair
	groups   map[group][]*qp
	agents   agents
}

const (
	// budgetBytes is how much a device sends in a pass: about 100 µs of copying. It receives as much as its port has
	// buffers for.
	budgetBytes = 256 << 10
	// drainPasses limits the passes in which a device sends the rest before it is closed.
	drainPasses = 16
)

// New makes a device of a port and starts its goroutine. name is the name by which the program opened it.
func New(name, kind string, guid uint64, port Port) *Device {
	return NewControlled(name, kind, guid, []Port{port}, nil)
}

// NewControlled is New with a lane for each port, and the congestion control of queue pairs that choose none; nil: the
// default. The ports are of one address, and differ in their prefixes ([Sharer]). Datagrams go through the first.
func NewControlled(name, kind string, guid uint64, ports []Port, control *congestion.Choice) *Device {
	port := ports[0]
	lim := port.Limits()
	lim.Window /= len(ports) // the bytes in flight to each host, from all lanes
	d := &Device{port: port, groups: make(map[group][]*qp)}
	d.engine = ibta.Device{Persist: d.persist, Limits: lim, Congestion: control,
		LineRate: d.lineRate}
	if n, ok := port.(LossCounter); ok {
		d.engine.Network, d.losses = n, n
	}
	var engines []softdev.Engine
	for i, p := range ports {
		l := &d.lane
		if i > 0 {
			l = new(lane)
		}
		l.init(d, p)
		d.lanes = append(d.lanes, l)
		engines = append(engines, softdev.Engine{Transport: l, Outbox: &l.engine.Outbox})
	}
	d.Device.Init(d, port, &d.engine.Device, engines, attrOf(name, kind, guid))
	for i, l := range d.lanes {
		l.core = d.Lanes[i]
	}
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

// HoldReceives has messages find no receive, as if the program had posted none, or lets them find the posted ones. It
// is for simulations.
func (d *Device) HoldReceives(on bool) {
	d.Lock()
	defer d.Unlock()
	d.engine.Unready = on
}

// Counted returns the sums over all lanes.
func (d *Device) Counted() []metric.Metric {
	list := d.lane.counted.Metrics()
	for _, l := range d.lanes[1:] {
		for i, m := range l.counted.Metrics() {
			list[i].Value += m.Value
		}
	}
	return list
}

// Workers returns none: this process carries out its peers' requests.
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

// Load returns the work that the device's queue pairs have under way, for tests that look for work that was left
// behind.
func (d *Device) Load() Load {
	d.Lock()
	defer d.Unlock()
	var sum Load
	for _, l := range d.lanes {
		sum.Reorder += l.engine.ReorderBytes()
		sum.Flows += len(l.flows)
		for _, f := range l.flows {
			requests, reads := f.InFlight()
			sum.Requests += requests
			sum.Reads += reads
		}
	}
	return sum
}

// SendRest sends the packets that are queued, for a limited number of passes, and takes those that have come: a port
// that other devices share has packets for them, which would end with it. Among them are the messages that a connection
// manager here has just sent to peers at its own address.
func (d *Device) SendRest() {
	for _, l := range d.lanes {
		l.sendRest()
	}
}

func (l *lane) sendRest() {
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
	var errs []error
	for _, l := range slices.Backward(d.lanes) {
		errs = append(errs, l.port.Close())
	}
	return errors.Join(errs...)
}

func (d *Device) Free() error {
	clear(d.groups)
	for _, l := range d.lanes {
		l.free()
	}
	return nil
}
