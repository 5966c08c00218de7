// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/core/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// Hold makes a port give no more credits for a lane, as one does whose owner takes no packets; or give
// them again. What the other end was told before holds.
func (n *Net) Hold(now clock.Time, q *Port, vl int, on bool) error {
	if vl < 0 || vl >= node.DataVLs {
		return fmt.Errorf("link: virtual lane %d: those with credits are 0 to %d", vl, node.DataVLs-1)
	}
	n.advance(now)
	lane := uint8(vl)
	if on {
		q.held |= 1 << lane
		return nil
	}
	q.held &^= 1 << lane
	switch {
	case !q.up:
	case q.direct:
		n.tellCredit(q, lane)
	default:
		q.fcDue |= 1 << lane
		n.kick(q)
	}
	return nil
}

// HeldLanes returns the lanes whose credits a port holds back.
func (p *Port) HeldLanes() (lanes []int) {
	for vl := range node.DataVLs {
		if p.held&(1<<vl) != 0 {
			lanes = append(lanes, vl)
		}
	}
	return lanes
}

// AgentDue looks again when the agent of a node wants to send, after somebody has told it of a change.
func (n *Net) AgentDue(nd *Node) { n.agentDue(nd) }
