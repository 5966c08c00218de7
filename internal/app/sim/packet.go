// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// class is a packet's traffic class. Ports send a lower one first.
type class uint8

const (
	classLink    class = iota // pause frames of PFC, flow control packets of InfiniBand
	classControl              // acknowledgements and CNPs, where they go first; never paused
	classData                 // paused by PFC, marked by ECN
	numClasses
)

// Bytes of Ethernet around an InfiniBand packet.
const (
	frameBytes = 14 + 20 + 8 + 4 // Ethernet, IPv4 and UDP headers, FCS
	gapBytes   = 8 + 12          // preamble, gap between frames
	// of the transport, around the payload of most packets
	packetBytes = ib.BTHLen + ib.ICRCLen
	minFrame    = 64                                              // the shortest frame
	pauseBytes  = minFrame                                        // a pause frame
	maxHeader   = ib.BTHLen + ib.AtomicETHLen + ib.XRCETHLen + 16 // the most before a payload
)

// packet is a frame on its way. Without payload it has headers alone, and a length.
type packet struct {
	next *packet // in a queue, on a link, or among the free ones
	at   *port   // whose peer it arrives from; in a switch: the port by which it came
	due  Time    // when it arrives
	seq  uint64  // of that event

	size     int32 // bytes of the frame, FCS included
	payload  int32 // bytes of payload and pad
	src, dst int32 // hosts
	run      *run  // the flow of datagrams that it is of, which counts it; else nil
	entropy  uint32
	class    class
	ect      bool // switches may mark it
	marked   bool
	corrupt  bool
	headroom bool  // in a switch: it takes headroom
	pause    bool  // a pause frame: XOFF, else XON
	trimmed  bool  // a switch has cut its payload
	reported bool  // a network card reports the loss of a packet that was trimmed
	response bool  // that was a response
	lane     class // flow control packet: of the lane
	credits  int64 // FCCL

	telemetry bool             // switches write into it
	hops      []congestion.Hop // their records; of an acknowledgement: the records that it brings back

	headLen uint8
	head    [maxHeader]byte
	data    []byte // with payload: all of the packet from BTH to ICRC
}

// packetList is a queue of packets.
type packetList struct{ head, tail *packet }

func (l *packetList) push(p *packet) {
	if l.head == nil {
		l.head = p
	} else {
		l.tail.next = p
	}
	l.tail = p
}

func (l *packetList) pop() *packet {
	p := l.head
	l.head, p.next = p.next, nil
	return p
}

// newPacket returns an empty packet.
func (s *Sim) newPacket() *packet {
	p := s.free
	if p == nil {
		return new(packet)
	}
	s.free = p.next
	*p = packet{data: p.data[:0], hops: p.hops[:0]}
	return p
}

func (s *Sim) release(p *packet) {
	if p.run != nil {
		s.datagramGone(p.run)
	}
	p.next = s.free
	s.free = p
}

// arrive is that p is at the end of its link.
func (p *packet) arrive(s *Sim) {
	s.Packets++
	in := p.at
	switch {
	case in.missed(s.now, p):
		in.peer.Stats.Lost++
		in.peer.saw(s, Lost, p)
		s.release(p)
	case p.class == classLink:
		in.saw(s, Arrived, p)
		if in.lanes != nil {
			in.receiveCredits(s, p)
		} else {
			in.setPaused(s, p.pause)
		}
		s.release(p)
	case p.corrupt:
		if in.lanes != nil {
			in.received(s, p)
		}
		in.Stats.Corrupt++
		in.saw(s, Corrupt, p)
		s.release(p)
	default:
		in.saw(s, Arrived, p)
		if in.lanes != nil {
			in.received(s, p)
		}
		in.owner.receive(s, p, in)
	}
}
