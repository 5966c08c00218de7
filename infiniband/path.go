// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// path is the path from a port to a LID, with a GRH if the address vector is global.
type path struct {
	to  verbs.AHAttr
	key ibta.PathKey
}

// Key identifies the peer. With and without a GRH are different peers (section 9.6.1).
func (p *path) Key() ibta.PathKey { return p.key }

// Full returns false: credits hold senders back when a receive buffer is full.
func (p *path) Full() bool { return false }

// Holds returns false: the fabric counts lost packets.
func (p *path) Holds() bool { return false }

// Resolve checks an address vector.
func (p *port) Resolve(attr *verbs.AHAttr) (ibta.Path, error) {
	bad := func(format string, a ...any) (ibta.Path, error) {
		return nil, &verbs.OpError{Op: "resolve_address", Err: verbs.ErrInvalid, Detail: fmt.Sprintf(format, a...)}
	}
	if attr.Port < 1 || attr.Port > p.Ports() {
		return bad("Port %d: the adapter has ports 1 to %d", attr.Port, p.Ports())
	}
	i := p.adapter.Info(attr.Port)
	switch {
	case attr.DLID == 0:
		return bad("DLID is not set: on InfiniBand every destination has one, which a path record of the subnet administrator says")
	case attr.SL > 15:
		return bad("SL %d: there are service levels 0 to 15", attr.SL)
	case attr.SrcPathBits>>i.LMC != 0:
		return bad("SrcPathBits %d: the port has %d LIDs", attr.SrcPathBits, 1<<i.LMC)
	case int(attr.SGIDIndex) >= len(i.GIDs):
		return bad("SGIDIndex %d: the GID table has %d rows", attr.SGIDIndex, len(i.GIDs))
	case attr.DLID >= firstMulticastLID && attr.DLID != permissiveLID && !attr.Global():
		return bad("DLID %#04x is that of a multicast group, which needs a DGID (IBTA 8.2)", attr.DLID)
	}
	return &path{*attr, ibta.PathKey{GID: attr.DGID, LID: attr.DLID, Port: uint8(attr.Port)}}, nil
}

const (
	firstMulticastLID = 0xc000
	permissiveLID     = 0xffff
	managementVL      = 15
)

// headerLen returns the length of the headers before the BTH.
func (p *path) headerLen() int {
	if p.to.Global() {
		return ib.LRHLen + ib.GRHLen
	}
	return ib.LRHLen
}

// appendHeaders appends an LRH and, for a global destination, a GRH, of a packet with size bytes from
// the BTH to the ICRC.
func (p *path) appendHeaders(b []byte, from *info, management bool, size int) []byte {
	h := ib.LRH{SL: p.to.SL, LNH: ib.LNHLocal, DLID: p.to.DLID, SLID: from.LID | uint16(p.to.SrcPathBits),
		PktLen: uint16((p.headerLen() + size) / 4)}
	if management {
		h.VL, h.SL = managementVL, 0
		if p.to.DLID == permissiveLID {
			h.SLID = permissiveLID // a directed route from end to end (section 14.2.2)
		}
	}
	if !p.to.Global() {
		return h.Append(b)
	}
	h.LNH = ib.LNHGlobal
	b = h.Append(b)
	g := ib.GRH{IPVer: 6, TClass: p.to.TrafficClass, FlowLabel: p.to.FlowLabel, PayLen: uint16(size),
		NxtHdr: ib.GRHNextHeader, HopLmt: p.to.HopLimit, DGID: p.to.DGID}
	if int(p.to.SGIDIndex) < len(from.GIDs) {
		g.SGID = from.GIDs[p.to.SGIDIndex]
	}
	return g.Append(b)
}
