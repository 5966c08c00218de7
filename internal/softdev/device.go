// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Limits of every device in software.
const (
	maxQP      = 1 << 16
	maxWR      = 1 << 14
	maxSGE     = 32
	maxInline  = 1 << 12
	maxCQE     = 1 << 22
	maxSRQWR   = 1 << 16
	maxObjects = 1 << 20
	maxAtomics = 128
	maxMessage = 1 << 31
)

// Device is a verbs device: an engine and a port.
type Device struct {
	verbs.Unsupported
	attr verbs.DeviceAttr
	port Port

	start time.Time // of the clock

	mu     sync.Mutex
	engine ibta.Device
	qps    map[verbs.QPN]*qp
	last   *qp // the one that the last packet was for
	groups map[verbs.GID][]*qp
	flows  map[verbs.GID]*ibta.Flow
	cqs    map[*cq]struct{}
	nextPD memory.PD
	closed bool
	event  func(verbs.EventType, int)
	gsi    *gsi // nil: nobody has opened QP1

	schedule
	progress
	watch
}

// New makes a device of a port and starts its goroutine. name is what the program opened.
func New(name, kind string, guid uint64, port Port) *Device {
	lim := port.Limits()
	pattr, _ := port.Attr()
	d := &Device{
		port:   port,
		start:  time.Now().Add(-time.Second), // no time of the engine is zero
		qps:    make(map[verbs.QPN]*qp),
		groups: make(map[verbs.GID][]*qp),
		flows:  make(map[verbs.GID]*ibta.Flow),
		cqs:    make(map[*cq]struct{}),
		event:  func(verbs.EventType, int) {},
	}
	d.engine = ibta.Device{
		Memory:     memory.NewTable(random32),
		PKeys:      []verbs.PKey{ib.DefaultPKey},
		Resolve:    d.resolve,
		MTU:        pattr.ActiveMTU.Bytes(),
		MaxMsgSize: maxMessage,
	}
	d.attr = verbs.DeviceAttr{
		Name: name, Kind: kind, Firmware: version(), NodeGUID: guid, SysImageGUID: guid, Ports: 1,
		MaxMRSize: math.MaxInt64, PageSizes: 1 << 12, MaxQP: maxQP, MaxQPWR: maxWR, MaxSGE: maxSGE, MaxSGERead: maxSGE,
		MaxInline: maxInline, MaxCQ: maxObjects, MaxCQE: maxCQE, MaxMR: maxObjects, MaxMW: maxObjects, MaxPD: maxObjects,
		MaxAH: maxObjects, MaxSRQ: maxObjects, MaxSRQWR: maxSRQWR, MaxSRQSGE: maxSGE, MaxXRCD: maxObjects,
		MaxQPRdAtomic: maxAtomics, MaxQPInitRdAtom: maxAtomics, MaxMcastGroups: maxObjects, MaxMcastQP: maxQP,
		MaxPKeys: 1, Atomic: verbs.AtomicGlobal, LocalCAAckNs: 16 * time.Millisecond, MaxMsgSize: maxMessage,
		Caps: verbs.CapSRQ | verbs.CapXRC | verbs.CapMWType1 | verbs.CapMWType2B | verbs.CapSendInvalidate | verbs.CapRNRNak |
			verbs.CapSRQResize | verbs.CapResizeCQ | verbs.CapFlush | verbs.CapAtomicWrite | verbs.CapTimestamp |
			verbs.CapOnDemand | verbs.CapUDMulticast | verbs.CapUC | verbs.CapUD,
	}
	d.progress.init(d, lim)
	go d.loop()
	return d
}

// random32 is a source of numbers that peers cannot guess.
func random32() uint32 {
	var b [4]byte
	crand.Read(b[:])
	return binary.LittleEndian.Uint32(b[:])
}

// now returns the device's time.
func (d *Device) now() ibta.Time { return ibta.Time(time.Since(d.start)) }

// Clock returns the time that completions carry.
func (d *Device) Clock() uint64 { return uint64(d.now()) }

// QueryDevice returns attributes and limits.
func (d *Device) QueryDevice() verbs.DeviceAttr { return d.attr }

func checkPort(port int) error {
	if port != 1 {
		return &verbs.OpError{Op: "query_port", Err: verbs.ErrInvalid, Detail: fmt.Sprintf("port %d: there is port 1 only", port)}
	}
	return nil
}

// QueryPort returns the attributes of port 1.
func (d *Device) QueryPort(port int) (verbs.PortAttr, error) {
	if err := checkPort(port); err != nil {
		return verbs.PortAttr{}, err
	}
	a, gids := d.port.Attr()
	a.GIDs, a.PKeys, a.MaxMsg = len(gids), len(d.engine.PKeys), maxMessage
	return a, nil
}

// GIDs returns the GID table.
func (d *Device) GIDs(port int) ([]verbs.GIDEntry, error) {
	_, gids := d.port.Attr()
	return gids, checkPort(port)
}

// PKeys returns the partition key table.
func (d *Device) PKeys(port int) ([]verbs.PKey, error) { return d.engine.PKeys, checkPort(port) }

// SetEventSink says where events of the device go.
func (d *Device) SetEventSink(f func(verbs.EventType, int)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.event = f
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
	return &ibta.Vector{Attr: attr, Flow: d.flow(attr.DGID), Route: route}, nil
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
	}
}

// AllocPD allocates a protection domain.
func (d *Device) AllocPD() (verbs.PDDriver, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	d.nextPD++
	return &pd{dev: d, num: d.nextPD}, nil
}

// Close ends the device and everything in it.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.flushAcks()
	d.closed = true
	gsi := d.gsi
	d.gsi = nil
	cqs := d.cqs
	d.cqs = make(map[*cq]struct{})
	d.watch.notify()
	d.mu.Unlock()
	for c := range cqs {
		c.events.Completion() // whoever waits sees that the device is closed
	}
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
	d.engine.Memory.Close()
	return err
}
