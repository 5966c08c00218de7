// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/internal/memory"
	"github.com/ramjet-rdma/ramjet/internal/queue"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// core is what devices in software have, whatever their engine: the lock, memory,
// completion queues, and the knowledge of who moves the data.
type core struct {
	verbs.Unsupported
	attr  verbs.DeviceAttr
	start time.Time // of the clock

	mu     sync.Mutex
	memory *memory.Table
	cqs    map[*cq]struct{}
	nextPD memory.PD
	counts counts
	closed bool
	event  func(verbs.EventType, int)

	mover     mover
	leased    atomic.Bool // a program polls; the goroutine keeps away
	pollers   pollers
	heavy     atomic.Bool // much has been moved since the last poll
	waitUntil ibta.Time   // deadline of the goroutine's wait; zero: none
	waiting   bool
	unlease   chan struct{} // ends the goroutine's lease early
	done      chan struct{}
	watch
}

// mover is the part of a device that moves data. Its methods come with the device's lock
// held, but for wait and wake.
type mover interface {
	// pass moves data once and returns how much was received. polling says that a program
	// does this, which will come again.
	pass(polling bool) int
	// poll is a pass on behalf of a polling program, which found from empty; nil: it waits
	// for its memory. long says that it moved a lot of data.
	poll(from *queue.CQ) (n int, long bool)
	// flush sends what is held back for the next poll: the program is going to sleep.
	flush()
	// pending says whether something can be sent at once, and stalled whether something
	// waits for the network to take more.
	pending() bool
	stalled() bool
	// nextDue returns when the first timer is due, zero: none.
	nextDue() ibta.Time

	setDeadline(t time.Time)
	// wait blocks until something arrives, the deadline passes or wake is called; with
	// writable also until more can be sent. An error means that the device is closed.
	wait(writable bool) error
	wake()
}

func newCore(m mover) core {
	return core{
		mover:   m,
		start:   time.Now().Add(-time.Second), // no time of the engine is zero
		memory:  memory.NewTable(random32),
		cqs:     make(map[*cq]struct{}),
		event:   func(verbs.EventType, int) {},
		unlease: make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
}

// attrOf returns the attributes that all devices have in common.
func attrOf(name, kind string, guid uint64) verbs.DeviceAttr {
	return verbs.DeviceAttr{
		Name: name, Kind: kind, Firmware: Version(), NodeGUID: guid, SysImageGUID: guid, Ports: 1,
		MaxMRSize: math.MaxInt64, PageSizes: 1 << 12, MaxQP: maxQP, MaxQPWR: maxWR, MaxSGE: maxSGE, MaxSGERead: maxSGE,
		MaxInline: maxInline, MaxCQ: maxObjects, MaxCQE: maxCQE, MaxMR: maxObjects, MaxMW: maxObjects, MaxPD: maxObjects,
		MaxSRQ: maxObjects, MaxSRQWR: maxSRQWR, MaxSRQSGE: maxSGE,
		MaxQPRdAtomic: maxAtomics, MaxQPInitRdAtom: maxAtomics, MaxPKeys: 1, Atomic: verbs.AtomicGlobal, MaxMsgSize: maxMessage,
		Caps: verbs.CapSRQ | verbs.CapMWType1 | verbs.CapMWType2B | verbs.CapSendInvalidate | verbs.CapSRQResize | verbs.CapResizeCQ |
			verbs.CapTimestamp | verbs.CapOnDemand,
	}
}

// random32 is a source of numbers that peers cannot guess.
func random32() uint32 {
	var b [4]byte
	crand.Read(b[:])
	return binary.LittleEndian.Uint32(b[:])
}

// now returns the device's time.
func (d *core) now() ibta.Time { return ibta.Time(time.Since(d.start)) }

// Clock returns the time that completions carry.
func (d *core) Clock() uint64 { return uint64(d.now()) }

// QueryDevice returns attributes and limits.
func (d *core) QueryDevice() verbs.DeviceAttr { return d.attr }

// pKeys are the partition keys of a port.
var pKeys = []verbs.PKey{ib.DefaultPKey}

// PKeys returns the partition key table.
func (d *core) PKeys(port int) ([]verbs.PKey, error) { return pKeys, checkPort(port) }

func checkPort(port int) error {
	if port != 1 {
		return &verbs.OpError{Op: "query_port", Err: verbs.ErrInvalid, Detail: fmt.Sprintf("port %d: there is port 1 only", port)}
	}
	return nil
}

// SetEventSink says where events of the device go.
func (d *core) SetEventSink(f func(verbs.EventType, int)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.event = f
}

// raisePort tells the program of an event of port 1. The lock is not held.
func (d *core) raisePort(t verbs.EventType) {
	d.mu.Lock()
	event := d.event
	d.mu.Unlock()
	event(t, 1)
}

// poll moves data for a program that polls; the lock is held.
func (d *core) poll(from *queue.CQ) int {
	if d.closed {
		return 0
	}
	n, long := d.mover.poll(from)
	if long {
		d.polled(longPoll)
	}
	return n
}

// deliverOutbox hands completions to their queues and events to the program. overflowed is
// told of queue pairs that lost a completion.
func (d *core) deliverOutbox(out *queue.Outbox, now ibta.Time, overflowed func(verbs.QPN)) {
	for i := 0; i < len(out.Completions); i++ { // an overflow adds more
		c := &out.Completions[i]
		c.WC.Timestamp = uint64(now)
		qpn := c.WC.QPN
		if !c.CQ.Push(&c.WC, c.Solicited) {
			overflowed(qpn)
		}
	}
	for _, e := range out.Events {
		if o, ok := e.Owner.(eventSink); ok {
			o.raise(e.Type)
		}
	}
	out.Reset()
}

// eventSink is a queue pair or shared receive queue whose program hears of events.
type eventSink interface{ raise(verbs.EventType) }

// closeQueues wakes whoever waits for completions of a device that is closed. It is called
// without the lock, with what were the device's queues.
func closeQueues(cqs map[*cq]struct{}) {
	for c := range cqs {
		c.events.Completion()
	}
}
