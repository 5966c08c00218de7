// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Device holds the facts of a device that its queue pairs share, of every transport.
type Device struct {
	Memory     *memory.Table
	Ports      []Port
	MaxMsgSize uint32 // bytes of a message
	// NIC is that the device is as strict as a NIC and the specification: docs/nic.md. It is set before there are
	// queues.
	NIC bool
	// SinkAccess is the access that memory needs for the data of iWARP's READs, if more than LocalWrite.
	SinkAccess verbs.Access
	// Unready is that messages find no receive, whatever is posted: a fault of simulations.
	Unready bool
}

// NewSlots returns the counter of a work queue's places; nil: nothing does.
func (d *Device) NewSlots() *Slots {
	if !d.NIC {
		return nil
	}
	return new(Slots)
}

// Config holds the properties that a queue pair keeps for life.
type Config struct {
	Num       verbs.QPN
	Type      verbs.QPType
	Caps      verbs.QPCap
	PD        memory.PD
	SendCQ    *CQ        // nil: it sends nothing (XRC target)
	RecvCQ    *CQ        // nil: it has no receives of its own (XRC)
	Recv      *RecvQueue // the queue pair's own, or shared; nil: XRC
	Domain    *Domain    // XRC target
	SignalAll bool
	Owner     any // the device's own, for events
}

// Pair is the part of a queue pair that every transport has: its attributes and states, which work requests it takes,
// and how these complete. An engine embeds it in its queue pair and adds the protocol of the wire.
//
// The device calls Number, State, Attr, Query and PostRecv. The rest is for the engine.
type Pair struct {
	Config
	dev      *Device
	out      *Outbox // of the lane
	state    verbs.QPState
	draining bool // raise SQDrained
	attr     verbs.QPAttr
	port     *Port
	pkey     *verbs.PKey // row of the port's partition table
	taken    receive
	failure  *verbs.Failure // the first; nil: none
	slots    *Slots         // of the send queue; nil: nothing counts them
	silent   int32          // work requests that have completed without a completion, since the last one with
	sample   clock.Time     // when the next work request is posted; 0: it is not measured

	Counts metric.QPCounts
}

// NewPair returns the common part of a queue pair in the RESET state. Its completions and events go to an outbox.
func NewPair(d *Device, out *Outbox, c Config) Pair {
	p := Pair{Config: c, dev: d, out: out, slots: d.NewSlots()}
	if c.Recv != nil && !c.Recv.Shared {
		c.Recv.Slots = d.NewSlots()
	}
	p.setPort()
	return p
}

// setPort finds the port and the row of its partition table named by the attributes.
func (p *Pair) setPort() {
	p.port = &p.dev.Ports[max(p.attr.Port, 1)-1]
	p.pkey = &p.port.PKeys[p.attr.PKeyIndex]
}

// Port returns the port that the queue pair uses; before INIT, the first.
func (p *Pair) Port() *Port { return p.port }

// PKey returns the current partition key of the queue pair's packets.
func (p *Pair) PKey() verbs.PKey { return *p.pkey }

// Number returns the number of the queue pair.
func (p *Pair) Number() verbs.QPN { return p.Num }

// State returns the current state.
func (p *Pair) State() verbs.QPState { return p.state }

// SetState changes the state, after an error or for the connection manager.
func (p *Pair) SetState(s verbs.QPState) { p.state = s }

// Attr returns the attributes that were set.
func (p *Pair) Attr() *verbs.QPAttr { return &p.attr }

// Query returns the current attributes.
func (p *Pair) Query() verbs.QPAttr {
	a := p.attr
	a.State, a.CurState, a.Cap = p.state, p.state, p.Caps
	return a
}

// Stats sets the statistics that all queue pairs have.
func (p *Pair) Stats(s *verbs.QPStats) {
	s.QPN, s.Type, s.State, s.DestQPN, s.DestGID, s.DestLID, s.QPCounts = p.Num, p.Type, p.state, p.attr.DestQPN,
		p.attr.AH.DGID, p.attr.AH.DLID, p.Counts
	s.RecvQueue = 0
	if p.Recv != nil {
		s.RecvQueue = p.Recv.Len()
	}
}

// Reset drops the attributes, the receives, and the completions that were not polled, as RESET
// requires. The engine drops its send work requests.
func (p *Pair) Reset() {
	if p.taken.from != nil {
		p.taken.from.Slots.add(-1) // no completion will free it
		p.taken.from = nil
	}
	if p.SendCQ != nil {
		p.SendCQ.Forget(p.Num)
	}
	if p.RecvCQ != nil {
		p.RecvCQ.Forget(p.Num)
	}
	if p.Recv != nil && !p.Recv.Shared {
		p.Recv.Clear()
	}
	p.slots, p.silent = p.dev.NewSlots(), 0
	p.attr, p.state, p.draining, p.failure = verbs.QPAttr{}, verbs.StateReset, false, nil
	p.setPort()
}

// CheckDrained raises the event when the send queue has drained in SQD (IBTA 10.3.1.5): none of its work requests has
// begun.
func (p *Pair) CheckDrained(begun bool) {
	if !begun && p.draining && p.state == verbs.StateSQD {
		p.draining = false
		p.Raise(verbs.EventSQDrained)
	}
}

// Raise adds an event of the queue pair.
func (p *Pair) Raise(t verbs.EventType) { p.out.Raise(t, p.Owner) }

// MemoryWindow is a memory window of a device that runs an engine.
type MemoryWindow interface{ Window() *memory.Window }

// MemoryRegion is a memory region of a device that runs an engine.
type MemoryRegion interface{ Region() *memory.Region }
