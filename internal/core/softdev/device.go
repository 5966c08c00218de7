// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/lockorder"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Device is a verbs device in software: objects and their keys, completion queues, events, timers, and the choice of
// the thread that moves the data. A [Fabric] has the rest.
type Device struct {
	driver.Unsupported
	driver.UnsupportedConnector
	Attr     verbs.DeviceAttr
	port     PortState
	portLock lockorder.Mutex[lockorder.Port] // of the port's state

	Lane    Lane                            // the first, and mostly the only one
	Lanes   []*Lane                         // in the order in which their locks are taken
	start   time.Time                       // of the clock of all lanes
	Closed  atomic.Bool                     // changed with the device's lock
	view    lockorder.Mutex[lockorder.View] // what observers see: see observe.go
	memory  *memory.Table
	QPs     map[verbs.QPN]QueuePair // changed with the device's lock and view
	objects objectLists             // changed with the device's lock and view
	latency latencies               // changed with view
	nextPD  memory.PD
	nextCQ  uint32
	nextSRQ uint32
	Counts  counts
	event   func(verbs.EventType, int)
	failed  func(*verbs.Failure) // may be nil
	shared  *queue.Device        // what all engines have
	watch   watch
	fabric  Fabric
	faulty  atomic.Pointer[Faulty] // changed with the device's lock; nil: no faults are to be injected
	// cleared has the counts of faults that have ended; nil: there were none, or the present ones have them.
	cleared    atomic.Pointer[faults.Injector]
	faultLock  lockorder.Mutex[lockorder.Faults]
	nic        atomic.Bool // as shared.NIC
	nextQP     uint64
	eventsOnly bool // programs that wait sleep at once
}

// Init makes a device of a fabric, and its lanes of an engine each. shared is the part that all engines have in common.
func (d *Device) Init(f Fabric, port PortState, shared *queue.Device, engines []Engine, attr verbs.DeviceAttr) {
	d.fabric, d.port, d.shared, d.Attr = f, port, shared, attr
	d.memory = memory.NewTable(Random32)
	if v, ok := port.(Virtual); ok {
		d.memory.AllocateAddrsWith(v.AllocAddr)
	}
	d.QPs = make(map[verbs.QPN]QueuePair)
	d.event = func(verbs.EventType, int) {}
	d.start = time.Now().Add(-time.Second) // no time of the engine is zero
	for i, e := range engines {
		l := &d.Lane
		if i > 0 {
			l = new(Lane)
		}
		l.init(d, e, port)
		d.Lanes = append(d.Lanes, l)
	}
	if len(d.Lanes) > 1 {
		d.joinLanes()
	}
	*shared = queue.Device{Memory: d.memory, Ports: make([]queue.Port, port.Ports()), MaxMsgSize: maxMessage}
	for i := range shared.Ports {
		info := port.Info(i + 1)
		shared.Ports[i].Num = i + 1
		shared.Ports[i].Update(info.ActiveMTU, info.PKeyTable)
		d.Attr.MaxPKeys = max(d.Attr.MaxPKeys, len(info.PKeyTable))
	}
	d.Attr.Ports = len(shared.Ports)
}

// WorkInMemory says, before Init, that peers work in each other's memory: posts complete work requests without a pass,
// and a program that polls goes on, as nobody wakes it for the writes of peers. With eventsOnly, programs that wait for
// completions sleep at once.
func (d *Device) WorkInMemory(eventsOnly bool) {
	d.Lane.alone, d.Lane.spinner.endless, d.eventsOnly = true, true, eventsOnly
}

// Start starts the goroutines of the lanes.
func (d *Device) Start() {
	d.port.Follow(d.portChanged)
	for _, l := range d.Lanes {
		go l.loop()
	}
}

// AttrOf returns the attributes that all devices have in common.
func AttrOf(name, kind string, transport verbs.Transport, guid uint64) verbs.DeviceAttr {
	return verbs.DeviceAttr{
		Name: name, Kind: kind, Transport: transport, Firmware: Version(), NodeGUID: guid, SysImageGUID: guid,
		MaxMRSize: math.MaxInt64, PageSizes: 1 << 12, MaxQP: MaxQP, MaxQPWR: maxWR, MaxSGE: maxSGE, MaxSGERead: maxSGE,
		SinkAccess: verbs.LocalWrite, MaxInline: maxInline, MaxCQ: MaxObjects, MaxCQE: maxCQE, MaxMR: MaxObjects,
		MaxMW:  MaxObjects,
		MaxPD:  MaxObjects,
		MaxSRQ: MaxObjects, MaxSRQWR: maxSRQWR, MaxSRQSGE: maxSGE,
		MaxQPRdAtomic: maxAtomics, MaxQPInitRdAtomic: maxAtomics, Atomic: verbs.AtomicGlobal, MaxMsgSize: maxMessage,
		Caps: verbs.CapSRQ | verbs.CapMWType1 | verbs.CapMWType2B | verbs.CapSendInvalidate | verbs.CapSRQResize |
			verbs.CapResizeCQ |
			verbs.CapTimestamp | verbs.CapOnDemand | verbs.CapExclude | verbs.CapWatch,
	}
}

// Random32 is a source of numbers that peers cannot guess.
func Random32() uint32 {
	var b [4]byte
	crand.Read(b[:])
	return binary.LittleEndian.Uint32(b[:])
}

// Clock returns the time that completions carry.
func (d *Device) Clock() uint64 { return uint64(d.Lane.Now()) }

// QueryDevice returns attributes and limits.
func (d *Device) QueryDevice() verbs.DeviceAttr {
	a := d.Attr
	if d.nic.Load() {
		strictAttr(&a)
	}
	return a
}

// PKeys returns the partition key table of a port.
func (d *Device) PKeys(port int) ([]verbs.PKey, error) {
	if err := d.CheckPort(port); err != nil {
		return nil, err
	}
	return slices.Clone(d.port.Info(port).PKeyTable), nil
}

func (d *Device) CheckPort(port int) error {
	if port < 1 || port > d.Attr.Ports {
		return &verbs.OpError{Op: "query_port", Err: verbs.ErrInvalid,
			Detail: fmt.Sprintf("port %d: the device has ports 1 to %d", port, d.Attr.Ports)}
	}
	return nil
}

// SetEventSink sets the function that gets events of the device.
func (d *Device) SetEventSink(f func(verbs.EventType, int)) {
	d.Lock()
	defer d.Unlock()
	d.event = f
}

// WatchAccesses has a follow the one-sided operations of peers.
func (d *Device) WatchAccesses(a driver.Accesses) {
	d.Lock()
	defer d.Unlock()
	d.memory.WatchAccesses(a)
}

// SetFailureSink sets the function that gets failures of queue pairs.
func (d *Device) SetFailureSink(f func(*verbs.Failure)) error {
	d.Lock()
	defer d.Unlock()
	d.failed = f
	return nil
}

// portChanged takes over the new state of a port, and reports events to the program. The path MTU bounds datagrams, and
// the path MTU of queue pairs that are connected from now on; partitions count from the next packet on. The lock is not
// held.
//
// All of these events are unaffiliated (IBTA 11.6.3.3). Queue pairs stay as they are: on a port that is down packets
// are lost, and the retries of requesters that wait for an acknowledgement run out.
func (d *Device) portChanged(port int, events ...verbs.EventType) {
	d.portLock.Lock() // so that the last to ask is the last to note
	info := d.port.Info(port)
	d.Lock()
	d.shared.Ports[port-1].Update(info.ActiveMTU, info.PKeyTable)
	event := d.event
	d.Unlock()
	d.portLock.Unlock()
	for _, t := range events {
		event(t, port)
	}
}

// QueryPort returns the attributes of a port.
func (d *Device) QueryPort(port int) (verbs.PortAttr, error) {
	if err := d.CheckPort(port); err != nil {
		return verbs.PortAttr{}, err
	}
	info := d.port.Info(port)
	a := info.PortAttr
	a.PKeys, a.MaxMsg = len(info.PKeyTable), maxMessage
	if d.down() {
		a.State = verbs.PortDown
	}
	for _, g := range info.GIDTable {
		a.GIDs = max(a.GIDs, g.Index+1)
	}
	return a, nil
}

// GIDs returns the GID table of a port.
func (d *Device) GIDs(port int) ([]verbs.GIDEntry, error) {
	if err := d.CheckPort(port); err != nil {
		return nil, err
	}
	return slices.Clone(d.port.Info(port).GIDTable), nil
}

// Drain sends the packets that can leave at once.
func (d *Device) Drain() {
	d.Lock()
	defer d.Unlock()
	d.fabric.SendRest()
}

// Close ends the device and everything in it.
func (d *Device) Close() error {
	d.Lock()
	if d.Closed.Load() {
		d.Unlock()
		return nil
	}
	d.fabric.SendRest()
	if in := d.endFaults(); in != nil {
		in.Finish()
	}
	d.Closed.Store(true)
	d.watch.notify()
	d.Unlock()
	for _, c := range d.objects.cqs.All() { // which stays as it is
		c.events.Completion() // wakes whoever waits
	}
	for _, l := range d.Lanes {
		l.wakeLoop()
		l.sleepers.Wait()
		l.forgetOutside()
	}
	err := d.fabric.Shut()
	for _, l := range d.Lanes {
		<-l.sleep.done
	}
	d.Lock()
	defer d.Unlock()
	d.view.Lock()
	clear(d.QPs)
	d.objects = objectLists{}
	d.view.Unlock()
	for _, l := range d.Lanes {
		l.Timers = nil
	}
	d.memory.Close()
	return errors.Join(err, d.fabric.Free())
}
