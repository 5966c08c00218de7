// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"net/netip"
	"slices"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// JoinMulticast joins a group on behalf of the id's queue pair, which is of type UD
// (rdma_join_multicast). group is an IPv4 or IPv6 multicast address; its GID is that address,
// as RoCEv2 has it (IBTA annex A17.9). MulticastJoin follows, whose UD says how to send to
// the group, or MulticastError. An id without a queue pair learns only how to send.
func (id *ID) JoinMulticast(group netip.Addr) error {
	const op = "join_multicast"
	if err := id.in(op, bound, addrResolved, routeResolved, listening, established); err != nil {
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
	case slices.Contains(id.groups, group):
		return opErr(op, verbs.ErrBusy, "%v is joined already", group)
	}
	if id.qp != nil {
		if err := id.qp.AttachMulticast(groupID(group), 0); err != nil {
			id.tell(&Event{Type: MulticastError, ID: id, Group: group, Err: err})
			return nil
		}
	}
	id.groups = append(id.groups, group)
	id.tell(&Event{Type: MulticastJoin, ID: id, Group: group, UD: UDParam{QPN: ib.QPNMulticast, QKey: UDPQKey,
		AH: verbs.AHAttr{DGID: groupID(group), TrafficClass: id.tos}}})
	return nil
}

// LeaveMulticast leaves a group (rdma_leave_multicast).
func (id *ID) LeaveMulticast(group netip.Addr) error {
	const op = "leave_multicast"
	if err := id.in(op, bound, addrResolved, routeResolved, listening, established); err != nil {
		return err
	}
	defer id.m.unlock()
	group = group.Unmap().WithZone("")
	i := slices.Index(id.groups, group)
	if i < 0 {
		return opErr(op, verbs.ErrNotFound, "%v was not joined", group)
	}
	id.groups = slices.Delete(id.groups, i, i+1)
	id.sink.take(func(e *Event) bool { return e.ID == id && e.Group == group })
	if id.qp == nil {
		return nil
	}
	return id.qp.DetachMulticast(groupID(group), 0)
}

func groupID(group netip.Addr) verbs.GID { return ib.GIDFromAddr(group) }
