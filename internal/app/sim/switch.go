// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
)

// SwitchConfig is how Ethernet switches behave.
type SwitchConfig struct {
	InfiniBand bool    // links with credits; the fields that follow up to Watchdog are Ethernet's
	Credits    int     // InfiniBand: bytes of a port's receive buffer for each lane
	Buffer     int     // bytes, shared by all ports
	PFC        bool    // data is paused before the buffer is full; else it is dropped
	Alpha      float64 // a port may take so much of the free buffer, as a multiple (dynamic threshold)
	AlphaRate  float64 // bits per second of the port that Alpha is for, in proportion; 0: for all
	XOn        int     // bytes below the threshold at which a pause ends
	Headroom   int     // bytes a port for packets that arrive after a pause was sent; 0: by rate and delay
	ECN        ECN
	Watchdog   Watchdog
	Reroute    Time // from a failure, or its end, to when all switches choose paths accordingly
	Trim       int  // bytes of data in a port's queue beyond which payload is cut; 0: it never is
	Spray      bool // choose among equal paths for each packet, else for each flow
}

// ECN is by which queue lengths data is marked (RED).
type ECN struct {
	KMin, KMax int     // bytes; a KMax of 0: nothing is marked
	PMax       float64 // the share marked at KMax; beyond, all is
	Rate       float64 // bits per second of the port that KMin and KMax are for, in proportion; 0: for all
}

// probability returns the share of packets marked at a queue length.
func (e *ECN) probability(queue int, rate float64) float64 {
	scale := 1.0
	if e.Rate > 0 {
		scale = rate / e.Rate
	}
	q, kmin, kmax := float64(queue), float64(e.KMin)*scale, float64(e.KMax)*scale
	switch {
	case e.KMax == 0 || q <= kmin:
		return 0
	case q > kmax:
		return 1
	}
	return e.PMax * (q - kmin) / (kmax - kmin)
}

// fabricSwitch is a switch with output queues in a shared buffer.
type fabricSwitch struct {
	name   string
	ports  []*port
	config *SwitchConfig
	routes [][]uint16 // ports towards an edge, by its number
	local  []int32    // by host: the port that it is at, plus one; nil: it has no hosts
	edge   int        // its own number; -1: it has no hosts
	seed   uint32
	shared int // bytes of the buffer that are not headroom
	used   int
}

// start sets the headroom aside.
func (w *fabricSwitch) start() {
	if w.config.InfiniBand {
		return
	}
	w.shared = w.config.Buffer
	if w.config.PFC {
		for _, p := range w.ports {
			w.shared -= w.roomAfterPause(p)
		}
	}
	w.shared = max(w.shared, 0)
}

// roomAfterPause is the number of bytes that may still arrive by a port after it has sent a pause: the bytes in flight
// both ways, and the packets that both ends have begun to send.
func (w *fabricSwitch) roomAfterPause(p *port) int {
	if w.config.Headroom > 0 {
		return w.config.Headroom
	}
	const packets = 3 * (4096 + 128)
	return int(2*float64(p.delay)/p.psByte) + packets
}

// limit is a port's dynamic threshold, of Choudhury and Hahne: a multiple of the free room.
func (w *fabricSwitch) limit(p *port) int {
	alpha := w.config.Alpha
	if w.config.AlphaRate > 0 {
		alpha *= p.rate / w.config.AlphaRate
	}
	return int(alpha * float64(w.shared-w.used))
}

func (w *fabricSwitch) receive(s *Sim, p *packet, in *port) {
	out := w.route(s, p)
	if out != nil && w.cuts(p, out) {
		p.cut()
		out.Stats.Trimmed++
		out.saw(s, Trimmed, p)
	}
	size := int(p.size)
	switch {
	case out == nil:
		in.Stats.Lost++
		s.discard(p, in, in, Lost)
		return
	case out.down():
		out.Stats.Lost++
		s.discard(p, in, out, Lost)
		return
	case out.storm && p.class == classData && !w.config.Watchdog.Forward:
		out.Stats.Dropped++
		s.discard(p, in, out, Dropped)
		return
	case in.lanes != nil: // there is room: it had credits
	case p.class == classData && w.config.PFC:
		if in.held+size > w.limit(in) {
			if in.headroom+size > w.roomAfterPause(in) {
				out.Stats.Dropped++
				s.discard(p, in, out, Dropped)
				return
			}
			p.headroom = true
			in.headroom += size
			if !in.stopped {
				in.tell(s, true)
			}
		} else {
			in.held += size
			w.used += size
		}
	case w.used+size > w.shared || p.class == classData && out.bytes[classData]+size > w.limit(out):
		out.Stats.Dropped++
		s.discard(p, in, out, Dropped)
		return
	default:
		in.held += size
		w.used += size
	}
	p.at = in
	out.enqueue(s, p)
	out.send(s)
}

// discard drops a packet that came by a port, as another one's observer sees.
func (s *Sim) discard(p *packet, in, at *port, why What) {
	at.saw(s, why, p)
	if in.lanes != nil {
		in.released(s, p)
	}
	s.release(p)
}

// route returns the port by which a packet leaves; nil: there is none.
func (w *fabricSwitch) route(s *Sim, p *packet) *port {
	edge := s.edgeOf[p.dst]
	if int(edge) == w.edge {
		return w.ports[w.local[p.dst]-1]
	}
	among := w.routes[edge]
	switch n := uint32(len(among)); {
	case n == 0:
		return nil
	case n == 1:
		return w.ports[among[0]]
	case w.config.Spray:
		return w.ports[among[s.rand.Uint32N(n)]]
	default:
		return w.ports[among[uint64(mix(p.entropy^w.seed))*uint64(n)>>32]]
	}
}

// mix hashes 32 bits (the finalizer of MurmurHash3).
func mix(h uint32) uint32 {
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return h ^ h>>16
}

func (w *fabricSwitch) next(s *Sim, out *port) *packet {
	length := out.bytes[classData]
	p := out.dequeue(s)
	if p == nil || p.class == classLink {
		return p
	}
	if p.class == classData && p.ect && !p.marked {
		if share := w.config.ECN.probability(length, out.rate); share > 0 && s.rand.Float64() < share {
			p.marked = true
			out.Stats.Marked++
		}
	}
	p.write(s, out)
	w.leaves(s, p)
	return p
}

// leaves frees a packet's room in the buffer. It may end a pause of the peer that had sent it.
func (w *fabricSwitch) leaves(s *Sim, p *packet) {
	in, size := p.at, int(p.size)
	if in.lanes != nil {
		in.released(s, p)
		return
	}
	if p.headroom {
		in.headroom -= size
		p.headroom = false
	} else {
		in.held -= size
		w.used -= size
	}
	if in.stopped && in.headroom == 0 && (in.held == 0 || in.held <= w.limit(in)-w.config.XOn) {
		in.tell(s, false)
	}
}

func (w *fabricSwitch) more(s *Sim, out *port) bool { return out.queued(s) }

// check returns the first error in a configuration.
func (c *SwitchConfig) check() string {
	switch {
	case c.InfiniBand && (c.Credits < minCredits || c.Credits > maxCredits):
		return fmt.Sprintf("switch.credits has to be %d to %d bytes: two packets, and what InfiniBand can grant",
			minCredits, maxCredits)
	case c.InfiniBand && c.Trim > 0:
		return "switch.trim is for Ethernet: with credits no queue is too long for a packet"
	case c.Buffer <= 0:
		return "switch.buffer has to be above 0"
	case !(c.Alpha > 0) || math.IsInf(c.Alpha, 0):
		return "switch.alpha has to be above 0"
	case !(c.AlphaRate >= 0) || math.IsInf(c.AlphaRate, 0):
		return "switch.alpha_rate is a rate from 0"
	case c.ECN.KMin < 0 || c.ECN.KMax != 0 && c.ECN.KMax < c.ECN.KMin:
		return "switch.ecn: kmax has to be at least kmin"
	case c.Watchdog.Detect < 0 || c.Watchdog.Restore < 0 || c.Reroute < 0:
		return "switch.watchdog and switch.reroute are times from 0"
	case !(c.ECN.PMax >= 0 && c.ECN.PMax <= 1):
		return "switch.ecn.pmax is a share, 0 to 1"
	}
	return ""
}
