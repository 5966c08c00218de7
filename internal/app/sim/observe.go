// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// What is the kind of a packet's event at a port.
type What uint8

const (
	Sent    What = iota // it begins to leave by the port
	Arrived             // by the port
	Corrupt             // it arrived with errors
	Dropped             // it found no room in the port's queue, or a pause storm there
	Trimmed             // its payload was cut: the port's queue was too long for it
	Lost                // to a failure of the port's link
)

func (w What) String() string {
	return [...]string{"sent", "arrived", "corrupt", "dropped", "trimmed", "lost"}[w]
}

// Sighting is an event of a packet at a port that is observed. It is valid until the observer returns.
type Sighting struct {
	At    Time
	What  What
	Node  string // whose port it is
	Peer  string // at the other end of its link
	Queue int    // bytes of data that wait at the port

	sim    *Sim
	packet *packet
}

// Observe calls see for all events of packets at a node's ports, such as "host 3" or "switch 0", or at its ports that
// lead to another node: "switch 0 - switch 4".
func (s *Sim) Observe(where string, see func(*Sighting)) error {
	from, to, link := strings.Cut(where, " - ")
	found := false
	look := func(p *port) {
		if p.node() == from && (!link || p.peer.node() == to) {
			p.see, found = see, true
		}
	}
	for _, h := range s.hosts {
		look(h.port)
	}
	for _, w := range s.switches {
		for _, p := range w.ports {
			look(p)
		}
	}
	if !found {
		return fmt.Errorf("there is no %q: give a node such as host 3 or switch 1, or a link such as \"host 3 - switch 1\", of %s and %s, each from 0",
			where, units.Plural(len(s.hosts), "host"), units.Plural(len(s.switches), "switch"))
	}
	return nil
}

// saw tells the port's observer.
func (p *port) saw(s *Sim, what What, pk *packet) {
	if p.see != nil {
		p.see(&Sighting{At: s.now, What: what, Node: p.node(), Peer: p.peer.node(), Queue: p.bytes[classData], sim: s,
			packet: pk})
	}
}

// Pause reports whether the packet is a pause frame of PFC, and whether that begins or ends a pause.
func (o *Sighting) Pause() (isPause, begins bool) {
	return o.packet.class == classLink && !o.Credits(), o.packet.pause
}

// Credits reports whether the packet is a flow control packet of InfiniBand.
func (o *Sighting) Credits() bool {
	return o.packet.class == classLink && o.sim.config.Switch.InfiniBand
}

// Addrs returns the packet's addresses and UDP ports.
func (o *Sighting) Addrs() (src, dst netip.AddrPort) {
	return addrs(o.packet.src, o.packet.dst, o.packet.entropy)
}

// TOS returns the byte of the IP header that has the ECN field.
func (o *Sighting) TOS() uint8 {
	switch p := o.packet; {
	case p.marked:
		return 3 // CE
	case p.ect:
		return 2 // ECT(0)
	}
	return 0
}

// Append appends the packet from BTH to ICRC. Where the simulation has no payload, it is zeroes.
func (o *Sighting) Append(b []byte) []byte {
	p := o.packet
	if o.sim.config.Payload && !p.trimmed {
		return append(b, p.data...)
	}
	start := len(b)
	b = append(b, p.head[:p.headLen]...)
	b = append(b, make([]byte, p.payload)...)
	flow := o.sim.flowOf(p.src, p.dst, p.entropy)
	return ib.AppendICRC(b, start, flow.Seed(8+len(b)-start+ib.ICRCLen, 0))
}

// String returns a line of text.
func (o *Sighting) String() string {
	p := o.packet
	where := fmt.Sprintf("%d.%03d ns  %s - %s: %v", o.At/Nanosecond, o.At%Nanosecond, o.Node, o.Peer, o.What)
	if o.Credits() {
		return fmt.Sprintf("%s flow control, VL %d, FCCL %d", where, p.lane.lane(), p.credits)
	}
	if p.class == classLink {
		return fmt.Sprintf("%s pause %v", where, map[bool]string{true: "XOFF", false: "XON"}[p.pause])
	}
	var in ib.Packet
	if err := in.Decode(slices.Concat(p.head[:p.headLen], make([]byte, p.payload))); err != nil &&
		!(p.trimmed && err == ib.ErrLength) {
		return fmt.Sprintf("%s %v", where, err)
	}
	line := fmt.Sprintf("%s %v host %d > host %d, QP %d, PSN %d, %d B, queue %d B", where, in.Opcode, p.src, p.dst,
		in.DestQP, in.PSN, p.size, o.Queue)
	if in.Opcode.Info().Class == ib.ClassAck {
		line += ", " + in.AETH.Syndrome.String()
	}
	if p.marked {
		line += ", CE"
	}
	switch {
	case p.reported:
		line += ", lost"
	case p.trimmed:
		line += ", trimmed"
	}
	return line
}
