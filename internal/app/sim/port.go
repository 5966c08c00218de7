// SPDX-License-Identifier: Apache-2.0

package sim

// node is a host or a switch.
type node interface {
	// receive takes a packet that has arrived by a port.
	receive(s *Sim, p *packet, in *port)
	// next returns the packet that a port sends next, whose queues may be empty; nil: none.
	next(s *Sim, out *port) *packet
	// more reports whether next may have another packet when the link is free again.
	more(s *Sim, out *port) bool
}

// port is one end of a link: the queues of packets that leave by it, and the buffered bytes of packets that came by it.
type port struct {
	owner  node
	index  int // of the owner's ports
	peer   *port
	rate   float64 // bits per second
	psByte float64 // picoseconds a byte
	delay  Time
	gap    int32   // bytes between packets
	loss   float64 // share of packets that are corrupted on the way

	link   packetList // the packets in flight to the peer
	queues [numClasses]packetList
	bytes  [numClasses]int
	freeAt Time // when the link has sent the present packet
	waking bool // an event is due then
	paused bool // the peer takes no data

	changed  Time // when paused did
	storm    bool // the watchdog has found that the pause does not end
	storming bool // this end has the peer pause
	failures int  // that the link has now
	downAt   Time // when the last one began; -1: there was none

	lanes *[numClasses]lane // InfiniBand's credits; nil: an Ethernet link

	held     int  // bytes of the switch's shared buffer that came by this port
	headroom int  // bytes of its headroom
	stopped  bool // a pause was sent to the peer

	see   func(*Sighting) // its observer; nil: none
	Stats PortStats
	peak  int  // the most bytes of data that were queued since the last sample
	since Time // when the queue of data changed last
}

// PortStats are the counters of a port.
type PortStats struct {
	Packets, Bytes uint64 // sent, of whole frames
	Busy           Time   // the link was sending
	Marked         uint64 // packets
	Trimmed        uint64 // packets whose payload was cut
	Dropped        uint64 // packets that had no room, or waited for the end of a pause storm
	// packets that a failure took: in the queue, on the link, or sent to it since; or that came here and had no path
	Lost     uint64
	Corrupt  uint64 // packets that arrived with errors
	Pauses   uint64 // how often it was told to pause
	Paused   Time   // for how long
	Storms   uint64 // pauses that the watchdog ended
	MaxQueue int    // bytes of data
	area     float64
}

func (p *port) serialize(frame int32) Time { return Time(float64(frame+p.gap) * p.psByte) }

// happen is that the link is free again.
func (p *port) happen(s *Sim) {
	p.waking = false
	p.send(s)
}

// send begins to send the next packet, if the link is free.
func (p *port) send(s *Sim) {
	if p.down() {
		return
	}
	if s.now >= p.freeAt {
		pk := p.owner.next(s, p)
		if p.lanes != nil && pk != nil {
			p.leaves(pk)
		}
		if p.lanes != nil {
			p.holdsBack(s)
		}
		if pk == nil {
			return
		}
		took := p.serialize(pk.size)
		p.freeAt = s.now + took
		p.Stats.Busy += took
		p.Stats.Packets++
		p.Stats.Bytes += uint64(pk.size)
		p.saw(s, Sent, pk)
		pk.at = p.peer
		pk.corrupt = p.loss > 0 && pk.class != classLink && s.rand.Float64() < p.loss
		p.carry(s, pk)
	}
	if !p.waking && p.owner.more(s, p) {
		p.waking = true
		s.at(p.freeAt, p)
	}
}

// carry has a packet arrive at the peer. Packets arrive in the order in which they leave, so only the first packet of a
// link is among the events.
func (p *port) carry(s *Sim, pk *packet) {
	s.seq++
	pk.due, pk.seq = p.freeAt+p.delay, s.seq
	if p.link.head == nil {
		s.events.push(event{pk.due, pk.seq, (*arrival)(p)})
	}
	p.link.push(pk)
}

// arrival is that the first packet that a port's link carries is at its end.
type arrival port

func (a *arrival) happen(s *Sim) {
	pk := a.link.pop()
	if next := a.link.head; next != nil {
		s.events.push(event{next.due, next.seq, a})
	}
	pk.arrive(s)
}

// blocked reports whether a pause holds back a class, or the lack of credits.
func (p *port) blocked(s *Sim, c class) bool {
	if p.lanes != nil {
		return p.starved(c)
	}
	return c == classData && p.paused && !(p.storm && s.config.Switch.Watchdog.Forward)
}

// stuck reports whether data wait that may not leave.
func (p *port) stuck(s *Sim) bool { return p.queues[classData].head != nil && p.blocked(s, classData) }

// queued reports whether a packet could leave.
func (p *port) queued(s *Sim) bool {
	for c := range p.queues {
		if p.queues[c].head != nil && !p.blocked(s, class(c)) {
			return true
		}
	}
	return false
}

// enqueue adds a packet to its queue.
func (p *port) enqueue(s *Sim, pk *packet) {
	c := pk.class
	if c == classData {
		p.queueChanges(s.now)
	}
	p.queues[c].push(pk)
	p.bytes[c] += int(pk.size)
	p.peak = max(p.peak, p.bytes[classData])
	p.Stats.MaxQueue = max(p.Stats.MaxQueue, p.peak)
}

// dequeue removes the packet that leaves next; nil: none may.
func (p *port) dequeue(s *Sim) *packet {
	for c := range p.queues {
		if p.queues[c].head == nil || p.blocked(s, class(c)) {
			continue
		}
		if class(c) == classData {
			p.queueChanges(s.now)
		}
		pk := p.queues[c].pop()
		p.bytes[c] -= int(pk.size)
		return pk
	}
	return nil
}

// queueChanges accounts for the queue's length until now.
func (p *port) queueChanges(now Time) {
	p.Stats.area += float64(p.bytes[classData]) * float64(now-p.since)
	p.since = now
}

// setPaused is that the peer has sent a pause frame.
func (p *port) setPaused(s *Sim, paused bool) {
	if paused == p.paused {
		return
	}
	if paused {
		p.Stats.Pauses++
	} else {
		p.Stats.Paused += s.now - p.changed
	}
	p.paused, p.changed = paused, s.now
	p.watch(s)
	p.send(s)
}

// tell sends the peer a pause frame.
func (p *port) tell(s *Sim, pause bool) {
	if p.down() {
		return
	}
	p.stopped = pause
	pk := s.newPacket()
	pk.class, pk.size, pk.pause = classLink, pauseBytes, pause
	p.enqueue(s, pk)
	p.send(s)
}

// wake has the port look for packets that it may send, after the present event.
func (p *port) wake(s *Sim) {
	if !p.waking {
		p.waking = true
		s.at(max(p.freeAt, s.now), p)
	}
}
