// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// pairing finds the two flows of each connected pair of queue pairs by their responses, which have PSNs of requests in
// the other direction.
type pairing struct {
	requests map[requestKey]*flow // nil: of several
	votes    map[[2]*flow]int     // responses' flow, requests' flow
}

type requestKey struct {
	fabric   capture.Fabric
	from, to capture.Host
	psn      ib.PSN
}

const (
	maxRequests = 1 << 16 // requests that are remembered
	enoughVotes = 3       // with so many, a pair is certain: PSNs begin at random
)

func newPairing() *pairing {
	return &pairing{requests: make(map[requestKey]*flow), votes: make(map[[2]*flow]int)}
}

func (s *pairing) packet(f *flow, p *capture.Packet) {
	if f.key.datagram || f.peer != nil || p.Broken != "" {
		return
	}
	class := p.IB.Opcode.Info().Class
	switch {
	case class.Request():
		if len(s.requests) >= maxRequests {
			clear(s.requests)
		}
		k := requestKey{f.key.fabric, f.key.from, f.key.to, p.IB.PSN}
		if g, taken := s.requests[k]; taken && g != f {
			f = nil
		}
		s.requests[k] = f
	case class.Response():
		q := s.requests[requestKey{f.key.fabric, f.key.to, f.key.from, p.IB.PSN}]
		if q == nil || q.peer != nil || q.service != p.IB.Opcode.Transport() {
			return
		}
		pair := [2]*flow{f, q}
		if s.votes[pair]++; s.votes[pair] >= enoughVotes {
			f.peer, q.peer = q, f
		}
	}
}

// finish pairs the flows that are left: by the votes that there are, and then where there is no other candidate.
func (s *pairing) finish(list []*flow) {
	best := make(map[*flow]*flow)
	for pair, n := range s.votes {
		for i, f := range pair {
			g := pair[1-i]
			if h := best[f]; h == nil || s.count(f, h) < n || s.count(f, h) == n && g.order < h.order {
				best[f] = g
			}
		}
	}
	for f, g := range best {
		if f.peer == nil && g.peer == nil && best[g] == f {
			f.peer, g.peer = g, f
		}
	}
	only := func(f *flow) *flow {
		var found *flow
		for _, g := range list {
			if g.peer == nil && g != f && opposite(f, g) {
				if found != nil {
					return nil
				}
				found = g
			}
		}
		return found
	}
	alone := make([]*flow, 0, len(list))
	for _, f := range list {
		if f.peer == nil && f.known && !f.key.datagram && f.key.fabric != capture.IWARP {
			alone = append(alone, f)
		}
	}
	if len(alone) > maxAlone {
		return
	}
	list = alone
	for _, f := range alone {
		if f.peer == nil {
			if g := only(f); g != nil && only(g) == f {
				f.peer, g.peer = g, f
			}
		}
	}
}

// maxAlone is up to how many flows without a peer candidates are looked for among all others.
const maxAlone = 1024

func (s *pairing) count(f, g *flow) int {
	return max(s.votes[[2]*flow{f, g}], s.votes[[2]*flow{g, f}])
}

// opposite reports whether two flows may be a pair: of the same service, in opposite directions, at the same time.
func opposite(f, g *flow) bool {
	return f.key.fabric == g.key.fabric && f.key.from == g.key.to && f.key.to == g.key.from && f.service == g.service &&
		!f.first.After(g.last) && !g.first.After(f.last)
}
