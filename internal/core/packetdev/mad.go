// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/lockorder"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	wire "github.com/ramjet-rdma/ramjet/wire/mad"
)

const (
	// maxMADs limits the management datagrams that wait for an agent's Recv. Managers repeat messages that are dropped.
	maxMADs = 2048
	// maxAgents limits the agents of a device.
	maxAgents = 256
)

// agents are the management agents at QP0 and QP1 of a device, whose lock covers them. The class says
// which of the two is an agent's.
type agents struct {
	subnet bool // there is a QP0

	psn   ib.PSN     // of the next send; the first is random
	batch ibta.Batch // for sends

	byID     map[uint32]*agent    // by the upper half of their transaction ids
	byFilter map[madFilter]*agent // by the class and method that they registered for
	classes  map[wire.Class]int   // agents that registered for some method of a class
}

// madFilter selects the datagrams that an agent registers for.
type madFilter struct {
	port    int
	class   wire.Class
	version uint8 // 0: any
	method  wire.Method
}

// agent is a management agent. Datagrams wait in it under a lock of its own, so that receivers do not compete for the
// data path.
type agent struct {
	dev  *Device
	port int
	spec umad.Spec
	id   uint32

	mu      lockorder.Mutex[lockorder.Leaf]
	arrived queue.Ring[mad]
	closed  bool
	ready   chan struct{} // of capacity 1: check again

	claims claims
}

// mad is a received management datagram.
type mad struct {
	from umad.Path
	data [umad.Len]byte
}

// Connections connects queue pairs by datagrams on QP1.
func (d *Device) Connections(p driver.Protocols) error { return p.Datagrams(d) }

// OpenMAD registers an agent at QP1, or on fabrics with subnet management at QP0.
func (d *Device) OpenMAD(port int, qp verbs.QPN, spec umad.Spec) (driver.MADAgent, error) {
	const op = "open_mad"
	if err := d.CheckPort(port); err != nil {
		return nil, err
	}
	if qp == ib.QP0 && !d.subnetManaged() {
		return nil, &verbs.OpError{Op: op, Err: verbs.ErrNotSupported,
			Detail: "over Ethernet there is no subnet management, and no queue pair 0 (IBTA annex A17)"}
	}
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	s := &d.agents
	switch {
	case d.Closed.Load():
		return nil, verbs.ErrClosed
	case len(s.byID) == maxAgents:
		return nil, &verbs.OpError{Op: op, Err: verbs.ErrNoMemory,
			Detail: fmt.Sprintf("%d agents are open: close some", maxAgents)}
	}
	for _, m := range spec.Methods {
		if s.byFilter[madFilter{port, spec.Class, spec.Version, m}] != nil {
			return nil, &verbs.OpError{Op: op, Err: verbs.ErrBusy,
				Detail: fmt.Sprintf("class %#02x has an agent for method %#02x on this port: close it first",
					uint8(spec.Class), uint8(m))}
		}
	}
	a := &agent{dev: d, port: port, spec: spec, ready: make(chan struct{}, 1)}
	a.spec.Methods = append([]wire.Method(nil), spec.Methods...)
	d.register(a)
	return a, nil
}

// subnetManaged reports whether ports have a queue pair 0.
func (d *Device) subnetManaged() bool { return d.port.Info(1).Link == verbs.LinkInfiniBand }

// register gives an agent an unpredictable number with the device's prefix, and registers it.
func (d *Device) register(a *agent) {
	s := &d.agents
	if s.byID == nil {
		s.subnet = d.subnetManaged()
		s.byID, s.byFilter, s.classes = make(map[uint32]*agent), make(map[madFilter]*agent), make(map[wire.Class]int)
		s.psn = ib.PSN(softdev.Random32()) & ib.PSNMask
	}
	base, mask := d.lane.prefix(32)
	for a.id = 0; a.id == 0 || s.byID[a.id] != nil; {
		a.id = base | softdev.Random32()&^mask
	}
	s.byID[a.id] = a
	for _, m := range a.spec.Methods {
		s.byFilter[madFilter{a.port, a.spec.Class, a.spec.Version, m}] = a
	}
	if len(a.spec.Methods) == 0 {
		return
	}
	if s.classes[a.spec.Class]++; s.classes[a.spec.Class] == 1 {
		d.serve(a.spec.Class, true)
	}
}

// unregister undoes register.
func (d *Device) unregister(a *agent) {
	s := &d.agents
	delete(s.byID, a.id)
	for _, m := range a.spec.Methods {
		delete(s.byFilter, madFilter{a.port, a.spec.Class, a.spec.Version, m})
	}
	if len(a.spec.Methods) == 0 {
		return
	}
	if s.classes[a.spec.Class]--; s.classes[a.spec.Class] == 0 {
		delete(s.classes, a.spec.Class)
		d.serve(a.spec.Class, false)
	}
}

// find returns the agent that a datagram is for, or nil.
//
// A method with the response bit answers a request, whose transaction id it has (IBTA 13.4.2,
// 13.4.5): the upper half names the agent that sent the request. Any other datagram is for the
// agent that has registered for it.
func (s *agents) find(port int, h *wire.Header) *agent {
	if h.Method.Answers() {
		if a := s.byID[uint32(h.TID>>32)]; a != nil && a.spec.Class == h.Class && a.port == port {
			return a
		}
		return nil
	}
	if a := s.byFilter[madFilter{port, h.Class, h.ClassVersion, h.Method}]; a != nil {
		return a
	}
	return s.byFilter[madFilter{port, h.Class, 0, h.Method}]
}

// receiveOther handles a packet that is not for a queue pair; the lane's lock is held.
func (l *lane) receiveOther(p *ib.Packet, from *ibta.Arrival) {
	d, r := l.dev, ibta.DropNoDestination
	if l.isFirst() && (p.DestQP == ib.QP1 || p.DestQP == ib.QP0 && d.agents.subnet) {
		r = d.receiveMAD(p, from)
	}
	if r != ibta.Taken {
		l.engine.Counters.Dropped[r]++
	}
}

func (d *Device) receiveMAD(p *ib.Packet, from *ibta.Arrival) ibta.Reason {
	if len(d.agents.byID) == 0 {
		return ibta.DropNoDestination
	}
	port := int(from.From.Port)
	if r := ibta.CheckMAD(p, umad.Len); r != ibta.Taken {
		return r
	}
	if p.DestQP == ib.QP1 && !d.engine.Ports[port-1].Member(p.PKey) { // any of its partitions may (IBTA 10.9.8)
		return ibta.DropPKey
	}
	var h wire.Header
	if !h.Decode(p.Payload) || h.BaseVersion != wire.BaseVersion || h.Class.Subnet() != (p.DestQP == ib.QP0) {
		return ibta.DropMalformed
	}
	a := d.agents.find(port, &h)
	if a == nil {
		return ibta.DropNoAgent
	}
	return a.put(p, from)
}

func (a *agent) put(p *ib.Packet, from *ibta.Arrival) ibta.Reason {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.arrived.Len() == maxMADs {
		return ibta.DropNoReceive
	}
	m := a.arrived.PushBack()
	m.from = umad.Path{AH: a.dev.replyPath(from), QPN: p.DETH.SrcQP, QKey: p.DETH.QKey, PKey: p.PKey}
	copy(m.data[:], p.Payload)
	a.signal()
	return ibta.Taken
}

// replyPath returns the address vector of a packet's sender, from the GID that it was sent to.
func (d *Device) replyPath(from *ibta.Arrival) verbs.AHAttr {
	to := verbs.AHAttr{DGID: from.From.GID, DLID: from.From.LID, SL: from.SL, SrcPathBits: from.PathBits,
		Port: int(from.From.Port)}
	if from.Global {
		for _, g := range d.port.Info(to.Port).GIDTable {
			if g.GID == from.To {
				to.SGIDIndex = g.Index
				break
			}
		}
	}
	return to
}

// signal wakes one receiver.
func (a *agent) signal() {
	select {
	case a.ready <- struct{}{}:
	default:
	}
}

// Recv waits for the next datagram.
func (a *agent) Recv(ctx context.Context, b []byte) (int, umad.Path, error) {
	for {
		n, from, err := a.take(b)
		if n > 0 || err != nil {
			return n, from, err
		}
		select {
		case <-a.ready:
		case <-ctx.Done():
			return 0, umad.Path{}, ctx.Err()
		}
	}
}

// take copies the oldest datagram to b. It returns zero if there is none.
func (a *agent) take(b []byte) (n int, from umad.Path, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		a.signal() // for other waiters
		return 0, from, verbs.ErrClosed
	}
	if a.arrived.Len() == 0 {
		return 0, from, nil
	}
	m := a.arrived.Front()
	n, from = copy(b, m.data[:]), m.from
	a.arrived.PopFront()
	if a.arrived.Len() > 0 {
		a.signal()
	}
	return n, from, nil
}

// Transactions returns the upper half of the agent's transaction ids.
func (a *agent) Transactions() uint32 { return a.id }

// packet returns the packet that carries a datagram.
func (a *agent) packet(to *umad.Path, b []byte) (*ib.Packet, error) {
	p := &ib.Packet{
		BTH:     ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: ib.QP0, PSN: a.dev.agents.psn},
		DETH:    ib.DETH{SrcQP: ib.QP0},
		Payload: b,
	}
	if !a.spec.Class.Subnet() {
		if err := a.setGSI(to, p); err != nil {
			return nil, err
		}
	}
	var h wire.Header
	if h.Decode(b); h.Method.Asks() {
		h.TID = uint64(a.id)<<32 | h.TID&0xffff_ffff
		p.Payload = append(h.Append(make([]byte, 0, umad.Len)), b[wire.HeaderLen:]...)
	}
	return p, nil
}

// setGSI fills in a path's fields of the queue pair. Subnet management has none of it: it goes from queue pair 0 to
// queue pair 0, outside of partitions and without a key (IBTA 10.9.8, 13.5.3.1).
func (a *agent) setGSI(to *umad.Path, p *ib.Packet) error {
	p.PKey, p.DestQP, p.DETH = to.PKey, to.QPN, ib.DETH{QKey: to.QKey, SrcQP: ib.QP1}
	if p.PKey == 0 {
		p.PKey = ib.DefaultPKey
	}
	if p.DestQP == 0 {
		p.DestQP = ib.QP1
	}
	if p.DETH.QKey == 0 {
		p.DETH.QKey = ib.QKeyGSI
	}
	// The row of the table says which membership the port has.
	row := slices.IndexFunc(a.dev.port.Info(a.port).PKeyTable,
		func(k verbs.PKey) bool { return k != 0 && k.Base() == p.PKey.Base() })
	if row >= 0 {
		p.PKey = a.dev.port.Info(a.port).PKeyTable[row]
	} else {
		return &verbs.OpError{Op: "send_mad", Err: verbs.ErrInvalid,
			Detail: fmt.Sprintf("P_Key %#04x is not in the port's table", uint16(p.PKey))}
	}
	return nil
}

// Send sends a datagram at once.
func (a *agent) Send(to umad.Path, b []byte) error {
	d := a.dev
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	s := &d.agents
	if d.Closed.Load() || s.byID[a.id] != a {
		return verbs.ErrClosed
	}
	path, err := a.path(&to.AH)
	if err != nil {
		return err
	}
	p, err := a.packet(&to, b)
	if err != nil {
		return err
	}
	s.batch.SetDatagram(&ibta.Vector{Attr: to.AH, Path: path, Key: path.Key()}, p)
	s.psn = s.psn.Next()
	d.Lane.Mu.Counted = true
	switch err := d.lane.hand(&s.batch); {
	case errors.Is(err, softdev.ErrAgain):
		return &verbs.OpError{Op: "send_mad", Err: verbs.ErrQueueFull,
			Detail: "the port can take no more for now: send it again later"}
	case err != nil:
		d.lane.engine.Counters.SendErrors++
		return err
	}
	d.lane.engine.Counters.SentPackets++
	d.lane.engine.Counters.SentBytes += umad.Len
	return nil
}

// Refused waits until the port reports that nobody receives at an address.
func (a *agent) Refused(ctx context.Context, to verbs.AHAttr) error {
	r, ok := a.dev.port.(Refuser)
	if !ok {
		return verbs.ErrNotSupported
	}
	path, err := a.resolve(&to)
	if err != nil {
		return err
	}
	return r.Refused(ctx, path)
}

// resolve finds the path to an address, for use without the device's lock.
func (a *agent) resolve(to *verbs.AHAttr) (ibta.Path, error) {
	d := a.dev
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	if d.Closed.Load() || d.agents.byID[a.id] != a {
		return nil, verbs.ErrClosed
	}
	return a.path(to)
}

// path finds the path to an address from the agent's port; the lock is held.
func (a *agent) path(to *verbs.AHAttr) (ibta.Path, error) {
	switch to.Port {
	case 0:
		to.Port = a.port
	case a.port:
	default:
		return nil, &verbs.OpError{Op: "send_mad", Err: verbs.ErrInvalid,
			Detail: fmt.Sprintf("Port %d: the agent is at port %d", to.Port, a.port)}
	}
	return a.dev.port.Resolve(to)
}

// Close closes the agent.
func (a *agent) Close() error {
	a.dev.Lane.Mu.Lock()
	if a.dev.agents.byID[a.id] == a {
		a.dev.unregister(a)
	}
	a.dev.Lane.Mu.Unlock()
	a.end()
	return nil
}

// end makes receivers return, and releases all service ids.
func (a *agent) end() {
	a.mu.Lock()
	a.closed = true
	a.arrived = queue.Ring[mad]{}
	a.signal()
	a.mu.Unlock()
	a.releaseAll()
}
