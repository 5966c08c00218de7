// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"github.com/ramjet-rdma/ramjet/internal/core/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/sma"
)

// agent is the management agent of a node as the link layer calls it.
type agent struct{ *sma.Agent }

// HandleSMP handles a subnet management packet.
func (a agent) HandleSMP(now clock.Time, in int, r link.Route, b []byte) link.Verdict {
	return link.Verdict(a.Agent.HandleSMP(now, in, sma.Route(r), b))
}
