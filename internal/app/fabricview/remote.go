// SPDX-License-Identifier: Apache-2.0

package fabricview

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// maxRemoteCables limits the cables to other hosts that a picture lists.
const maxRemoteCables = 12

// describeRemote describes the cable from a port to another host's fabric.
func (x *index) describeRemote(n *Node, p *Port) string {
	s := fmt.Sprintf("%s[%d] – %s %s", x.label(End{Node: n.Name}), p.Number, p.Far, p.State)
	if x.view.Measured > 0 && p.State == Active {
		s += fmt.Sprintf(", → %s, ← %s", units.Rate(p.Traffic.Sent), units.Rate(p.Traffic.Received))
	}
	return s
}

// remoteCables describes the cables to other hosts' fabrics, which a picture cannot draw.
func (x *index) remoteCables() (lines []string) {
	more := 0
	for i := range x.view.Nodes {
		n := &x.view.Nodes[i]
		for j := range n.Ports {
			switch p := &n.Ports[j]; {
			case p.Far == "":
			case len(lines) < maxRemoteCables:
				lines = append(lines, x.describeRemote(n, p))
			default:
				more++
			}
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more to other hosts", more))
	}
	return lines
}
