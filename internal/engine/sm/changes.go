// SPDX-License-Identifier: Apache-2.0

package sm

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// maxChanges is how many changes per sweep have an event each: one cable may take a thousand nodes away.
const maxChanges = 16

// changes emits the changes between two sweeps.
type changes struct {
	m     *Manager
	count int
}

func (c *changes) add(e Event) {
	if c.count++; c.count <= maxChanges {
		c.m.emit(e)
	}
}

// reportChanges emits the differences from the last complete sweep.
func (m *Manager) reportChanges(f *fabric) {
	old := m.fabric
	if old == nil {
		return // the first sweep
	}
	c := changes{m: m}
	for _, d := range old.devices {
		if f.byGUID[d.info.NodeGUID] == nil {
			c.add(nodeEvent(NodeGone, d, 0))
		}
	}
	for _, d := range f.devices {
		if old.byGUID[d.info.NodeGUID] == nil {
			c.add(nodeEvent(NodeFound, d, 0))
		}
	}
	old.eachLink(func(p *port) {
		if f.link(p) == nil {
			c.add(linkEvent(LinkGone, p))
		}
	})
	f.eachLink(func(p *port) {
		switch was := old.link(p); {
		case was == nil:
			c.add(linkEvent(LinkFound, p))
		case was.state() == node.Active && p.state() == node.Initialize:
			c.add(linkEvent(LinkReturned, p))
		}
	})
	if c.count > maxChanges {
		m.emit(Event{Kind: MoreChanges, Count: c.count - maxChanges})
	}
}

func linkEvent(kind EventKind, p *port) Event {
	e := nodeEvent(kind, p.dev, p.num)
	e.Text = fmt.Sprintf("port %d of %q", p.peer.num, p.peer.dev.desc.String())
	return e
}

// eachLink calls do with one end of each link whose ports are both known.
func (f *fabric) eachLink(do func(*port)) {
	for _, d := range f.devices {
		for n := range d.ports {
			p := &d.ports[n]
			if !p.linked() || !p.known {
				continue
			}
			if q := p.peer; q.known && (q.dev.info.NodeGUID < d.info.NodeGUID || q.dev == d && q.num < p.num) {
				continue // counted from the other end
			}
			do(p)
		}
	}
}

// link returns the port that has the same link as a port of another sweep; nil: there is none.
func (f *fabric) link(p *port) *port {
	d := f.byGUID[p.dev.info.NodeGUID]
	if d == nil || int(p.num) >= len(d.ports) {
		return nil
	}
	q := &d.ports[p.num]
	if !q.linked() || q.peer.dev.info.NodeGUID != p.peer.dev.info.NodeGUID || q.peer.num != p.peer.num {
		return nil
	}
	return q
}
