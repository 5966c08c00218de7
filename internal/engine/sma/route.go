// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// step takes a directed route's packet one step on. Here means that it is for this node's agent;
// otherwise the verdict applies.
func (a *Agent) step(q *request) (v Verdict, here bool) {
	_, hops := q.p.Hops()
	switch {
	case hops > smp.MaxHops:
		return Drop, false
	case q.p.Returning():
		return a.stepBack(q), false
	}
	return a.stepOut(q)
}

// stepOut takes a packet one step to its destination (section 14.2.2.2, C14-9).
func (a *Agent) stepOut(q *request) (v Verdict, here bool) {
	p, isSwitch := q.p, a.node.Tables != nil
	at, hops := p.Hops()
	switch {
	case at == 0 && hops > 0:
		// The route begins here: the own manager has sent the packet, or a part by LIDs before it ends.
		if !q.local && (!isSwitch || p.DrSLID == node.PermissiveLID) {
			return Drop, false
		}
		p.SetHops(1, hops)
		return a.leave(q, p.Initial[1]), false
	case at < hops: // on the way
		if !isSwitch || q.local {
			return Drop, false
		}
		p.Return[at] = uint8(q.at)
		p.SetHops(at+1, hops)
		return a.leave(q, p.Initial[at+1]), false
	case at == hops: // the end of the directed part
		switch {
		case hops > 0 && q.local:
			return Drop, false
		case hops > 0:
			p.Return[at] = uint8(q.at)
		case !q.local && p.DrSLID == node.PermissiveLID:
			return Drop, false // there is no way back for an answer
		}
		p.SetHops(at+1, hops)
		switch {
		case p.DrDLID == node.PermissiveLID:
			return Drop, true
		case isSwitch:
			return Reply, false
		}
		return Drop, false
	case at == hops+1 && p.DrDLID == node.PermissiveLID:
		return Drop, true
	}
	return Drop, false // the last part by LIDs, too: its answer could not return
}

// stepBack takes a packet one step back to the requester (section 14.2.2.4, C14-13).
func (a *Agent) stepBack(q *request) Verdict {
	p, isSwitch := q.p, a.node.Tables != nil
	at, hops := p.Hops()
	switch {
	case hops > 0 && at == hops+1:
		if !q.local { // only an answer of this node begins the way back here
			return Drop
		}
		p.SetHops(hops, hops)
		return a.leave(q, p.Return[hops])
	case at > 1 && at <= hops:
		if !isSwitch || q.local {
			return Drop
		}
		p.SetHops(at-1, hops)
		return a.leave(q, p.Return[at-1])
	case at == 1:
		if hops > 0 && q.local {
			return Drop
		}
		p.SetHops(0, hops)
		switch {
		case p.DrSLID == node.PermissiveLID:
			return Deliver
		case isSwitch, hops == 0:
			return Reply
		}
		return Drop
	case at == 0:
		return Deliver
	}
	return Drop
}

// leave returns the verdict for a packet that is to leave by a port. A channel adapter's packets leave
// where their manager is, or where the request came in.
func (a *Agent) leave(q *request, port uint8) Verdict {
	if port == 0 || int(port) >= len(a.node.Ports) || a.node.Tables == nil && int(port) != q.at {
		return Drop
	}
	return Out(int(port))
}
