// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// connect builds the links from the ports' lines.
func (p *parser) connect() {
	at := make(map[End]int, len(p.cableEnds)) // index of the line of each port
	for i, c := range p.cableEnds {
		if other, twice := at[c.end]; twice {
			p.failAt(c.at, "port %d of %q is at %v already: a port has one cable", c.end.Port, p.name(c.end),
				p.cableEnds[other].at)
			continue
		}
		at[c.end] = i
	}
	taken := make(map[End]place) // ports with a link, and the line it is from
	for i := range p.cableEnds {
		c := &p.cableEnds[i]
		if first := at[c.end]; c.alias || c.free || first != i {
			continue
		}
		remote, ok := p.resolve(c)
		if !ok {
			continue
		}
		if remote == c.end {
			p.failAt(c.at, "port %d of %q has its own other end: a cable connects two ports", c.end.Port, p.name(c.end))
			continue
		}
		l := Link{A: c.end, B: remote}
		width, speed := c.width, c.speed
		if j, listed := at[remote]; listed {
			d := &p.cableEnds[j]
			if !d.alias && (d.free || !p.connectsTo(d, c.end)) {
				p.contradiction(c, d)
				continue
			}
			if !d.alias && j < i {
				continue // built from the other end's line
			}
			if width, speed, ok = common(c, d); !ok {
				p.failAt(d.at, "port %d of %q and port %d of %q (%v) have no width and speed in common: change w=, s= or e= of one", d.end.Port, p.name(d.end), c.end.Port, p.name(c.end), c.at)
				continue
			}
		}
		if other, twice := taken[remote]; twice {
			p.failAt(c.at, "port %d of %q has a cable already, by %v: a port has one", remote.Port, p.name(remote),
				other)
			continue
		}
		taken[remote], taken[c.end] = c.at, c.at
		l.Width, l.Speed = width.Widest(), speed.Fastest()
		p.topology.Links = append(p.topology.Links, l)
	}
	p.topology.sortLinks()
}

func (p *parser) name(e End) string { return p.topology.Nodes[e.Node].Name }

// resolve finds the port that a line names as its other end, and sets the GUID that the line gives it.
func (p *parser) resolve(c *cableEnd) (End, bool) {
	remote, ok := p.target(c)
	if !ok {
		return End{}, false
	}
	n := &p.topology.Nodes[remote.Node]
	if remote.Port > n.NumPorts() {
		p.failAt(c.at, "there is no port %d at %q: it has ports 1 to %d", remote.Port, n.Name, n.NumPorts())
		return End{}, false
	}
	if c.remoteGUID != 0 && n.Type != node.Switch {
		port := &n.Ports[remote.Port]
		if port.GUID != 0 && port.GUID != c.remoteGUID {
			p.failAt(c.at, "port %d of %q has the GUID %#x here and %#x in the record of its node: correct one",
				remote.Port, n.Name, c.remoteGUID, port.GUID)
			return End{}, false
		}
		port.GUID = c.remoteGUID
	}
	return remote, true
}

// target is resolve without checks.
func (p *parser) target(c *cableEnd) (End, bool) {
	if strings.Contains(c.remote, "@") {
		name := c.remote
		if name[0] == '@' {
			name = strings.TrimSuffix(c.prefix, "#") + name
		}
		i, ok := p.aliases[name]
		if !ok {
			p.failAt(c.at, "there is no alias %q: declare it in the record of its node, as in: @[1] \"uplink\"", name)
			return End{}, false
		}
		return p.cableEnds[i].end, true
	}
	name := c.remote
	if !strings.Contains(name, "#") {
		name = c.prefix + name
	}
	i, ok := p.nodes[name]
	if !ok {
		p.failAt(c.at, "there is no node %q, to which port %d of %q is connected: add its record, or correct the name",
			name, c.end.Port, p.name(c.end))
		return End{}, false
	}
	return End{i, c.remotePort}, true
}

// connectsTo reports whether a line's other end is e. Errors in the line are reported elsewhere.
func (p *parser) connectsTo(c *cableEnd, e End) bool {
	errs := len(p.errs)
	remote, ok := p.target(c)
	p.errs = p.errs[:errs]
	return ok && remote == e
}

// contradiction reports that two lines disagree about a cable.
func (p *parser) contradiction(c, d *cableEnd) {
	if d.free {
		p.failAt(c.at,
			"port %d of %q is connected to port %d of %q, whose line (%v) has no cable: both ends must say the same",
			c.end.Port, p.name(c.end), d.end.Port, p.name(d.end), d.at)
		return
	}
	p.failAt(c.at,
		"port %d of %q is connected to port %d of %q, but that one to port %d of %q (%v): both ends must say the same",
		c.end.Port, p.name(c.end), d.end.Port, p.name(d.end), d.remotePort, d.remote, d.at)
}

// common returns the widths and speeds that both ends support; 0: any.
func common(c, d *cableEnd) (w node.Width, s node.Speed, ok bool) {
	w, s = c.width&d.width, c.speed&d.speed
	if c.width == 0 || d.width == 0 {
		w = c.width | d.width
	} else if w == 0 {
		return 0, 0, false
	}
	if c.speed == 0 || d.speed == 0 {
		s = c.speed | d.speed
	} else if s == 0 {
		return 0, 0, false
	}
	return w, s, true
}

// portGUIDs assigns GUIDs to the ports that have one and whose lines give none, and checks that all are unique.
func (p *parser) portGUIDs() {
	owners := make(map[uint64]End)
	for i := range p.topology.Nodes {
		for num, port := range p.topology.Nodes[i].Ports {
			if port.GUID == 0 {
				continue
			}
			if other, taken := owners[port.GUID]; taken {
				p.failAt(p.places[i], "port %d of %q has the GUID %#x, which port %d of %q has already: GUIDs are unique", num, p.name(End{i, num}), port.GUID, other.Port, p.name(other))
				return
			}
			owners[port.GUID] = End{i, num}
		}
	}
	for i := range p.topology.Nodes {
		n := &p.topology.Nodes[i]
		for num := range n.Ports {
			if n.Ports[num].GUID != 0 || !n.hasGUID(num) {
				continue
			}
			guid := n.GUID + uint64(num)
			for _, taken := owners[guid]; taken || guid == 0; _, taken = owners[guid] {
				guid = p.spare
				p.spare++
			}
			n.Ports[num].GUID = guid
			owners[guid] = End{i, num}
		}
	}
}
