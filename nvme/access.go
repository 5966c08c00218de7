// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

// MaxGroups is how many groups of namespaces a target has, numbered from 1 on.
const MaxGroups = 16

// SetAccess sets how hosts that are connected at this port reach the namespaces of a group: see [Namespace.Group]. The
// default is wire.ANAOptimized. Hosts with several ports use the best ones (asymmetric namespace access, base 8.20);
// they get a notice. Where namespaces are inaccessible, lost or changing, reads and writes are refused, and commands
// that have begun go on.
func (p *Port) SetAccess(group uint32, s wire.ANAState) error {
	if group < 1 || group > MaxGroups {
		return fmt.Errorf("nvme: group %d: there are groups from 1 to %d", group, MaxGroups)
	}
	switch s {
	case wire.ANAOptimized, wire.ANANonOptimized, wire.ANAInaccessible, wire.ANAPersistentLoss, wire.ANAChange:
	default:
		return fmt.Errorf("nvme: there is no access of %v", s)
	}
	t := p.t
	t.mu.Lock()
	before := p.access[group]
	if p.access[group] = s; before != s {
		t.accessChanges++
	}
	t.mu.Unlock()
	if before != s {
		for _, c := range t.controllersOf(func(c *controller) bool { return c.sub != nil && c.admin.port == p }) {
			c.notify(&c.access)
		}
	}
	return nil
}

// accessOf returns how the controller reaches a group.
func (c *controller) accessOf(group uint32) wire.ANAState {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	return c.admin.port.access[group]
}

// reach returns the status of a command that needs a namespace's data.
func (c *controller) reach(ns *namespace) wire.Status {
	switch c.accessOf(ns.Group) {
	case wire.ANAInaccessible:
		return wire.AsymmetricAccessInaccessible
	case wire.ANAPersistentLoss:
		return wire.AsymmetricAccessPersistentLoss
	case wire.ANAChange:
		return wire.AsymmetricAccessTransition
	}
	return wire.Success
}

// accessLog returns the log page of asymmetric namespace access: the groups that have namespaces.
func (c *controller) accessLog(groupsOnly bool) []byte {
	members := [MaxGroups + 1][]uint32{}
	for _, id := range c.sub.after(0) {
		if ns := c.sub.namespace(id); ns != nil {
			members[ns.Group] = append(members[ns.Group], id)
		}
	}
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	var groups []wire.ANAGroup
	for id, list := range members {
		if len(list) == 0 {
			continue
		}
		g := wire.ANAGroup{ID: uint32(id), State: c.admin.port.access[id], Namespaces: list}
		if groupsOnly {
			g.Namespaces = nil
		}
		groups = append(groups, g)
	}
	return wire.AppendANA(nil, c.t.accessChanges, groups)
}
