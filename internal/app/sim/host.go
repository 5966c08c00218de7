// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/binary"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// HostConfig is how hosts behave.
type HostConfig struct {
	Congestion *congestion.Choice
	MTU        verbs.MTU
	Window     int   // bytes in flight to one host, even if the congestion control allows more
	Burst      int   // packets that one queue pair sends before others have their turn
	Timeout    uint8 // of local ACKs: 4.096 µs times its power of two
	RetryCount uint8
	RNRTimer   uint8
	Receives   int     // receives posted for a flow of SENDs
	First      Control // the packets that go first, and are never paused
}

// Control says which packets go first in every queue, and are never paused.
type Control uint8

const (
	NoControl   Control = iota // none
	CNPsFirst                  // CNPs
	CNPAckFirst                // CNPs, acknowledgements without data
)

func (c Control) classOf(op ib.Opcode) class {
	if op == ib.CNP && c >= CNPsFirst || c == CNPAckFirst && op.Info().Class == ib.ClassAck {
		return classControl
	}
	return classData
}

// host is a device with its network card: queue pairs take turns at one port.
type host struct {
	num    int32
	config *HostConfig
	port   *port
	dev    ibta.Device
	lane   ibta.Lane
	qps    map[verbs.QPN]*pair
	peers  map[verbs.GID]*peer
	last   verbs.QPN
	cq     *queue.CQ
	region *memory.Region // of payload that is never read
	pd     *verbs.PD      // of address handles; nil: there are none

	turns queue.Ring[turn]
	in    ib.Packet // scratch
	wrs   [1]verbs.SendWR
	recvs [1]verbs.RecvWR
	sges  [1]verbs.SGE
}

// turn is a queue pair that may have packets to send, or a peer for whose window queue pairs wait.
type turn struct {
	pair *pair
	peer *peer
}

// peer counts the bytes in flight to a host.
type peer struct {
	*ibta.Flow
	key    ibta.PathKey
	queued bool // has a turn
}

// Key, Full and Holds make it a path of the engine: a network card neither knows the peer's buffers nor holds packets.
func (p *peer) Key() ibta.PathKey { return p.key }
func (p *peer) Full() bool        { return false }
func (p *peer) Holds() bool       { return false }

const (
	domain  memory.PD = 1
	maxQPNs           = 1 << 20
	access            = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead
	base              = 1 << 32 // address of the first region
	maxWRs            = 16      // work requests that a flow has posted at once
)

// addressOf returns the IP address of a host.
func addressOf(num int32) netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 10<<24|uint32(num)+1)
	return netip.AddrFrom4(a)
}

func (s *Sim) newHost(num int32) *host {
	h := &host{num: num, config: &s.config.Host, qps: make(map[verbs.QPN]*pair), peers: make(map[verbs.GID]*peer),
		last: 1, cq: queue.NewCQ(1, false, noEvents)}
	h.dev = ibta.Device{ReportsLosses: s.config.Switch.Trim > 0, Congestion: h.config.Congestion,
		LineRate: func(int) float64 { return h.port.rate },
		Limits: ibta.Limits{MaxPackets: h.config.Burst,
			MaxBytes: h.config.Burst * (h.config.MTU.Bytes() + maxHeader + ib.ICRCLen), Window: h.config.Window,
			Overhead: s.config.framing().overhead()},
		Device: queue.Device{Memory: memory.NewTable(s.rand.Uint32), MaxMsgSize: memory.MaxMessage,
			Ports: []queue.Port{{Num: 1, MTU: 4096, PKeys: []verbs.PKey{ib.DefaultPKey}}}}}
	h.lane.Resolve = h.resolve
	next := uint64(base)
	h.dev.Memory.AllocateAddrsWith(func(size int) uint64 {
		at := next
		next += uint64(size+4095) &^ 4095
		return at
	})
	if !s.config.Payload {
		h.region, _ = h.dev.Memory.Register(domain, s.scratch, access)
	}
	return h
}

func (h *host) resolve(attr verbs.AHAttr) (*ibta.Vector, error) {
	p := h.peers[attr.DGID]
	if p == nil {
		p = &peer{Flow: ibta.NewFlow(h.config.Window, h.dev.HostControl()), key: ibta.PathKey{GID: attr.DGID, Port: 1}}
		h.peers[attr.DGID] = p
	}
	return &ibta.Vector{Attr: attr, Flow: p.Flow, Path: p, Key: p.key}, nil
}

// receive hands a packet to its queue pair.
func (h *host) receive(s *Sim, p *packet, in *port) {
	defer s.release(p)
	if p.trimmed {
		h.receiveTrimmed(s, p)
		return
	}
	frame := p.data
	if !s.config.Payload {
		// The payload is the contents of the scratch memory.
		frame = s.frame[:int(p.headLen)+int(p.payload)]
		copy(frame, p.head[:p.headLen])
	} else {
		flow := s.flowOf(p.src, p.dst, p.entropy)
		if _, how := flow.Verify(frame, 0); how != ib.VerifiedWhole {
			in.Stats.Corrupt++
			return
		}
		frame = frame[:len(frame)-ib.ICRCLen]
	}
	if err := h.in.Decode(frame); err != nil {
		in.Stats.Corrupt++
		return
	}
	q := h.qps[h.in.DestQP]
	if q == nil || q.remote != p.src {
		s.Strays++
		return
	}
	now := s.now.engine()
	h.takeTelemetry(now, q, p)
	q.arrived += int64(len(h.in.Payload))
	q.HandlePacket(now, &h.in, &ibta.Arrival{From: q.to.key, Global: q.Type == verbs.RC, Marked: p.marked})
	if p.marked {
		q.Marked(now, &h.in)
	}
	h.changed(s, q)
}

// changed looks after a queue pair to which something has happened.
func (h *host) changed(s *Sim, q *pair) {
	h.complete(s)
	if q.over {
		return
	}
	h.give(q)
	q.arm(s)
	h.port.send(s)
}

// give gives a queue pair a turn, and the queue pairs that wait for the same peer.
func (h *host) give(q *pair) {
	if !q.queued {
		q.queued = true
		*h.turns.PushBack() = turn{pair: q}
	}
	h.giveWaiting(q.to)
}

func (h *host) giveWaiting(p *peer) {
	if !p.queued && p.Waiting() {
		p.queued = true
		*h.turns.PushBack() = turn{peer: p}
	}
}

func (h *host) next(s *Sim, out *port) *packet {
	if p := out.dequeue(s); p != nil {
		return p
	}
	if out.stuck(s) {
		return nil
	}
	for range h.turns.Len() {
		if h.take(s) {
			if p := out.dequeue(s); p != nil {
				return p
			}
			if out.stuck(s) {
				return nil
			}
		}
	}
	return nil
}

func (h *host) more(s *Sim, out *port) bool {
	return out.queued(s) || h.turns.Len() > 0 && !out.stuck(s)
}

// take queues the packets of the queue pair whose turn it is. It returns false if there are none.
func (h *host) take(s *Sim) bool {
	t := *h.turns.Front()
	h.turns.PopFront()
	now := s.now.engine()
	q := t.pair
	if t.peer != nil {
		t.peer.queued = false
		waits := t.peer.Next(now)
		if waits == nil {
			return false
		}
		q = waits.Owner.(*pair)
	} else {
		q.queued = false
	}
	if q.over {
		return false
	}
	if h.port.paused && q.left > 0 {
		// It would send data. Its acknowledgements wait, too, as they are behind the data.
		q.queued = true
		*h.turns.PushBack() = turn{pair: q}
		return false
	}
	sent := q.NextPackets(now, s.batch)
	if sent {
		for i := range s.batch.Len() {
			h.port.enqueue(s, h.packet(s, q, i))
		}
	}
	h.complete(s)
	if q.over {
		return sent
	}
	if sent {
		h.give(q)
	}
	h.giveWaiting(q.to)
	q.arm(s)
	return sent
}

// packet makes packet i of the batch one on its way.
func (h *host) packet(s *Sim, q *pair, i int) *packet {
	p := s.newPacket()
	out := s.batch.Packet(i)
	size := s.batch.PacketSize(i)
	op := ib.Opcode(out.Head[0])
	header := op.Info().HeaderLen
	p.size, p.payload = int32(size)+s.config.framing().frame, int32(size-header-ib.ICRCLen)
	p.src, p.dst, p.entropy = h.num, q.remote, q.entropy
	if q.Type == verbs.UD {
		p.run = q.run
		q.run.datagrams.network++
	}
	p.class = h.config.First.classOf(op)
	h.addTelemetry(q, p, op)
	p.ect = s.batch.To.Attr.TrafficClass&3 != 0 && op != ib.CNP
	p.headLen = uint8(copy(p.head[:], out.Head[:header]))
	if s.config.Payload {
		p.data = append(p.data[:0], out.Head...)
		for _, piece := range out.Payload {
			p.data = append(p.data, piece...)
		}
		p.data = append(p.data, out.Tail[:len(out.Tail)-ib.ICRCLen]...)
		flow := s.flowOf(p.src, p.dst, p.entropy)
		p.data = ib.AppendICRC(p.data, 0, flow.Seed(8+len(p.data)+ib.ICRCLen, 0))
	}
	return p
}

// complete takes the completions of the device's queue pairs.
func (h *host) complete(s *Sim) {
	o := &h.lane.Outbox
	if len(o.Completions)+len(o.Events) == 0 {
		return
	}
	for i := range o.Completions {
		wc := &o.Completions[i].WC
		if q := h.qps[wc.QPN]; q != nil {
			s.completed(q, wc)
		}
	}
	o.Reset()
}
