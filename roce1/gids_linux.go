// SPDX-License-Identifier: Apache-2.0

package roce1

import (
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/system/linkwatch"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// identity holds the GIDs and port attributes that a device derives from its interface. It is immutable.
type identity struct {
	link linkwatch.Link
	rows []verbs.GID // the GID table; zero: an empty row
	own  map[verbs.GID]bool
	info softdev.PortInfo
}

// identify returns the identity of an interface. GIDs keep their rows; the row of a GID that is gone is reused for the
// next new one.
func identify(before *identity, name string, link linkwatch.Link) *identity {
	now := &identity{link: link, own: make(map[verbs.GID]bool)}
	if before != nil {
		now.rows = slices.Clone(before.rows)
	}
	if len(now.rows) == 0 {
		now.rows = make([]verbs.GID, 1)
	}
	now.rows[0] = linkLocal(link.MAC)
	var fresh []verbs.GID
	has := map[verbs.GID]bool{}
	for _, a := range link.Addrs {
		g := ib.GIDFromAddr(a)
		has[g] = true
		if !slices.Contains(now.rows, g) && !slices.Contains(fresh, g) {
			fresh = append(fresh, g)
		}
	}
	for i := range now.rows[1:] {
		if g := &now.rows[1+i]; !has[*g] || *g == now.rows[0] {
			*g = verbs.GID{}
		}
	}
	for _, g := range fresh {
		if i := slices.Index(now.rows, verbs.GID{}); i >= 0 {
			now.rows[i] = g
		} else {
			now.rows = append(now.rows, g)
		}
	}
	for _, g := range now.rows {
		now.own[g] = g != verbs.GID{}
	}
	now.info = softdev.PortInfo{
		PortAttr: verbs.PortAttr{State: now.state(), Link: verbs.LinkEthernet, NetDev: name, MaxMTU: verbs.MTU4096,
			ActiveMTU: pathMTU(link.MTU), LinkMTU: link.MTU, SpeedMbps: linkwatch.Speed(name)},
		GIDTable:  now.table(name),
		PKeyTable: softdev.OnePartition,
	}
	return now
}

// row returns the GID of a row; false: there is none.
func (id *identity) row(i int) (verbs.GID, bool) {
	if i < 0 || i >= len(id.rows) || id.rows[i] == (verbs.GID{}) {
		return verbs.GID{}, false
	}
	return id.rows[i], true
}

// table returns the GID table.
func (id *identity) table(netDev string) (t []verbs.GIDEntry) {
	for i := range id.rows {
		if g, ok := id.row(i); ok {
			t = append(t, verbs.GIDEntry{Index: i, GID: g, Type: verbs.GIDRoCEv1, NetDev: netDev})
		}
	}
	return t
}

// state returns the port's state.
func (id *identity) state() verbs.PortState {
	if id.link.Up {
		return verbs.PortActive
	}
	return verbs.PortDown
}

// changes returns the asynchronous events for the differences from before (IBTA 11.6.3.3).
func (id *identity) changes(before *identity) (events []verbs.EventType) {
	if !slices.Equal(id.rows, before.rows) {
		events = append(events, verbs.EventGIDChange)
	}
	switch {
	case id.state() == before.state():
	case id.link.Up:
		events = append(events, verbs.EventPortActive)
	default:
		events = append(events, verbs.EventPortError)
	}
	return events
}
