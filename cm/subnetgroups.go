// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

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
	s.joined[r.MGID]++
	g.to = verbs.AHAttr{DGID: r.MGID, DLID: r.MLID, SL: r.SL, HopLimit: r.HopLimit, TrafficClass: r.TClass, FlowLabel: r.FlowLabel}
	g.qkey = r.QKey
	return nil
}

// leave ends the port's membership with the last id's.
func (s *subnet) leave(g *membership) {
	mgid := g.to.DGID
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.joined[mgid] == 0 {
		return // its query had no result
	}
	if s.joined[mgid]--; s.joined[mgid] > 0 {
		return
	}
	delete(s.joined, mgid)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
		defer cancel()
		s.admin.leave(ctx, mgid, s.gid()) // a manager that does not answer looks for members itself
	}()
}
