// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// Agent is the management agent of a node.
type Agent struct {
	node  *node.Node
	ports []port // as node.Ports
	tid   uint64 // of the last trap

	packet  smp.SMP // being handled
	request request // its context
	changed []int   // ports that the request has changed
}

// port is the agent's state of a port.
type port struct {
	lease            clock.Time // when the M_Key's lease ends (section 14.2.4.2); 0: it is not running
	phyErrThreshold  uint8      // LocalPhyErrors, the threshold of trap 129
	overrunThreshold uint8      // OverrunErrors, the threshold of trap 130
	errors           errorCounts
	traps            []pendingTrap // of ports with an address: an adapter's, and a switch's port 0
}

// New returns the agent of a node. The node's ports must not be replaced later.
func New(n *node.Node) *Agent {
	a := &Agent{node: n, ports: make([]port, len(n.Ports)), tid: n.GUID << 32}
	for i := range a.ports {
		a.ports[i].phyErrThreshold, a.ports[i].overrunThreshold = defaultThreshold, defaultThreshold
	}
	return a
}

// HandleSMP handles a subnet management packet, which it changes in place. It was received at port in; 0: the node's
// own manager has sent it from port r.Port. Only the first [mad.Size] bytes count; shorter packets are dropped.
func (a *Agent) HandleSMP(now clock.Time, in int, r Route, b []byte) Verdict {
	p := &a.packet
	q := &a.request
	*q = request{now: now, at: in, local: in == 0, p: p}
	if q.local {
		q.at = r.Port
	}
	if !p.Decode(b) || q.at < 0 || q.at >= len(a.node.Ports) || q.at == 0 && a.node.Tables == nil {
		return Drop
	}
	v := a.handle(q)
	if v != Drop {
		p.Append(b[:0])
	}
	for _, c := range a.changed {
		if a.node.Changed != nil {
			a.node.Changed(c)
		}
	}
	a.changed = a.changed[:0]
	return v
}

// request is a packet and its context.
type request struct {
	now   clock.Time
	at    int // the receiving port; 0: sent by a switch's own manager
	local bool
	// reregister is set by a Set of PortInfo with ClientReregister, which the response repeats.
	reregister bool
	p          *smp.SMP
}

func (a *Agent) handle(q *request) Verdict {
	p := q.p
	switch p.Class {
	case mad.ClassSubnet:
		return a.serve(q)
	case mad.ClassSubnetDirected:
		if v, here := a.step(q); !here {
			return v
		}
		if v := a.serve(q); v != Reply {
			return v
		}
		p.SetReturning()
		q.local = true // the response starts here
		return a.stepBack(q)
	}
	return Drop
}

// serve handles a packet for this node. It returns Reply if the packet has become the response.
func (a *Agent) serve(q *request) Verdict {
	p := q.p
	switch {
	case p.Method.Answers() && p.Method != mad.MethodTrapRepress, p.Method == mad.MethodTrap:
		return Deliver
	case p.BaseVersion != mad.BaseVersion || p.ClassVersion != smp.ClassVersion:
		return respond(q, mad.StatusUnsupportedVersion)
	case p.Method != mad.MethodGet && p.Method != mad.MethodSet && p.Method != mad.MethodTrapRepress:
		return respond(q, mad.StatusUnsupportedMethod)
	}
	if p.Attribute == smp.AttrSMInfo && p.Method != mad.MethodTrapRepress {
		// SMInfo is protected by the SM_Key, not by M_Keys (section 14.4.1).
		if a.addressPort(q.at).CapMask&uint32(smp.CapSM) == 0 {
			return respond(q, mad.StatusUnsupportedAttribute)
		}
		return Deliver
	}
	if !a.authorize(q) {
		return Drop
	}
	if p.Method == mad.MethodTrapRepress {
		if !a.repress(q.at, p.TID) {
			return Deliver
		}
		return Drop
	}
	return respond(q, a.access(q))
}

// respond turns a request into its response. Other methods have none.
func respond(q *request, s mad.Status) Verdict {
	if q.p.Method.Answers() {
		return Drop
	}
	q.p.Method = mad.MethodGetResp
	q.p.Header.Status = s
	return Reply
}

// addressPort returns the port whose LID and keys apply to a packet received at a port: at a switch, port 0.
func (a *Agent) addressPort(at int) *node.Port { return &a.node.Ports[a.addressPortNum(at)] }

func (a *Agent) addressPortNum(at int) int {
	if a.node.Tables != nil {
		return 0
	}
	return at
}

// markChanged records that the request has changed a port.
func (a *Agent) markChanged(num int) { a.changed = append(a.changed, num) }
