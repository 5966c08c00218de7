// SPDX-License-Identifier: Apache-2.0

package sim

// Flow control of InfiniBand links (IBTA volume 1, 7.9.4.4), by counts of blocks of 64 bytes since the link came up. A
// port has a receive buffer for each lane. It sends the other end the count up to which that may send (FCCL): the
// blocks that have arrived (ABR), and the free ones. Nothing is sent beyond, so nothing is dropped. Package link has
// the same for devices, with counts of 12 bits, and the sender's count (FCTBS) by which the credits of lost packets
// come back.

// Framing of a link: bytes of a packet beyond the InfiniBand transport, and between packets.
type framing struct{ frame, gap int32 }

var (
	ethernet   = framing{frameBytes, gapBytes}
	infiniBand = framing{lrhBytes + vcrcBytes, delimiterBytes}
)

// framing returns the links'.
func (c *Config) framing() framing {
	if c.Switch.InfiniBand {
		return infiniBand
	}
	return ethernet
}

// overhead is the room that a packet takes of a link beyond its payload.
func (f framing) overhead() int { return int(f.frame+f.gap) + packetBytes }

const (
	lrhBytes       = 8
	vcrcBytes      = 2
	delimiterBytes = 2 // of a packet's beginning and end
	creditBytes    = 6 // a flow control packet
	blockBytes     = 64
	// minCredits hold two packets of the largest MTU.
	minCredits = 2 * (4096 + 192)
	// maxCredits is the most that a receiver may grant at once: 2,048 blocks (7.9.4.4.2).
	maxCredits = 2048 * blockBytes
	// creditShare of a buffer has to be free, and not granted, before a flow control packet grants it.
	creditShare = 8
)

// lane is the number of the lane that a class of packets has.
func (c class) lane() int { return int(classData - c) }

func blocks(bytes int32) int64 { return (int64(bytes) + blockBytes - 1) / blockBytes }

// lane is both directions of a lane at a port: data have lane 0, packets with priority have lane 1.
type lane struct {
	sent, limit int64 // blocks (FCTBS), and up to which count the other end has room

	size       int64 // blocks of the receive buffer
	used       int64 // of that
	arrived    int64 // ABR
	advertised int64 // FCCL as last sent
	telling    bool  // a flow control packet waits
}

// open has a port begin with empty counts, as a link that comes up does. It may send as much as the other end has room
// for.
func (p *port) open(credits int) {
	for c := range p.lanes {
		l, far := &p.lanes[c], &p.peer.lanes[c]
		l.size = int64(credits / blockBytes)
		l.sent, l.limit = 0, l.size-far.used
		far.arrived, far.advertised = 0, l.limit
	}
}

// starved reports whether the first packet of a class has no credits.
func (p *port) starved(c class) bool {
	l, head := &p.lanes[c], p.queues[c].head
	return c != classLink && head != nil && l.sent+blocks(head.size) > l.limit
}

// holdsBack counts the time in which data wait for credits.
func (p *port) holdsBack(s *Sim) {
	if starved := p.starved(classData); starved && !p.paused {
		p.paused, p.changed = true, s.now
		p.Stats.Pauses++
	} else if !starved && p.paused {
		p.paused = false
		p.Stats.Paused += s.now - p.changed
	}
}

// received takes room for a packet that arrives by p. The room of a corrupt packet, or a packet to a host, is free
// again at once.
func (p *port) received(s *Sim, pk *packet) {
	l, n := &p.lanes[pk.class], blocks(pk.size)
	l.arrived += n
	if _, ok := p.owner.(*fabricSwitch); ok && !pk.corrupt {
		l.used += n
	}
	p.grant(s, pk.class)
}

// released frees the room of a packet that came by p.
func (p *port) released(s *Sim, pk *packet) {
	p.lanes[pk.class].used -= blocks(pk.size)
	p.grant(s, pk.class)
}

// grant sends the other end new credits, if they are worth a packet.
func (p *port) grant(s *Sim, c class) {
	l := &p.lanes[c]
	if l.telling || p.down() || l.limitNow()-l.advertised < max(l.size/creditShare, 1) {
		return
	}
	l.telling = true
	pk := s.newPacket()
	pk.class, pk.size, pk.lane = classLink, creditBytes, c
	p.enqueue(s, pk)
	p.send(s)
}

// limitNow is FCCL: the count up to which the other end may send.
func (l *lane) limitNow() int64 { return l.arrived + l.size - l.used }

// leaves accounts for a packet that begins to leave by p: a flow control packet has the counts of that time.
func (p *port) leaves(pk *packet) {
	if pk.class != classLink {
		p.lanes[pk.class].sent += blocks(pk.size)
		return
	}
	l := &p.lanes[pk.lane]
	l.telling, l.advertised = false, l.limitNow()
	pk.credits = l.advertised
}

// receiveCredits takes a flow control packet.
func (p *port) receiveCredits(s *Sim, pk *packet) {
	p.lanes[pk.lane].limit = pk.credits
	p.holdsBack(s)
	p.send(s)
}
