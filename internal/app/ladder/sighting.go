// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"regexp"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
)

// point is the place of a recording of a packet: as it left, as it arrived, or at the port of a fabric's node.
type point string

const (
	leaving  point = "out"
	arriving point = "in"
)

// onCable is how a recording of a fabric's cables comments its packets: "from leaf-1[3]".
var onCable = regexp.MustCompile(`^from (\S+)\[(\d+)\]$`)

// pointOf returns where a packet was recorded; nothing if the capture does not tell. With it comes the node, if it is
// one of a fabric.
func pointOf(p *capture.Packet) (at point, node string) {
	if p.Fabric == capture.InfiniBand && p.Comment != "" {
		if m := onCable.FindStringSubmatch(p.Comment); m != nil {
			return point("node " + m[1]), m[1]
		}
	}
	switch p.Direction {
	case capture.Outbound:
		return leaving, ""
	case capture.Inbound:
		return arriving, ""
	}
	return "", ""
}

// sightings finds the sightings that belong to one packet. Two packets of the same bytes are distinguished by being
// seen twice at the same point.
type sightings struct {
	recent, older map[sightingKey][]*sighting // two generations; a packet that neither has counts as a new one
	n             int
	forgotten     func(*sighting) // is told of each that will not be found any more; may be nil
}

type sightingKey struct {
	sum  uint64
	from capture.Host
}

// sighting is a packet that was seen.
type sighting struct {
	points []point
	event  *event // of a drawing

	// Of a survey: where it is counted.
	conv    *Conversation
	flow    *flow
	at      time.Time
	counted bool // it is counted as lost
}

// lostComment is the comment on lost packets in the recording of a network that loses some.
const lostComment = "lost"

// lost reports whether a packet was recorded as it left, where both ends were, and did not arrive.
func (g *sighting) lost() bool {
	return g.flow != nil && !g.counted && g.flow.both && len(g.points) == 1 && g.points[0] == leaving
}

// maxSightings is how many packets a generation has; a packet's sightings are less far apart.
const maxSightings = 8192

// find returns the packet that was seen before at another point, or nil and has it remembered.
func (s *sightings) find(p *capture.Packet, at point) (*sighting, bool) {
	if s.recent == nil || s.n >= maxSightings {
		s.drop(s.older)
		s.older, s.recent, s.n = s.recent, make(map[sightingKey][]*sighting), 0
	}
	k := sightingKey{p.Sum, p.From}
	for _, generation := range []map[sightingKey][]*sighting{s.older, s.recent} {
		for _, g := range generation[k] {
			if !g.seen(at) {
				g.points = append(g.points, at)
				return g, true
			}
		}
	}
	g := &sighting{points: []point{at}}
	s.recent[k] = append(s.recent[k], g)
	s.n++
	return g, false
}

func (g *sighting) seen(p point) bool {
	for _, q := range g.points {
		if q == p {
			return true
		}
	}
	return false
}

// forget forgets all sightings.
func (s *sightings) forget() {
	s.drop(s.older)
	s.drop(s.recent)
	s.older, s.recent, s.n = nil, nil, 0
}

func (s *sightings) drop(generation map[sightingKey][]*sighting) {
	if s.forgotten == nil {
		return
	}
	for _, all := range generation {
		for _, g := range all {
			s.forgotten(g)
		}
	}
}
