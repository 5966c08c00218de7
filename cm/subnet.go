// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// subnet resolves addresses and paths where ports have LIDs: on InfiniBand.
//
// An address of a host is one of its GIDs, or an IP address that the driver knows a GID for.
// Datagrams between queue pairs 1 have a GRH, so that each side sees the other's GID; packets of
// connections have none, because the path stays in the subnet (IBTA 8.2.1).
type subnet struct {
	drv       driver.Device
	neighbors driver.Connector
	admin     *administrator
	announcer announcer

	mu            sync.Mutex
	joined        map[verbs.GID]*joinedGroup // multicast groups
	rejoining     bool                       // see again
	rejoinPending bool                       // meanwhile: once more
}

// newSubnet returns nil if the driver's ports have no LIDs.
func newSubnet(drv driver.Device) *subnet {
	n, ok := drv.(driver.Connector)
	if p, err := drv.QueryPort(1); !ok || err != nil || p.Link != verbs.LinkInfiniBand {
		return nil
	}
	s := &subnet{drv: drv, neighbors: n, admin: newAdministrator(drv), joined: make(map[verbs.GID]*joinedGroup)}
	s.announcer.init()
	return s
}

func (s *subnet) close() {
	s.announcer.end()
	s.admin.close()
}

// port returns the port's attributes; without a LID they lead nowhere.
func (s *subnet) port() verbs.PortAttr {
	p, _ := s.drv.QueryPort(1) // an error is that of a closed device, whose ids end
	return p
}

func (s *subnet) lid() uint16 { return s.port().LID }

func (s *subnet) gid() verbs.GID {
	gids, err := s.drv.GIDs(1)
	if err != nil || len(gids) == 0 {
		return verbs.GID{}
	}
	return gids[0].GID
}

// gidOf returns the GID of an address, or an unspecified one.
func (s *subnet) gidOf(a netip.Addr) verbs.GID {
	if g, ok := s.neighbors.Neighbor(a); ok {
		return g
	}
	if a.Is6() {
		return ib.GIDFromAddr(a)
	}
	return verbs.GID{}
}

// resolveAddr finds the GID of the peer's address. If the driver does not know it, it asks the administrator.
func (s *subnet) resolveAddr(c *ibConn) (query, error) {
	to := c.id.peer.Addr()
	gid := s.gidOf(to)
	if to.IsMulticast() { // programs resolve a group before they join it
		gid = groupGID(to)
	}
	if gid != (verbs.GID{}) {
		c.host.DGID = gid
		return nil, nil
	}
	return func(ctx context.Context) (err error) {
		c.host.DGID, err = s.admin.lookUp(ctx, to)
		if errors.Is(err, ErrNoAddr) {
			return opErr("resolve_addr", ErrNoAddr,
				"%v is the address of no adapter of the fabric, and of none beyond its cables that listens", to)
		}
		return err
	}, nil
}

// resolveRoute asks for a path to the peer's GID (IBTA 15.2.5.16).
func (s *subnet) resolveRoute(ctx context.Context, c *ibConn) error {
	path, err := s.admin.path(ctx, s.gid(), c.host.DGID)
	if err != nil {
		return err
	}
	c.to = verbs.AHAttr{DLID: path.DLID, SL: path.SL}
	c.host.DLID, c.host.SL, c.host.HopLimit = path.DLID, path.SL, path.HopLimit
	c.pkey = path.PKey
	c.mtu = min(path.MTU, c.ibProtocol.mtu())
	return nil
}

// replyPath returns the address vector of the queue pair that a request describes.
func (s *subnet) replyPath(p *mad.Path) verbs.AHAttr {
	return verbs.AHAttr{DLID: p.LocalLID, SL: p.SL}
}

// Route is a path through a subnet to an id's peer (rdma_route).
type Route struct {
	SGID, DGID verbs.GID
	// SLID, DLID, SL and MTU come from the path record; DLID is 0 until the route is resolved.
	SLID, DLID uint16
	SL         uint8
	HopLimit   uint8
	MTU        verbs.MTU
}

// Route returns the path to the id's peer. It returns false for a device whose ports have no LIDs, where
// addresses say it all.
func (id *ID) Route() (r Route, ok bool) {
	id.m.mu.Lock()
	defer id.m.mu.Unlock()
	c, ok := id.ep.(*ibConn)
	if !ok || c.subnet == nil {
		return Route{}, false
	}
	r.SGID = c.subnet.gid()
	if id.state != addrQuery {
		r.DGID = c.host.DGID
	}
	if id.state == addrQuery || id.state == routeQuery || c.host.DLID == 0 {
		return r, true
	}
	r.SLID, r.DLID, r.SL, r.HopLimit, r.MTU = c.subnet.lid(), c.host.DLID, c.host.SL, c.host.HopLimit, c.mtu
	if r.MTU == 0 { // of a datagram service's client
		r.MTU = c.ibProtocol.mtu()
	}
	return r, true
}
