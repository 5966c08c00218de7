// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"net/netip"
	"slices"
)

// BestGID returns the row of port 1's GID table to connect from, for [QP.Endpoint] and [ConnectOptions]. NICs have
// each address twice, for RoCE v1 and v2, and row 0 is often one that the peer cannot use. The order is:
//
//   - RoCE v2 before v1;
//   - the row of the address local, then the rows of its family. The zero Addr leaves both out;
//   - addresses that are valid on one link only come last, and IPv6 behind IPv4;
//   - the first row: of RoCE v1, whose packets no router forwards, or of InfiniBand or iWARP.
//
// The error is ErrNotFound if the table is empty.
func (d *Device) BestGID(local netip.Addr) (GIDEntry, error) {
	rows, err := d.GIDs(1)
	if err != nil {
		return GIDEntry{}, err
	}
	if len(rows) == 0 {
		return GIDEntry{}, opErr("query_gid", ErrNotFound, fmt.Sprintf("the GID table of %s is empty", d.Name()))
	}
	return bestGID(rows, local), nil
}

func bestGID(rows []GIDEntry, local netip.Addr) GIDEntry {
	return slices.MinFunc(rows, func(a, b GIDEntry) int { return slices.Compare(a.rank(local), b.rank(local)) })
}

// rank returns the reasons against a row, the most important first.
func (e *GIDEntry) rank(local netip.Addr) []int {
	if e.Type != GIDRoCEv2 {
		return []int{1, e.Index}
	}
	against := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	a := e.GID.Addr()
	known := local.IsValid()
	local = local.Unmap().WithZone("")
	return []int{0, against(known && a != local), against(known && a.Is4() != local.Is4()),
		against(a.IsLinkLocalUnicast()), against(!a.Is4()), e.Index}
}
