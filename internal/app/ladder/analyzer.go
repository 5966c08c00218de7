// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// maxFlows is how many flows are followed.
const maxFlows = 1 << 16

// analyzer follows the flows of a capture.
type analyzer struct {
	flows map[flowKey]*flow
	list  []*flow
	seen  sightings
	pairs *pairing // while the survey runs
	lost  int      // packets of flows beyond maxFlows

	anyCRC bool // CRCs are not looked at
}

func newAnalyzer() *analyzer { return &analyzer{flows: make(map[flowKey]*flow)} }

// flow returns a packet's flow, or nil if there are too many.
func (a *analyzer) flow(k flowKey) *flow {
	f := a.flows[k]
	if f == nil && len(a.list) < maxFlows {
		f = &flow{key: k, order: len(a.list)}
		a.flows[k] = f
		a.list = append(a.list, f)
		if k.datagram || k.fabric == capture.IWARP {
			if g := a.flows[k.reply()]; g != nil && g != f {
				f.peer, g.peer = g, f
			}
		}
	}
	return f
}

// step takes a packet. It returns the sighting of which this one is another, if there is one: then the finding is only
// which faults were injected there.
func (a *analyzer) step(p *capture.Packet) (f *flow, r finding, g *sighting, again bool) {
	f = a.flow(keyOf(p))
	if f == nil {
		a.lost++
		return nil, r, nil, false
	}
	injected := faults.OfComment(p.Comment)
	if p.Fabric == capture.IWARP { // a comment is of several segments, on their way out or in
		p.BadCRC = p.BadCRC && !a.anyCRC
		r = f.item(p)
		r.injectStream(injected)
		return f, r, nil, false
	}
	p.BadCRC = p.BadCRC && !a.anyCRC || injected.Has(faults.Corrupt)
	if at, _ := pointOf(p); at != "" {
		if g, again = a.seen.find(p, at); again {
			f.both = f.both || at == leaving || at == arriving
			r.inject(injected)
			return f, r, g, true
		}
	}
	r = f.packet(p, injected)
	r.inject(injected)
	if a, _, _, _, ok := message(p); ok && a == mad.AttrREJ {
		r.marks |= Rejected
	}
	if a.pairs != nil {
		a.pairs.packet(f, p)
	}
	return f, r, g, false
}

// inject notes faults that were injected.
func (r *finding) inject(k faults.Kinds) {
	r.injectStream(k)
	if k.Lost() {
		r.marks |= Lost
	}
}

// injectStream is inject for a stream, which loses nothing: a partition holds its bytes back.
func (r *finding) injectStream(k faults.Kinds) {
	if k != 0 {
		r.marks |= Injected
		r.injected = k.Comment()
	}
}

// item takes an item of an iWARP connection.
func (f *flow) item(p *capture.Packet) (r finding) {
	if f.packets == 0 {
		f.first = p.At
	}
	f.packets++
	f.last = p.At
	r.lastPSN = ib.PSN(0)
	switch p.Stream.Kind {
	case capture.TCPRetransmit:
		r.marks |= TCPRetransmission
	case capture.TCPHole:
		r.marks |= NotCaptured
	case capture.MalformedStream:
		r.marks |= Malformed
	case capture.TCPReset:
		r.marks |= Reset
	case capture.SetUp:
		if rejects(p.Stream) {
			r.marks |= Rejected
		}
	case capture.Segment:
		if terminates(p.Stream) {
			r.marks |= Terminated
		}
	}
	if p.BadCRC {
		r.marks |= BadCRC
	}
	if p.CE {
		r.marks |= CongestionMark
	}
	return r
}
