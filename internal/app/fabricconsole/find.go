// SPDX-License-Identifier: Apache-2.0

package fabricconsole

import (
	"fmt"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/app/fabricview"
)

// FindNode returns the node of a view that a text names as in a command: by its name, its description or
// a LID.
func FindNode(v *fabricview.View, text string) (*fabricview.Node, error) {
	t, err := parseTarget(text)
	if err != nil {
		return nil, err
	}
	return find(v, t)
}

// FindPort returns the port that a text names as in a command, host-1 or host-1[2]. Without a number it is
// the first port in use.
func FindPort(v *fabricview.View, text string) (fabricview.End, error) {
	t, err := parseTarget(text)
	if err != nil {
		return fabricview.End{}, err
	}
	e, _, err := port(v, t)
	return e, err
}

// parseTarget reads a node or a port. Names with spaces need no quotes, as nothing else is in the text.
func parseTarget(text string) (target, error) {
	all, err := split(text)
	switch {
	case err != nil:
		return target{}, err
	case len(all) == 1:
		return target{all[0].text, all[0].port}, nil
	case text == "":
		return target{}, fmt.Errorf("the name of a node is missing")
	}
	return target{name: text}, nil
}

// farPort returns the port with the cable to an adapter of another host, which a target names; nil: there is none.
func farPort(v *fabricview.View, t target) (fabricview.End, *fabricview.Port) {
	name := t.name + "["
	if t.port != 0 {
		name = fmt.Sprintf("%s[%d]", t.name, t.port)
	}
	for i := range v.Nodes {
		for j := range v.Nodes[i].Ports {
			if p := &v.Nodes[i].Ports[j]; strings.HasPrefix(p.Far, name) {
				return fabricview.End{Node: v.Nodes[i].Name, Port: p.Number}, p
			}
		}
	}
	return fabricview.End{}, nil
}

// farOf returns the port at an end if it has a cable to another host; nil: it has not.
func farOf(v *fabricview.View, e fabricview.End) *fabricview.Port {
	for i := range v.Nodes {
		for j := range v.Nodes[i].Ports {
			if p := &v.Nodes[i].Ports[j]; v.Nodes[i].Name == e.Node && p.Number == e.Port && p.Far != "" {
				return p
			}
		}
	}
	return nil
}
