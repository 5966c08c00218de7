// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"net/netip"
	"slices"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// JoinMulticast joins a group for the id's queue pair, which is of type UD (rdma_join_multicast).
// group is an IPv4 or IPv6 multicast address. MulticastJoin follows, whose UD has the address vector, queue
// pair number and Q_Key of the group, or MulticastError: for a device over IP at once, for others within a minute.
// An id without a queue pair joins send-only. ErrNotSupported means that the device has no
// datagrams.
func (id *ID) JoinMulticast(group netip.Addr) error { return id.join(group, false) }

// JoinMulticastSendOnly is [ID.JoinMulticast] for an id that only sends to the group: its queue pair receives nothing
// from it (RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER). On InfiniBand the port is a full member all the same, because not
// every subnet administrator knows members that only send.
func (id *ID) JoinMulticastSendOnly(group netip.Addr) error { return id.join(group, true) }

func (id *ID) join(group netip.Addr, sendOnly bool) (ret error) {
	defer id.begin("rdma_join_multicast", arg("addr", group), arg("send_only", sendOnly))(&ret)
	const op = "join_multicast"
	if err := id.lockIn(op, bound, addrResolved, routeResolved, listening, established); err != nil {
		return err
	}
	defer id.m.unlock()
	group = group.Unmap().WithZone("")
	switch {
	case !id.ps.datagrams():
		return opErr(op, verbs.ErrInvalid, "port space %v: groups are for UDP and IPoIB", id.ps)
	case !group.IsMulticast():
		return opErr(op, verbs.ErrInvalid, "%v is no multicast address", group)
	case group.Is4() != id.local.Addr().Is4():
		return opErr(op, ErrNoAddr, "%v cannot be joined from %v: one is IPv4, the other IPv6", group, id.local.Addr())
	case id.member(group) >= 0:
		return opErr(op, verbs.ErrBusy, "%v is joined already", group)
	}
	g := &membership{group: group, sendOnly: sendOnly}
	q, err := id.ep.join(g)
	if err != nil {
		return err
	}
	id.groups = append(id.groups, g)
	g.cancel = id.ask(q, 0, func(err error) { id.joined(g, err) })
	return nil
}

// joined continues a join once the group's address vector is known, unless the group was left
// meanwhile.
func (id *ID) joined(g *membership, err error) {
	i := slices.Index(id.groups, g)
	if i < 0 {
		return
	}
	if err == nil && id.receives(g) {
		if err = id.qp.AttachMulticast(g.to.DGID, 0); err != nil {
			id.ep.leave(g)
		}
	}
	if err != nil {
		id.groups = slices.Delete(id.groups, i, i+1)
		id.deliver(&Event{Type: MulticastError, ID: id, Group: g.group, Err: err})
		return
	}
	g.joined = true
	id.deliver(&Event{Type: MulticastJoin, ID: id, Group: g.group,
		UD: UDParam{QPN: ib.QPNMulticast, QKey: g.qkey, AH: g.to}})
}

// LeaveMulticast leaves a group (rdma_leave_multicast). A join in progress is abandoned without an
// event.
func (id *ID) LeaveMulticast(group netip.Addr) (ret error) {
	defer id.begin("rdma_leave_multicast", arg("addr", group))(&ret)
	const op = "leave_multicast"
	if err := id.lockIn(op, bound, addrResolved, routeResolved, listening, established); err != nil {
		return err
	}
	defer id.m.unlock()
	group = group.Unmap().WithZone("")
	i := id.member(group)
	if i < 0 {
		return opErr(op, verbs.ErrNotFound, "%v was not joined", group)
	}
	g := id.groups[i]
	id.groups = slices.Delete(id.groups, i, i+1)
	id.sink.take(func(e *Event) bool { return e.ID == id && e.Group == group })
	return id.leaveGroup(g)
}

// receives reports whether the id's queue pair is attached to a group.
func (id *ID) receives(g *membership) bool { return id.qp != nil && !g.sendOnly }

// leaveGroup ends a membership.
func (id *ID) leaveGroup(g *membership) (err error) {
	if g.cancel != nil {
		g.cancel()
	}
	if g.joined && id.receives(g) {
		err = id.qp.DetachMulticast(g.to.DGID, 0)
	}
	id.ep.leave(g)
	return err
}

// member returns the index of the group among the id's, or -1.
func (id *ID) member(group netip.Addr) int {
	return slices.IndexFunc(id.groups, func(g *membership) bool { return g.group == group })
}
