// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// assignment is a line that says something of a node that has not come yet.
type assignment struct {
	name string
	of   node.Type // whose GUID it is; 0: it is no GUID, and of the next node whatever that is
	at   place
}

// everyType stands for nodes of any type.
const everyType node.Type = 0

// nodeAssignments has the assignments that stand before the line of their node. ibnetdiscover writes all of them
// there, and one GUID. Files of ibsim may begin with the GUIDs from which several types count: caguids= and
// the like wait for the first node of their type.
var nodeAssignments = map[string]node.Type{
	"vendid": everyType, "devid": everyType, "sysimgguid": everyType,
	"switchguid": node.Switch, "switchguids": node.Switch, "rtguid": node.Router, "rtguids": node.Router,
	"caguid": node.CA, "caguids": node.CA, "hcaguid": node.CA, "hcaguids": node.CA,
}

// deferrable reports whether the line may wait while nodes of other types come.
func (s *assignment) deferrable() bool { return strings.HasSuffix(s.name, "guids") }

// deferAssignment records a line about a node that is to come. The record before is over: ports that follow are not
// silently its own.
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

// applyAssignments takes what was said of a node of a type, whose line has come.
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

// checkAssignments refuses lines about nodes that did not come.
func (p *parser) checkAssignments() {
	for _, s := range p.pending {
		p.failAt(s.at, "%s= is about a %s that does not follow: such lines stand before the line of their node", s.name, typeName(s.of))
	}
}

func typeName(t node.Type) string {
	if t == everyType {
		return "node"
	}
	return t.String()
}
