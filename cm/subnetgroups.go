// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// joinedGroup is a multicast group that the port is a member of.
type joinedGroup struct {
	ids  int // that are members
	lid  uint16
	qkey verbs.QKey
}

// rejoinTime limits the wait for the administrator to take a membership again.
const rejoinTime = time.Minute

// again tells the administrator of the port's memberships once more: the one that knew of them has lost
// them, and says so by ClientReregister (IBTA 14.4.11). It does not wait.
func (s *subnet) again(p *ibProtocol) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = true
	if !s.asking && len(s.joined) > 0 {
		s.asking = true
		go s.rejoin(p)
	}
}

// rejoin joins all groups as often as again is called.
func (s *subnet) rejoin(p *ibProtocol) {
	for {
		s.mu.Lock()
		if !s.asked {
			s.asking = false
			s.mu.Unlock()
			return
		}
		s.asked = false
		groups := make(map[verbs.GID]joinedGroup)
		for mgid, j := range s.joined {
			groups[mgid] = *j
		}
		s.mu.Unlock()
		for mgid, was := range groups {
			ctx, cancel := context.WithTimeout(context.Background(), rejoinTime)
			r, err := s.admin.join(ctx, mgid, s.gid(), was.qkey)
			cancel()
			if err == nil && r.MLID != was.lid {
				err = opErr("join_multicast", ErrNoAddr, "the group has the LID %#04x now instead of %#04x: join it again", r.MLID, was.lid)
			}
			if err != nil {
				p.m.groupLost(mgid, err)
			}
		}
	}
}

// groupLost ends the memberships of all ids in a group.
func (m *manager) groupLost(mgid verbs.GID, err error) {
	m.mu.Lock()
	defer m.unlock()
	if m.stopped {
		return
	}
	for id := range m.ids {
		for _, g := range slices.Clone(id.groups) {
			if !g.joined || g.to.DGID != mgid {
				continue
			}
			id.groups = slices.DeleteFunc(id.groups, func(o *membership) bool { return o == g })
			id.leaveGroup(g)
			id.tell(&Event{Type: MulticastError, ID: id, Group: g.group, Err: err})
		}
	}
}

// leaveTime limits the wait for the administrator to confirm that a group was left.
const leaveTime = 5 * time.Second

// groupGID returns the GID of an IP multicast group, with the signature and the scope that RDMA
// connection managers use (RFC 4391 section 4, with 1 in the byte of the partition's end).
//
//	| ff | 1 | scope | signature: 401b or 601b | P_Key | 0001 | group |
func groupGID(group netip.Addr) (g verbs.GID) {
	const linkLocal = 2
	g = verbs.GID{0: 0xff, 1: 0x10 | linkLocal, 2: 0x40, 3: 0x1b, 4: 0xff, 5: 0xff, 7: 1}
	if group.Is4() {
		a := group.As4()
		copy(g[12:], a[:])
		g[12] &= 0x0f // the low 28 bits
		return g
	}
	a := group.As16()
	g[2] = 0x60
	copy(g[8:], a[8:])
	return g
}

// join asks the administrator to make the port a member of a group, once for all ids of the device.
func (s *subnet) join(ctx context.Context, c *ibConn, g *membership) error {
	r, err := s.admin.join(ctx, groupGID(g.group), s.gid(), UDPQKey)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.joined[r.MGID] == nil {
		s.joined[r.MGID] = new(joinedGroup)
	}
	j := s.joined[r.MGID]
	j.ids++
	j.lid, j.qkey = r.MLID, r.QKey
	g.to = verbs.AHAttr{DGID: r.MGID, DLID: r.MLID, SL: r.SL, HopLimit: r.HopLimit, TrafficClass: r.TClass, FlowLabel: r.FlowLabel}
	g.qkey = r.QKey
	return nil
}

// leave ends the port's membership with the last id's.
func (s *subnet) leave(g *membership) {
	mgid := g.to.DGID
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.joined[mgid]
	if j == nil {
		return // its query had no result
	}
	if j.ids--; j.ids > 0 {
		return
	}
	delete(s.joined, mgid)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
		defer cancel()
		s.admin.leave(ctx, mgid, s.gid()) // a manager that does not answer looks for members itself
	}()
}
