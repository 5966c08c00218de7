// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Device is a verbs device: an engine and a port.
type Device struct {
	core
	port Port

	engine ibta.Device
	qps    map[verbs.QPN]*qp
	last   *qp // the one that the last packet was for
	groups map[verbs.GID][]*qp
	flows  map[verbs.GID]*ibta.Flow
	gsi    *gsi // nil: nobody has opened QP1

	schedule
	progress
}

// New makes a device of a port and starts its goroutine. name is what the program opened.
func New(name, kind string, guid uint64, port Port) *Device {
	lim := port.Limits()
	pattr, _ := port.Attr()
	d := &Device{
		port:   port,
		qps:    make(map[verbs.QPN]*qp),
		groups: make(map[verbs.GID][]*qp),
		flows:  make(map[verbs.GID]*ibta.Flow),
	}
	d.core = newCore(d)
	d.engine = ibta.Device{
		Memory:     d.memory,
		PKeys:      pKeys,
		Resolve:    d.resolve,
		Persist:    d.persist,
		Pace:       ibta.Pace{Limit: lim.Window / 2, Full: d.full},
		MTU:        pattr.ActiveMTU.Bytes(),
		MaxMsgSize: maxMessage,
	}
	d.attr = attrOf(name, kind, guid)
	d.attr.MaxAH, d.attr.MaxXRCD, d.attr.MaxMcastGroups, d.attr.MaxMcastQP = maxObjects, maxObjects, maxObjects, maxQP
	d.attr.LocalCAAckNs = 16 * time.Millisecond
	d.attr.Caps |= verbs.CapXRC | verbs.CapRNRNak | verbs.CapFlush | verbs.CapAtomicWrite | verbs.CapUDMulticast | verbs.CapUC | verbs.CapUD
	if memory.CanPersist {
		d.attr.Caps |= verbs.CapFlushPersistent
	}
	d.progress.init(d, lim)
	port.Follow(d.raisePort)
	go d.loop()
	return d
}

// QueryPort returns the attributes of port 1.
func (d *Device) QueryPort(port int) (verbs.PortAttr, error) {
	if err := checkPort(port); err != nil {
		return verbs.PortAttr{}, err
	}
	a, gids := d.port.Attr()
	a.GIDs, a.PKeys, a.MaxMsg = len(gids), len(pKeys), maxMessage
	return a, nil
}

// GIDs returns the GID table.
func (d *Device) GIDs(port int) ([]verbs.GIDEntry, error) {
	_, gids := d.port.Attr()
	return gids, checkPort(port)
}

// Counters returns what happened so far.
func (d *Device) Counters() []verbs.Counter {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.engine.Counters.List()
}

// resolve makes an address vector; the lock is held.
func (d *Device) resolve(attr verbs.AHAttr) (*ibta.Vector, error) {
	route, err := d.port.Resolve(&attr)
	if err != nil {
		return nil, err
	}
	d.port.Connect(route)
	return &ibta.Vector{Attr: attr, Flow: d.flow(attr.DGID), Route: route}, nil
}

// full says whether a peer's socket buffer is half full or more, as far as the port can tell.
func (d *Device) full(to *ibta.Vector) bool {
	used, ok := d.port.Backlog(to.Route)
	return ok && used >= 2*d.port.Limits().Window
}

// flow returns what is under way to one host.
func (d *Device) flow(to verbs.GID) *ibta.Flow {
	f := d.flows[to]
	if f == nil {
		f = ibta.NewFlow(d.port.Limits().Window)
		d.flows[to] = f
	}
	return f
}

// dropFlow forgets the flow of a path that a queue pair left.
func (d *Device) dropFlow(v *ibta.Vector) {
	if v != nil && v.Flow.Unused() && d.flows[v.Attr.DGID] == v.Flow {
		delete(d.flows, v.Attr.DGID)
		d.port.Disconnect(v.Route)
	}
}

// AllocPD allocates a protection domain.
func (d *Device) AllocPD() (verbs.PDDriver, error) {
	r, err := d.newDomain()
	if err != nil {
		return nil, err
	}
	return &pd{domain: r, dev: d}, nil
}

// Close ends the device and everything in it.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	for range lastTurns {
		if d.flushAcks(); !d.pending() {
			break
		}
		d.passNow = 0
		d.transmit(true)
	}
	d.closed = true
	gsi := d.gsi
	d.gsi = nil
	cqs := d.cqs
	d.cqs = make(map[*cq]struct{})
	d.watch.notify()
	d.mu.Unlock()
	closeQueues(cqs)
	if gsi != nil {
		gsi.end()
	}
	d.wakeLoop()
	err := d.port.Close()
	<-d.done
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.qps)
	d.last = nil
	clear(d.groups)
	clear(d.flows)
	d.schedule = schedule{}
	d.memory.Close()
	return err
}
