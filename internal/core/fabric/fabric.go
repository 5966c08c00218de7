// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/sm"
	"github.com/ramjet-rdma/ramjet/internal/engine/sma"
	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// turn is how many packets the network moves before the manager's turn, and turns how often both have
// theirs under one hold of the lock.
const (
	runPackets = 256
	maxRuns    = 4
)

const (
	// laneBuffer is a lane's receive buffer in blocks of 64 bytes, as large as credits count.
	laneBuffer = 2048
	// sendQueue is how many packets wait at a lane of an adapter: more than programs have in flight to
	// one peer, so that a port is full only if several peers are slow.
	sendQueue = 512
)

// Options are the options of New; nil stands for the zero value.
type Options struct {
	Seed uint64 // of errors on cables
	// NoManager leaves the subnet without the built-in manager.
	NoManager bool
	Manager   ManagerOptions
	// FirstAddr is how many IP addresses are left to adapters of other fabrics.
	FirstAddr int
	// Record, unless it is nil, is given every packet that a port sends, LRH to VCRC, as it is on the cable: time, name
	// of the node, number of the port. The frame is only valid during the call, which is made under the fabric's lock.
	Record func(at time.Time, node string, port int, frame []byte)
	// Simulation runs the fabric in a time of its own; nil: the system's.
	Simulation *Simulation
}

// Simulation is what a fabric in virtual time is given.
type Simulation struct {
	NewWaiter func() Waiter // for the fabric's goroutine first, and then for each driver
	Record    link.Recorder // called with each frame that is sent, and the fabric's lock held
}

// Fabric is a running fabric.
type Fabric struct {
	start  time.Time
	waiter Waiter // of the goroutine
	done   chan struct{}
	sim    *Simulation // nil: the time is the system's

	mu           sync.Mutex
	net          *link.Net
	members      []*member
	byName       map[string]*member // by the name in the topology, and by description where that is unique
	memberOf     map[*link.Node]*member
	errors       map[*link.Cable]float64 // error rates as they were set
	remotes      map[*link.Port]*Remote
	woken        []link.Wake
	waitDeadline clock.Time   // the waiter's deadline; 0: none
	stallCheck   clock.Time   // when attachments are looked at that take nothing; 0: none has anything
	portChanges  []portChange // that the goroutine tells
	manager      *manager
	leaves       leaves
	closed       bool
}

// member is a node of the fabric.
type member struct {
	name         string
	node         *link.Node
	state        *node.Node
	agent        *sma.Agent
	addr         address
	attachments  [maxAttachments]*Attachment // of programs at an adapter
	groups       map[groupKey]*group         // that they are in
	pendingJoins []pendingJoin               // to be, without an answer, in their order
	off          bool                        // switched off

	dropped uint64 // packets for attachments that took none
}

// ErrClosed is what a closed fabric returns.
var ErrClosed = errors.New("fabric: closed")

// New starts a fabric with the nodes and cables of a topology.
func New(t *topology.Topology, o *Options) (*Fabric, error) {
	if o == nil {
		o = &Options{}
	}
	f := &Fabric{start: time.Now(), sim: o.Simulation, done: make(chan struct{}), byName: make(map[string]*member),
		memberOf: make(map[*link.Node]*member), errors: make(map[*link.Cable]float64)}
	f.leaves.init()
	f.waiter = f.NewWaiter()
	f.net = link.New(link.Config{Seed: o.Seed, Paced: f.sim != nil, Buffer: laneBuffer, SendQueue: sendQueue})
	if f.sim != nil {
		f.net.Record(f.sim.Record)
	}
	if err := f.build(t, o.FirstAddr); err != nil {
		return nil, err
	}
	if o.Record != nil {
		f.net.Record(func(now clock.Time, from *link.Port, frame []byte) {
			if len(frame) != ib.FlowControlLen {
				o.Record(f.start.Add(time.Duration(now)), f.memberOf[from.Node()].name, from.Num(), frame)
			}
		})
	}
	if !o.NoManager {
		var err error
		if f.manager, err = newManager(f, &o.Manager); err != nil {
			return nil, err
		}
	}
	go f.loop()
	return f, nil
}

// Close ends the fabric and what programs have of it.
func (f *Fabric) Close() {
	f.mu.Lock()
	closed := f.closed
	f.closed = true
	for _, m := range f.members {
		for _, s := range m.attachments {
			if s != nil {
				s.wake()
			}
		}
	}
	for _, r := range f.remotes {
		r.line.Wake()
	}
	f.mu.Unlock()
	if !closed {
		f.waiter.Close()
	}
	<-f.done
}

// NewWaiter returns a waiter in the fabric's time, for a driver.
func (f *Fabric) NewWaiter() Waiter {
	if f.sim != nil {
		return f.sim.NewWaiter()
	}
	return NewWaiter()
}

// now returns the time since the fabric began.
func (f *Fabric) now() clock.Time { return clock.Time(time.Since(f.start)) + 1 }

// step lets the network move what can move, hands over what arrives, and has the manager answer. The lock
// is held. What is left when the turns are over is for the goroutine.
func (f *Fabric) step() {
	f.sendLeaves(f.now())
	more := true
	for range maxRuns {
		if !more {
			break
		}
		now := f.now()
		more = f.net.Run(now, runPackets)
		f.woken = f.net.Woken(f.woken[:0])
		for _, w := range f.woken {
			f.handle(w)
		}
		if f.manager != nil && f.manager.run(now) {
			more = true
		}
		if d := f.net.Deadline(); d != 0 && d <= now {
			more = true
		}
	}
	f.checkStalls()
	if due := f.deadline(); due != f.waitDeadline {
		f.waitDeadline = due
		var t time.Time
		if due != 0 {
			t = f.start.Add(time.Duration(due - 1))
		}
		f.waiter.SetDeadline(t)
	}
	if more || len(f.portChanges) > 0 || f.manager != nil && len(f.manager.events) > 0 {
		f.wake()
	}
}

// deadline returns when there is something to do; 0: never.
func (f *Fabric) deadline() clock.Time {
	d := f.net.Deadline()
	if f.stallCheck != 0 && (d == 0 || f.stallCheck < d) {
		d = f.stallCheck
	}
	if l := f.leaves.due; l != 0 && (d == 0 || l < d) {
		d = l
	}
	if f.manager != nil {
		if m := f.manager.deadline(); m != 0 && (d == 0 || m < d) {
			d = m
		}
	}
	return d
}

func (f *Fabric) wake() { f.waiter.Wake() }

// loop is the fabric's goroutine: it does what is due, and what others' turns have left.
func (f *Fabric) loop() {
	defer close(f.done)
	for ok := true; ok; ok = f.waiter.Wait(func() bool { return false }) == nil {
		f.mu.Lock()
		if f.closed {
			f.mu.Unlock()
			return
		}
		f.step()
		told := f.portChanges
		f.portChanges = nil
		events, hear := f.takeEvents()
		f.mu.Unlock()
		for _, n := range told {
			n.attachment.changed(n.port, n.events...)
		}
		for _, e := range events {
			hear(e)
		}
	}
}

// takeEvents returns what the manager has told since, and who wants to know.
func (f *Fabric) takeEvents() ([]sm.Event, func(sm.Event)) {
	if f.manager == nil {
		return nil, nil
	}
	e := f.manager.events
	f.manager.events = nil
	return e, f.manager.event
}

// handle does what a port's event asks for.
func (f *Fabric) handle(w link.Wake) {
	m := f.memberOf[w.Port.Node()]
	if m == nil {
		return
	}
	if w.Events&link.Arrived != 0 {
		m.deliver(f, w.Port)
	}
	if w.Events&link.Room != 0 {
		m.resume(f)
	}
	if w.Events&(link.Frames|link.Changed) != 0 {
		if r := f.remotes[w.Port]; r != nil {
			r.line.Wake()
		}
	}
	if w.Events&link.Changed != 0 {
		m.publish(f, w.Port.Num())
	}
	if w.Events&link.Datagrams != 0 && f.manager != nil {
		f.manager.receive(m)
	}
}
