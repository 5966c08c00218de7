// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/sma"
	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
)

// build makes the nodes and cables of a topology.
func (f *Fabric) build(t *topology.Topology, o *Options) error {
	if err := t.Validate(); err != nil {
		return err
	}
	spec, adapters := node.DefaultSpec, o.FirstAddr
	if o.MTU != 0 {
		spec.MTU = o.MTU
	}
	for i, n := range t.Build(spec) {
		m := &member{name: t.Nodes[i].Name, state: n, agent: sma.New(n), groups: make(map[groupKey]*group)}
		if n.Type != node.CA {
			m.node = f.net.Add(n, m.agent)
		} else {
			m.node = f.net.Add(n, adapterAgent{m.agent, m})
			m.addr.ip = hostAddr(adapters)
			if o.Addr != nil {
				m.addr.ip = *o.Addr
			}
			adapters++
		}
		f.members = append(f.members, m)
		f.memberOf[m.node] = m
	}
	f.indexNames()
	for _, l := range t.Links {
		a, b := f.members[l.A.Node].node.Port(l.A.Port), f.members[l.B.Node].node.Port(l.B.Port)
		if _, err := f.net.Plug(f.now(), a, b, 0); err != nil {
			return err
		}
	}
	return nil
}

// indexNames indexes the nodes by name, and by descriptions that are unique.
func (f *Fabric) indexNames() {
	described := make(map[string]int)
	for _, m := range f.members {
		described[m.state.Description]++
	}
	for _, m := range f.members {
		if described[m.state.Description] == 1 {
			f.byName[m.state.Description] = m
		}
	}
	for _, m := range f.members {
		f.byName[m.name] = m
	}
}

// hostAddr returns the IP address of an adapter: the first of a topology is 198.18.0.1. That network is
// for tests between devices (RFC 2544), and hosts have no other use for it.
func hostAddr(i int) netip.Addr {
	n := uint32(198<<24|18<<16) + uint32(i) + 1
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// adapter returns an adapter by name, description or IP address; an empty name means the first that is not in use.
// The lock is held.
func (f *Fabric) adapter(name string) (*member, error) {
	if name == "" {
		for _, m := range f.members {
			if m.state.Type == node.CA && m.attachments == [maxAttachments]*Attachment{} {
				return m, nil
			}
		}
		return nil,
			fmt.Errorf("all adapters of the fabric are in use: name one to share it, or load a topology with more")
	}
	m := f.byName[name]
	if ip, err := netip.ParseAddr(name); m == nil && err == nil {
		for _, o := range f.members {
			if o.addr.ip == ip {
				m = o
			}
		}
	}
	switch {
	case m == nil:
		return nil, fmt.Errorf("the fabric has no adapter %q: %s", name, f.listAdapters())
	case m.state.Type != node.CA:
		return nil, fmt.Errorf("%q is a %v: programs run at adapters; %s", name, m.state.Type, f.listAdapters())
	}
	return m, nil
}

// listAdapters names the fabric's adapters, for an error.
func (f *Fabric) listAdapters() string {
	var names string
	n := 0
	for _, m := range f.members {
		if m.state.Type != node.CA {
			continue
		}
		if n++; n <= 4 {
			if n > 1 {
				names += ", "
			}
			names += m.name
		}
	}
	switch {
	case n == 0:
		return "it has none"
	case n > 4:
		return fmt.Sprintf("there are %s and %d others", names, n-4)
	}
	return "there are " + names
}
