// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Config is the configuration of a simulation, beside its topology and its flows.
type Config struct {
	Seed    uint64
	Until   Time // when it ends; 0: when all flows have ended
	Payload bool // every byte and ICRC is real; else packets have headers and a length
	Message int  // bytes of a message: longer flows are several
	Trace   Time // from one sample of rates and queues to the next; 0: none
	Host    HostConfig
	Switch  SwitchConfig

	Failures []Failure
}

// Flow is a transfer from one host to another, on queue pairs of its own.
type Flow struct {
	Src, Dst int32        // hosts
	Size     int64        // bytes
	Start    Time         // with After: not before
	Op       verbs.SendOp // SEND or WRITE from Src, or READ by Dst
	UD       bool         // SENDs of one MTU at most on UD queue pairs; else RC
	After    []int32      // flows that have to end before it begins: earlier ones among New's argument

	index int32 // of a simulation's flows

	// Its outcome.
	End           Time // its last completion; 0: it has not ended
	Ideal         Time // it would have taken alone
	Status        verbs.Status
	Retransmitted int   // packets
	Delivered     int64 // bytes, as of the last Results; of a flow by RC all of them when it has ended well
}

// Counts are sums over all queue pairs.
type Counts struct {
	SentPackets    uint64 `json:"sent_packets"`
	Retransmitted  uint64 `json:"retransmitted"`
	CNPs           uint64 `json:"cnps"`
	Marked         uint64 `json:"marked"` // packets that arrived marked
	Timeouts       uint64 `json:"timeouts"`
	SequenceErrors uint64 `json:"sequence_errors"`
	RNRs           uint64 `json:"rnrs"`
}

func (c *Counts) add(q *pair) {
	n := &q.Counts
	c.SentPackets += n.SentPackets
	c.Retransmitted += n.Retransmitted
	c.CNPs += n.SentCNPs
	c.Marked += n.Marked
	c.Timeouts += n.Timeouts
	c.SequenceErrors += n.SequenceErrors
	c.RNRs += n.RNRs
}

// Sim is a simulation.
type Sim struct {
	config   Config
	now      Time
	events   eventHeap
	seq      uint64
	rand     *rand.Rand
	hosts    []*host
	switches []*fabricSwitch
	edges    []*fabricSwitch // that have hosts
	edgeOf   []int32         // by host
	flows    []Flow          // by their start, then the flows that begin after others
	first    int             // how many flows begin by themselves
	begun    int             // how many of them have begun
	waits    []int32         // by flow: how many it still waits for
	next     [][]int32       // by flow: the flows that wait for it; nil: none waits
	running  map[*run]struct{}
	traced   []*run
	free     *packet
	batch    *ibta.Batch
	scratch  []byte // memory of payload that is never read
	frame    []byte
	err      error

	Events   uint64
	Packets  uint64 // that arrived at the end of a link
	Strays   uint64 // for queue pairs that have ended
	Ended    int    // flows
	Compared int64  // bytes that were compared with the sent ones
	Counts   Counts // of flows that have ended
	Samples  []Sample
}

// Part is a part of a simulation's input.
type Part int

// The parts in which an Error may be.
const (
	OfTopology Part = iota
	OfSwitch
	OfFailure
)

// Error is an error in a part of New's arguments.
type Error struct {
	Part  Part
	Index int // of Config.Failures
	Err   error
}

func (e *Error) Error() string {
	if e.Part == OfFailure {
		return fmt.Sprintf("failure %d: %v", e.Index+1, e.Err)
	}
	return e.Err.Error()
}

// Limits of flows, in bytes.
const (
	MaxMessage = 64 << 20
	MaxFlow    = 1 << 40
)

// New makes a simulation. It keeps the flows, and sets their outcomes.
func New(c Config, t *Topology, flows []Flow) (*Sim, error) {
	if err := t.Check(); err != nil {
		return nil, &Error{Part: OfTopology, Err: err}
	}
	if text := c.Switch.check(); text != "" {
		return nil, &Error{Part: OfSwitch, Err: errors.New(text)}
	}
	if c.Message < 1 || c.Message > MaxMessage {
		return nil, fmt.Errorf("messages of %d bytes: give 1 to %d", c.Message, MaxMessage)
	}
	if c.Host.Burst < 1 || c.Host.Burst > 64 || c.Host.Receives < 1 || c.Host.Receives > 1<<14 {
		return nil, errors.New("host.burst has to be 1 to 64, and host.receives 1 to 16384")
	}
	s := &Sim{config: c, rand: rand.New(rand.NewPCG(c.Seed, 0x72616d6a6574)), flows: flows,
		running: make(map[*run]struct{})}
	s.frame = make([]byte, maxHeader+ib.MaxMTU+4)
	if !c.Payload {
		s.scratch = make([]byte, max(c.Message, grhLen+ib.MaxMTU))
	}
	if err := s.build(t); err != nil {
		return nil, err
	}
	s.batch = ibta.NewBatch(s.hosts[0].dev.Limits)
	if err := s.order(); err != nil {
		return nil, err
	}
	for i := range s.flows {
		f := &s.flows[i]
		if f.Src == f.Dst || f.Src < 0 || f.Dst < 0 || int(max(f.Src, f.Dst)) >= t.Hosts || f.Size < 0 || f.Start < 0 {
			return nil, fmt.Errorf("a flow of %d bytes from host %d to host %d at %v: there are %d hosts, from 0",
				f.Size, f.Src, f.Dst, f.Start.Duration(), t.Hosts)
		}
		if f.Size > MaxFlow {
			return nil, fmt.Errorf("a flow of %d bytes: give %d at most", f.Size, int64(MaxFlow))
		}
		if c.Payload && f.Size > 1<<30 {
			return nil, fmt.Errorf("a flow of %d bytes with payload: give 1 GiB at most, or payload: false", f.Size)
		}
		f.Ideal = s.ideal(f)
	}
	if s.first > 0 {
		s.at(s.flows[0].Start, starter{})
	}
	if c.Trace > 0 {
		s.at(c.Trace, sampler{})
	}
	return s, nil
}

// at schedules an event.
func (s *Sim) at(t Time, what handler) {
	s.seq++
	s.events.push(event{t, s.seq, what})
}

func (s *Sim) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// Run lets up to so many events happen, and reports whether there are more.
func (s *Sim) Run(events int) (more bool, err error) {
	for range events {
		first := s.events.first()
		if s.err != nil || first == nil || s.Ended == len(s.flows) {
			return false, s.err
		}
		if u := s.config.Until; u > 0 && first.at > u {
			s.now = u
			return false, nil
		}
		e := s.events.take()
		s.now = e.at
		s.Events++
		e.what.happen(s)
	}
	return true, s.err
}

// Now returns the present time.
func (s *Sim) Now() Time { return s.now }

// Flows returns all flows, by their start, and the flows that begin after others behind them.
func (s *Sim) Flows() []Flow { return s.flows }

// starter begins the next flow, and flows of the same time.
type starter struct{}

func (starter) happen(s *Sim) {
	for s.begun < s.first && s.flows[s.begun].Start <= s.now {
		if err := s.begin(&s.flows[s.begun]); err != nil {
			s.fail(err)
		}
		s.begun++
	}
	if s.begun < s.first {
		s.at(s.flows[s.begun].Start, starter{})
	}
}

// ideal is how long a flow takes alone: the first packet at every link, later packets at the slowest, and the way back
// of the acknowledgement; of a READ, the way there of the request.
func (s *Sim) ideal(f *Flow) Time {
	mtu := int64(s.config.Host.MTU.Bytes())
	packets := max((f.Size+mtu-1)/mtu, 1)
	link := s.config.framing()
	each := int64(link.overhead()) // of a packet, beyond its payload
	if f.UD {
		each += ib.DETHLen + ib.ImmDtLen
	}
	first := int32(min(f.Size, mtu)+each) - link.gap
	short := int32(link.overhead()) - link.gap + 4
	total, slowest := Time(0), 0.0
	for p := s.hosts[f.Src].port; ; {
		total += p.delay + p.serialize(first)
		if !f.UD {
			total += p.delay + p.serialize(short)
		}
		slowest = max(slowest, p.psByte)
		w, ok := p.peer.owner.(*fabricSwitch)
		if !ok {
			break
		}
		if e := s.edgeOf[f.Dst]; int(e) == w.edge {
			p = w.ports[w.local[f.Dst]-1]
		} else {
			p = w.ports[w.routes[e][0]]
		}
	}
	rest := f.Size - min(f.Size, mtu) + (packets-1)*each
	return total + Time(float64(rest)*slowest)
}
