// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/sm"
	"github.com/ramjet-rdma/ramjet/internal/engine/sma"
	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Bounds of the work under one hold of the lock: at most maxRuns times, the network moves up to runPackets
// packets and then the manager runs.
const (
	runPackets = 256
	maxRuns    = 4
)

const (
	// laneBuffer is a lane's receive buffer in blocks of 64 bytes: the most that credits can count.
	laneBuffer = 2048
	// sendQueue is how many packets a lane of an adapter queues: more than a program has in flight to one
	// peer, so that a port is full only if several peers are slow.
	sendQueue = 512
)

// Options are optional parameters of New; nil means the zero value.
type Options struct {
	Seed uint64 // of the errors on cables
	// NoManager leaves the subnet without the built-in manager.
	NoManager bool
	Manager   ManagerOptions
	// FirstAddr is the index of the first adapter's IP address; lower ones belong to joined fabrics.
	FirstAddr int
	// Addr, unless nil, is the IP address of each adapter instead; the zero Addr: it has none.
	Addr *netip.Addr
	// MTU is the code of the ports' MTUCap; 0: the best.
	MTU uint8
	// Record, unless nil, is called with every packet that a port sends, LRH to VCRC, with the fabric's lock held.
	// The frame is only valid during the call.
	Record func(at time.Time, node string, port int, frame []byte)
	// Simulation runs the fabric in virtual time; nil: in real time.
	Simulation *Simulation
}

// Start starts a fabric and returns package infiniband's Fabric, whose adapters open as devices. That package sets it.
var Start func(t *topology.Topology, o *Options) (any, error)

// Fabric is a running fabric.
type Fabric struct {
	start  time.Time
	waiter Waiter // of loop
	done   chan struct{}
	sim    *Simulation // nil: there is none
	bubble *bubble     // nil: real time, or a simulation

	mu           sync.Mutex
	net          *link.Net
	members      []*member
	byName       map[string]*member // by the name in the topology, and by description where that is unique
	memberOf     map[*link.Node]*member
	errors       map[*link.Cable]float64 // error rates as set by SetErrorRate
	remotes      map[*link.Port]*Remote
	due          []*Remote // whose lines have frames to send
	woken        []link.Wake
	waitDeadline clock.Time // the waiter's deadline; 0: none
	stallCheck   clock.Time // when to look for stalled attachments; 0: none has packets waiting
	stalls       stalls
	portChanges  []portChange // for loop to report
	manager      *manager
	leaves       leaves
	losses       losses
	closed       bool
}

// member is a node of the fabric.
type member struct {
	name         string
	node         *link.Node
	state        *node.Node
	agent        *sma.Agent
	addr         address
	attachments  [maxAttachments]*Attachment // of an adapter, by slot
	groups       map[groupKey]*group         // multicast groups of its attachments
	pendingJoins []pendingJoin               // requests that are not answered yet, oldest first
	leaving      int                         // requests of leaves
	off          bool                        // powered off

	dropped uint64 // packets dropped because their attachment had stalled
}

// ErrClosed is returned by a closed fabric, and by a closed attachment or cable of it.
var ErrClosed = errors.New("fabric: closed")

// New starts a fabric with the nodes and cables of a topology.
func New(t *topology.Topology, o *Options) (*Fabric, error) {
	if o == nil {
		o = &Options{}
	}
	f := &Fabric{start: time.Now(), sim: o.Simulation, done: make(chan struct{}), byName: make(map[string]*member),
		memberOf: make(map[*link.Node]*member), errors: make(map[*link.Cable]float64)}
	if f.sim == nil && inBubble() {
		f.bubble = &bubble{place: 1 << 40}
	}
	f.leaves.init()
	f.waiter = f.NewWaiter()
	f.net = link.New(link.Config{Seed: o.Seed, Paced: f.sim != nil, Buffer: laneBuffer, SendQueue: sendQueue})
	if f.sim != nil {
		f.net.Record(f.sim.Record)
	}
	if err := f.build(t, o); err != nil {
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

// Close stops the fabric. Attachments and remote cables return ErrClosed from then on.
func (f *Fabric) Close() {
	f.mu.Lock()
	closed := f.closed
	f.closed = true
	for _, m := range f.members {
		for _, s := range m.attachments {
			if s != nil {
				s.setReady() // a device would not wait while packets wait that Receive does not return
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

// NewWaiter returns a waiter in the fabric's time, for a driver of an attachment.
func (f *Fabric) NewWaiter() Waiter {
	if f.sim != nil {
		return f.sim.NewWaiter()
	}
	if f.bubble != nil {
		return f.bubble.newWaiter()
	}
	return NewWaiter()
}

// now returns the time since the fabric started; it is never 0.
func (f *Fabric) now() clock.Time { return clock.Time(time.Since(f.start)) + 1 }

// step runs the network and the manager, with the lock held. Work that is left after maxRuns is for loop, and so are
// frames to send.
func (f *Fabric) step() {
	f.run()
	if len(f.due) > 0 {
		f.wake()
	}
}

// stepAndUnlock is step that gives up the lock, and sends the frames itself.
func (f *Fabric) stepAndUnlock() {
	f.run()
	due := len(f.due) > 0
	f.mu.Unlock()
	if due {
		f.transmit()
	}
}

// run runs the network and the manager, with the lock held.
func (f *Fabric) run() {
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
	f.publishLosses()
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

// deadline returns when step is due next; 0: never.
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

// loop is the fabric's goroutine: it runs step when due, and reports changes without the lock.
func (f *Fabric) loop() {
	defer close(f.done)
	for ok := true; ok; ok = f.waiter.Wait(func() bool { return false }) == nil {
		f.mu.Lock()
		if f.closed {
			f.mu.Unlock()
			return
		}
		f.run()
		changes := f.portChanges
		f.portChanges = nil
		events, handle := f.takeEvents()
		f.mu.Unlock()
		f.transmit()
		for _, c := range changes {
			c.attachment.changed(c.port, c.events...)
		}
		for _, e := range events {
			handle(e)
		}
	}
}

// takeEvents returns the manager's events since the last call, and their handler.
func (f *Fabric) takeEvents() ([]sm.Event, func(sm.Event)) {
	if f.manager == nil {
		return nil, nil
	}
	e := f.manager.events
	f.manager.events = nil
	return e, f.manager.event
}

// handle handles the events of a port.
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
	if r := f.remotes[w.Port]; r != nil {
		if w.Events&link.Changed != 0 {
			r.line.Wake()
		}
		if w.Events&link.Frames != 0 && !r.due {
			r.due = true
			f.due = append(f.due, r)
		}
	}
	if w.Events&link.Changed != 0 {
		m.publish(f, w.Port.Num())
	}
	if w.Events&link.Datagrams != 0 && f.manager != nil {
		f.manager.receive(m)
	}
}
