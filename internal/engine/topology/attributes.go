// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// assignment is a line about a node whose own line comes later.
type assignment struct {
	name string
	of   node.Type // the type of the node if the line sets its GUID; everyType: the next node of any type
	at   place
}

// everyType means nodes of any type.
const everyType node.Type = 0

// nodeAssignments are the assignments that precede the line of their node. ibnetdiscover writes them right before it,
// with one GUID. Files for ibsim may begin with the first GUIDs of several types: caguids= and the like apply to the
// next node of their type.
var nodeAssignments = map[string]node.Type{
	"vendid": everyType, "devid": everyType, "sysimgguid": everyType,
	"switchguid": node.Switch, "switchguids": node.Switch, "rtguid": node.Router, "rtguids": node.Router,
	"caguid": node.CA, "caguids": node.CA, "hcaguid": node.CA, "hcaguids": node.CA,
}

// deferrable reports whether nodes of other types may come first.
func (s *assignment) deferrable() bool { return strings.HasSuffix(s.name, "guids") }

// deferAssignment records an assignment for a later node. It ends the current record, so that ports that follow are
// not silently added to it.
func (p *parser) deferAssignment(name string, of node.Type) error {
	for _, s := range p.pending {
		if s.name == name || of != everyType && s.of == of {
			return fmt.Errorf("%s= is about the next %s, as %s= at %v is: such lines stand before the line of their node, each once", name, typeName(of), s.name, s.at)
		}
	}
	p.pending = append(p.pending, assignment{name, of, place{p.file, p.line}})
	p.current = noNode
	return nil
}

// applyAssignments removes the pending assignments that apply to a node of a type, whose line has come.
func (p *parser) applyAssignments(t node.Type) error {
	for _, s := range p.pending {
		if s.of != everyType && s.of != t && !s.deferrable() {
			return fmt.Errorf("%s= at %v is a %v's, but this is a %v: such a line stands right before its node (%ss= waits for the next one)",
				s.name, s.at, s.of, t, s.name)
		}
	}
	p.pending = slices.DeleteFunc(p.pending, func(s assignment) bool { return s.of == everyType || s.of == t })
	return nil
}

// checkAssignments reports assignments whose node never came.
func (p *parser) checkAssignments() {
	for _, s := range p.pending {
		p.failAt(s.at, "%s= is about a %s that does not follow: such lines stand before the line of their node", s.name,
			typeName(s.of))
	}
}

func typeName(t node.Type) string {
	if t == everyType {
		return "node"
	}
	return t.String()
}
