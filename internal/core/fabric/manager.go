// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	crand "crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/routing"
	"github.com/ramjet-rdma/ramjet/internal/engine/sm"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// ManagerOptions are options of the built-in subnet manager.
type ManagerOptions struct {
	Priority uint8 // 0 to 15: another manager with a higher one takes over
	// Routing is the routing algorithm: auto, min-hop or up-down; empty: auto.
	Routing string
	// LMC, 0 to 7, gives each adapter port 2^LMC LIDs, and so as many paths.
	LMC uint8
	// MKey is the M_Key of all ports; 0: none, any manager may manage them. Protect (M_KeyProtectBits, 0 to 3)
	// selects the requests that are refused without it. Lease is for how many seconds a port stays protected if
	// its manager does not answer; 0: for ever (section 14.2.4).
	MKey    uint64
	Protect uint8
	Lease   uint16
	// Partitions is the text of a partitions.conf as OpenSM reads it, in which a node's name also stands for its
	// ports. Errors call it PartitionFile. Empty: all ports are full members of the default partition.
	Partitions, PartitionFile string

	Event func(sm.Event) // called with one event after the other; may be nil
}

// manager runs the built-in subnet manager, at port 0 of the first switch, or, without switches, at the
// first adapter. The fabric's lock covers it.
type manager struct {
	f      *Fabric
	at     *member
	port   *link.Port
	engine *sm.Manager
	event  func(sm.Event)
	events []sm.Event // that event has not been called with yet

	pending bool       // there may be datagrams to send
	due     clock.Time // when run is due; 0: when a datagram arrives
}

// maxEvents limits the events that wait for event; later ones are lost.
const maxEvents = 1024

// maxDatagrams is how many datagrams one run sends.
const maxDatagrams = 64

// newManager returns nil if the fabric has no node for a manager.
func newManager(f *Fabric, o *ManagerOptions) (*manager, error) {
	c, err := f.managerConfig(o)
	if err != nil {
		return nil, err
	}
	m := &manager{f: f, event: o.Event}
	for _, n := range f.members {
		if n.state.Type == node.Switch {
			m.at, m.port = n, n.node.Port(0)
			break
		}
		if m.at == nil && n.state.Type == node.CA && len(n.state.Ports) > 1 {
			m.at, m.port = n, n.node.Port(1)
		}
	}
	if m.at == nil {
		return nil, nil
	}
	var b [4]byte
	crand.Read(b[:])
	m.port.State().CapMask |= uint32(smp.CapSM)
	c.PortGUID, c.TIDBase = m.port.State().GUID, binary.NativeEndian.Uint32(b[:])
	m.engine = sm.New(c)
	f.net.AttachManager(m.at.node, m.engine.Accepts)
	m.engine.Start(f.now())
	m.pending = true
	return m, nil
}

// managerConfig validates the options.
func (f *Fabric) managerConfig(o *ManagerOptions) (c sm.Config, err error) {
	c = sm.Config{Priority: o.Priority, LMC: o.LMC, MKey: o.MKey, Protect: o.Protect, Lease: o.Lease}
	switch o.Routing {
	case "", "auto":
	case "min-hop":
		c.Routing = routing.MinHop
	case "up-down":
		c.Routing = routing.UpDown
	default:
		return c, fmt.Errorf("there is no routing %q: there are auto, min-hop and up-down", o.Routing)
	}
	switch {
	case o.Priority > 15:
		return c, fmt.Errorf("priority %d of the subnet manager: give 0 to 15", o.Priority)
	case o.LMC > 7:
		return c, fmt.Errorf("LMC %d: give 0 to 7", o.LMC)
	case o.Protect > 3:
		return c, fmt.Errorf("M_Key protection %d: give 0 to 3", o.Protect)
	case o.MKey == 0 && (o.Protect != 0 || o.Lease != 0):
		return c, fmt.Errorf("protection and lease belong to an M_Key, and there is none: give one")
	}
	if o.Partitions != "" {
		c.Partitions, err = sm.ParsePartitions(cmp.Or(o.PartitionFile, "partitions"), o.Partitions, f.portGUIDs)
	}
	return c, err
}

// portGUIDs returns the GUIDs of a node's ports.
func (f *Fabric) portGUIDs(name string) (guids []uint64, err error) {
	m, err := f.member(name)
	if err != nil {
		return nil, err
	}
	for i := range m.state.Ports {
		if (m.state.Type == node.Switch) == (i == 0) {
			guids = append(guids, m.state.Ports[i].GUID)
		}
	}
	return guids, nil
}

// receive passes the datagrams that have arrived at a node to the manager, if it runs there.
func (m *manager) receive(at *member) {
	if at != m.at {
		return
	}
	m.pending = true
	for p := m.f.net.ReceiveMAD(at.node); p != nil; p = m.f.net.ReceiveMAD(at.node) {
		if d, b, ok := link.ReadMAD(p); ok {
			m.engine.HandleMAD(m.f.now(), &sm.Datagram{MAD: [mad.Size]byte(b), QPN: d.Dest, LID: d.SLID, Peer: d.Source,
				SL: d.SL, PKey: d.PKey})
		}
		m.f.net.Release(p)
	}
}

// run runs the manager if it is due. It reports whether it has sent: its own node may have answered already.
func (m *manager) run(now clock.Time) (sent bool) {
	if !m.pending && (m.due == 0 || m.due > now) {
		return false
	}
	m.pending = false
	if d := m.engine.Deadline(); d != 0 && d <= now {
		m.engine.HandleTimeout(now)
	}
	var d sm.Datagram
	for n := 0; n < maxDatagrams && m.engine.Next(now, &d); n++ {
		m.send(now, &d)
		sent = true
	}
	for e, ok := m.engine.NextEvent(); ok; e, ok = m.engine.NextEvent() {
		if m.event != nil && len(m.events) < maxEvents {
			m.events = append(m.events, e)
		}
	}
	m.pending = sent // there may be more to send
	m.due = m.engine.Deadline()
	return sent
}

// send sends a datagram. If the port is full it is lost, and repeated like any other.
func (m *manager) send(now clock.Time, d *sm.Datagram) {
	out := link.Datagram{SLID: m.port.State().Address.LID, DLID: d.LID, SL: d.SL, Source: d.QPN, Dest: d.Peer,
		PKey: d.PKey}
	if d.QPN == ib.QP1 {
		out.QKey = ib.QKeyGSI
	}
	if d.LID == node.PermissiveLID {
		out.SLID = node.PermissiveLID
	}
	if out.PKey == 0 {
		out.PKey = ib.DefaultPKey
	}
	out.PKey = ownPKey(m.port.State(), out.PKey) // an answer has the manager's membership, not the requester's
	m.f.net.SendMAD(now, m.port, out, d.MAD[:])
}

// deadline returns when run is due; 0: when a datagram arrives.
func (m *manager) deadline() clock.Time { return m.due }

// resume starts a sweep after the manager's node was powered on again. Traps do not reach the manager then,
// because the node has lost its LID.
func (m *manager) resume(now clock.Time) {
	m.engine.Resweep(now)
	m.pending = true
}
