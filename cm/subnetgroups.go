// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// joinedGroup is a multicast group that ids are members of, or are to be. The port joins and leaves it for all of
// them.
type joinedGroup struct {
	ids    int
	asking chan struct{} // of capacity 1: held while asking the administrator
	member bool          // the port is a member, or may be
	lid    uint16
	qkey   verbs.QKey
}

// rejoinTime limits the wait for the administrator to take a membership again.
const rejoinTime = time.Minute

// rejoinAll registers the port's memberships with the administrator once more: it has lost them, as
// ClientReregister says (IBTA 14.4.11). It does not wait.
func (s *subnet) rejoinAll(p *ibProtocol) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejoinPending = true
	if !s.rejoining && len(s.joined) > 0 {
		s.rejoining = true
		go s.rejoin(p)
	}
}

// rejoin joins all groups as often as again is called.
func (s *subnet) rejoin(p *ibProtocol) {
	for {
		s.mu.Lock()
		if !s.rejoinPending {
			s.rejoining = false
			s.mu.Unlock()
			return
		}
		s.rejoinPending = false
		groups := maps.Clone(s.joined)
		s.mu.Unlock()
		for mgid, j := range groups {
			if err := s.rejoinGroup(mgid, j); err != nil {
				p.m.groupLost(mgid, err)
			}
		}
	}
}

// rejoinGroup joins a group that ids are members of.
func (s *subnet) rejoinGroup(mgid verbs.GID, j *joinedGroup) error {
	ctx, cancel := context.WithTimeout(context.Background(), rejoinTime)
	defer cancel()
	j.asking <- struct{}{}
	defer func() { <-j.asking }()
	s.mu.Lock()
	ask, lid, qkey := j.member && j.ids > 0, j.lid, j.qkey
	s.mu.Unlock()
	if !ask {
		return nil
	}
	r, err := s.admin.join(ctx, mgid, s.gid(), qkey)
	if err == nil && r.MLID != lid {
		err = opErr("join_multicast", ErrNoAddr, "the group has the LID %#04x now instead of %#04x: join it again",
			r.MLID, lid)
	}
	return err
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
			id.deliver(&Event{Type: MulticastError, ID: id, Group: g.group, Err: err})
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

// join makes the port a member of a group for an id.
func (s *subnet) join(ctx context.Context, g *membership) error {
	mgid := groupGID(g.group)
	j := s.count(ctx, mgid, g)
	if j == nil {
		return ctx.Err()
	}
	select {
	case j.asking <- struct{}{}:
	case <-ctx.Done():
		s.leave(g)
		return ctx.Err()
	}
	r, err := s.admin.join(ctx, mgid, s.gid(), UDPQKey)
	s.mu.Lock()
	j.member = j.member || err == nil || ctx.Err() != nil // a request whose caller has given up may be carried out
	if err == nil {
		j.lid, j.qkey = r.MLID, r.QKey
		g.to = verbs.AHAttr{DGID: r.MGID, DLID: r.MLID, SL: r.SL, HopLimit: r.HopLimit, TrafficClass: r.TClass,
			FlowLabel: r.FlowLabel}
		g.qkey = r.QKey
	}
	s.mu.Unlock()
	<-j.asking
	if err != nil {
		s.leave(g)
	}
	return err
}

// count counts an id in a group, unless it has given up.
func (s *subnet) count(ctx context.Context, mgid verbs.GID, g *membership) *joinedGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return nil
	}
	j := s.joined[mgid]
	if j == nil {
		j = &joinedGroup{asking: make(chan struct{}, 1)}
		s.joined[mgid] = j
	}
	j.ids++
	g.counted = true
	return j
}

// leave ends an id's membership, and the port's with that of the last id.
func (s *subnet) leave(g *membership) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !g.counted {
		return
	}
	g.counted = false
	mgid := groupGID(g.group)
	j := s.joined[mgid]
	if j.ids--; j.ids == 0 {
		go s.leaveGroup(mgid, j)
	}
}

// leaveGroup ends the port's membership, unless another id is there by now.
func (s *subnet) leaveGroup(mgid verbs.GID, j *joinedGroup) {
	j.asking <- struct{}{}
	defer func() { <-j.asking }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.ids > 0 {
		return
	}
	if j.member {
		j.member = false
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
		s.admin.leave(ctx, mgid, s.gid()) // a manager that does not answer looks for members itself
		cancel()
		s.mu.Lock()
	}
	if j.ids == 0 && s.joined[mgid] == j {
		delete(s.joined, mgid)
	}
}
