// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/routing"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// fabric is the subnet as found by one sweep.
type fabric struct {
	devices    []*device // the first is the manager's own
	byGUID     map[uint64]*device
	own        *port            // the manager's
	byPortGUID map[uint64]*port // ports with LIDs, by GUID
	byLID      []*port
	managers   []*otherManager
	ambiguous  bool // duplicate GUIDs were found: it is not known which node has which tables

	switches []*device // by index in graph
	graph    routing.Graph
	routes   routing.Routes
	groupCap int // multicast LIDs that all switches have
}

// device is a node.
type device struct {
	info         smp.NodeInfo
	desc         smp.NodeDescription
	ports        []port // by number; an adapter's begin at 1
	path         []uint8
	index        int32 // of a switch, in the graph
	unresponsive bool  // it does not answer

	sw         smp.SwitchInfo
	lft        []uint8           // wanted linear forwarding table
	mft        []routing.PortSet // wanted multicast table, from [node.FirstMulticastLID] on
	programmed switchTables
}

// switchTables are the tables of a switch, as far as known.
type switchTables struct {
	lft    []uint8
	lftTop uint16
	mft    []routing.PortSet
}

// port is a port of a node.
type port struct {
	dev              *device
	num              uint8
	guid             uint64 // 0: an external port of a switch
	lid              uint16 // of an external port of a switch: its port 0's
	info             smp.PortInfo
	known            bool    // info has been read
	peer             *port   // at the other end of the cable
	path             []uint8 // directed route to its agent
	peerUnresponsive bool    // the node behind it does not answer
	excluded         bool    // answers of the node behind it contradict each other

	programmed portTables
}

// portTables are the tables of a port, as far as known.
type portTables struct {
	pkeys []ib.PKey
	vls   int // data lanes that SLtoVL and VLArbitration are set for
}

func (d *device) isSwitch() bool { return node.Type(d.info.NodeType) == node.Switch }

// hasLID reports whether the port has a LID of its own.
func (p *port) hasLID() bool { return p.guid != 0 }

// linked reports whether the port has a usable link to another node.
func (p *port) linked() bool { return p.peer != nil && !p.excluded && !p.peer.excluded }

func (p *port) state() node.LinkState { return node.LinkState(p.info.Link.State) }

// gid returns the GID of a port with a LID.
func (m *Manager) gid(p *port) ib.GID { return makeGID(m.config.Prefix, p.guid) }

func makeGID(prefix, guid uint64) (g ib.GID) {
	for i := range 8 {
		g[i], g[8+i] = byte(prefix>>(56-8*i)), byte(guid>>(56-8*i))
	}
	return g
}

// splitGID returns the halves of a GID.
func splitGID(g ib.GID) (prefix, guid uint64) {
	for i := range 8 {
		prefix, guid = prefix<<8|uint64(g[i]), guid<<8|uint64(g[8+i])
	}
	return prefix, guid
}

// at returns the port with a LID, or nil.
func (f *fabric) at(lid uint16) *port {
	if int(lid) < len(f.byLID) {
		return f.byLID[lid]
	}
	return nil
}

// graphEnd returns where a port with a LID is attached in the graph of switches.
func graphEnd(p *port) (routing.End, bool) {
	if p.dev.isSwitch() {
		return routing.End{Switch: p.dev.index}, true
	}
	if p.linked() && p.peer.dev.isSwitch() {
		return routing.End{Switch: p.peer.dev.index, Port: p.peer.num}, true
	}
	return routing.NoEnd, false
}
