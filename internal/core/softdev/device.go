// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Device is a verbs device in software: objects and their keys, completion queues, events, timers, and who
// moves the data. A [fabric] has the rest.
type Device struct {
	driver.Unsupported
	driver.UnsupportedConnector
	attr     verbs.DeviceAttr
	port     PortState
	portLock sync.Mutex // of the port's state, taken outside the lane's mu

	lane       lane
	view       sync.Mutex // what observers see: see observe.go; taken inside the lane's mu
	memory     *memory.Table
	qps        map[verbs.QPN]queuePair // changed with the lane's mu and view
	objects    objectLists             // changed with the lane's mu and view
	latency    latencies               // changed with view
	nextPD     memory.PD
	nextCQ     uint32
	nextSRQ    uint32
	counts     counts
	event      func(verbs.EventType, int)
	failed     func(*verbs.Failure) // may be nil
	shared     *queue.Device        // what all engines have
	watch      watch
	fabric     fabric
	faulty     atomic.Pointer[faulty] // changed with the lane's mu; nil: no faults are to be injected
	nic        atomic.Bool            // as shared.NIC
	nextQP     uint64
	eventsOnly bool // programs that wait sleep at once
}

// init makes a device of a fabric. name is what the program opened.
func (d *Device) init(f fabric, port PortState, shared *queue.Device, attr verbs.DeviceAttr) {
	d.fabric, d.port, d.shared, d.attr = f, port, shared, attr
	d.memory = memory.NewTable(random32)
	if v, ok := port.(Virtual); ok {
		d.memory.AllocateAddrsWith(v.AllocAddr)
	}
	d.qps = make(map[verbs.QPN]queuePair)
	d.event = func(verbs.EventType, int) {}
	d.lane.init(d, f, port, &shared.Outbox)
	*shared = queue.Device{Memory: d.memory, Ports: make([]queue.Port, port.Ports()), MaxMsgSize: maxMessage}
	for i := range shared.Ports {
		info := port.Info(i + 1)
		shared.Ports[i].Num = i + 1
		shared.Ports[i].Update(info.ActiveMTU, info.PKeyTable)
		d.attr.MaxPKeys = max(d.attr.MaxPKeys, len(info.PKeyTable))
	}
	d.attr.Ports = len(shared.Ports)
}

// run starts the device's goroutine.
func (d *Device) run() {
	d.port.Follow(d.portChanged)
	go d.lane.loop()
}

// attrOf returns the attributes that all devices have in common.
func attrOf(name, kind string, transport verbs.Transport, guid uint64) verbs.DeviceAttr {
	return verbs.DeviceAttr{
		Name: name, Kind: kind, Transport: transport, Firmware: Version(), NodeGUID: guid, SysImageGUID: guid,
		MaxMRSize: math.MaxInt64, PageSizes: 1 << 12, MaxQP: maxQP, MaxQPWR: maxWR, MaxSGE: maxSGE, MaxSGERead: maxSGE, SinkAccess: verbs.LocalWrite,
		MaxInline: maxInline, MaxCQ: maxObjects, MaxCQE: maxCQE, MaxMR: maxObjects, MaxMW: maxObjects, MaxPD: maxObjects,
		MaxSRQ: maxObjects, MaxSRQWR: maxSRQWR, MaxSRQSGE: maxSGE,
		MaxQPRdAtomic: maxAtomics, MaxQPInitRdAtom: maxAtomics, Atomic: verbs.AtomicGlobal, MaxMsgSize: maxMessage,
		Caps: verbs.CapSRQ | verbs.CapMWType1 | verbs.CapMWType2B | verbs.CapSendInvalidate | verbs.CapSRQResize | verbs.CapResizeCQ |
			verbs.CapTimestamp | verbs.CapOnDemand | verbs.CapExclude | verbs.CapWatch,
	}
}

// random32 is a source of numbers that peers cannot guess.
func random32() uint32 {
	var b [4]byte
	crand.Read(b[:])
	return binary.LittleEndian.Uint32(b[:])
}

// Clock returns the time that completions carry.
func (d *Device) Clock() uint64 { return uint64(d.lane.now()) }

// QueryDevice returns attributes and limits.
func (d *Device) QueryDevice() verbs.DeviceAttr {
	a := d.attr
	if d.nic.Load() {
		strictAttr(&a)
	}
	return a
}

// PKeys returns the partition key table of a port.
func (d *Device) PKeys(port int) ([]verbs.PKey, error) {
	if err := d.checkPort(port); err != nil {
		return nil, err
	}
	return slices.Clone(d.port.Info(port).PKeyTable), nil
}

func (d *Device) checkPort(port int) error {
	if port < 1 || port > d.attr.Ports {
		return &verbs.OpError{Op: "query_port", Err: verbs.ErrInvalid, Detail: fmt.Sprintf("port %d: the device has ports 1 to %d", port, d.attr.Ports)}
	}
	return nil
}

// SetEventSink sets the function that gets events of the device.
func (d *Device) SetEventSink(f func(verbs.EventType, int)) {
	d.lane.mu.Lock()
	defer d.lane.mu.Unlock()
	d.event = f
}

// WatchAccesses has a follow the one-sided operations of peers.
func (d *Device) WatchAccesses(a driver.Accesses) {
	d.lane.mu.Lock()
	defer d.lane.mu.Unlock()
	d.memory.WatchAccesses(a)
}

// SetFailureSink sets the function that gets failures of queue pairs.
func (d *Device) SetFailureSink(f func(*verbs.Failure)) error {
	d.lane.mu.Lock()
	defer d.lane.mu.Unlock()
	d.failed = f
	return nil
}

// portChanged takes over the new state of a port, and reports events to the program. The path MTU bounds
// datagrams, and what queue pairs are connected with from now on; partitions count from the next
// packet on. The lock is not held.
//
// All of these events are unaffiliated (IBTA 11.6.3.3). Queue pairs stay as they are: on a port that is
// down packets are lost, and the retries of those who wait for an acknowledgement run out.
func (d *Device) portChanged(port int, events ...verbs.EventType) {
	d.portLock.Lock() // so that the last to ask is the last to note
	info := d.port.Info(port)
	d.lane.mu.Lock()
	d.shared.Ports[port-1].Update(info.ActiveMTU, info.PKeyTable)
	event := d.event
	d.lane.mu.Unlock()
	d.portLock.Unlock()
	for _, t := range events {
		event(t, port)
	}
}

// QueryPort returns the attributes of a port.
func (d *Device) QueryPort(port int) (verbs.PortAttr, error) {
	if err := d.checkPort(port); err != nil {
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
	if err := d.checkPort(port); err != nil {
		return nil, err
	}
	return slices.Clone(d.port.Info(port).GIDTable), nil
}

// Drain sends what can leave at once.
func (d *Device) Drain() {
	d.lane.mu.Lock()
	defer d.lane.mu.Unlock()
	d.fabric.drain()
}

// Close ends the device and everything in it.
func (d *Device) Close() error {
	d.lane.mu.Lock()
	if d.lane.closed {
		d.lane.mu.Unlock()
		return nil
	}
	d.fabric.drain()
	d.endFaults()
	d.lane.closed = true
	d.watch.notify()
	d.lane.mu.Unlock()
	for _, c := range d.objects.cqs.All() { // which stays as it is
		c.events.Completion() // wakes whoever waits
	}
	d.lane.wakeLoop()
	d.lane.dozes.Wait()
	err := d.fabric.shut()
	<-d.lane.sleep.done
	d.lane.mu.Lock()
	defer d.lane.mu.Unlock()
	d.view.Lock()
	clear(d.qps)
	d.objects = objectLists{}
	d.view.Unlock()
	d.lane.timers = nil
	d.memory.Close()
	return errors.Join(err, d.fabric.free())
}
