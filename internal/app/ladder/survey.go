// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Source hands over the packets of a capture, from the first, each time it is called.
type Source func(func(*capture.Packet)) (capture.Counts, error)

// File is the source of a capture file.
func File(name string) Source {
	return func(to func(*capture.Packet)) (capture.Counts, error) { return capture.Read(name, to) }
}

// End is one end of a conversation.
type End struct {
	Host capture.Host
	Node string // its name in a fabric, if the capture tells
	QP   ib.QPN
	Port uint16 // of TCP, with iWARP
	// Known says that QP is: the number of an end that nobody sent to is not on the wire.
	Known bool
}

// Conversation is a pair of queue pairs, or a connection of iWARP. A is the end that connects, or sends first.
type Conversation struct {
	Number  int // from 1, in the order of their first packets
	Fabric  capture.Fabric
	Service string // RC, UC, UD, XRC; CM if there is no more of it than its set-up; MAD for management; iWARP
	A, B    End

	Packets     int
	Bytes       int64 // of frames on the wire
	First, Last time.Time
	Tally       Tally
	Trouble     time.Time // of the first mark that is severe; the zero time: there is none
	// Ended says that the last word is a fault: a NAK that ends the queue pair, an RNR NAK, a rejection, a Terminate.
	Ended  bool
	ending ending
	nvme   *nvmeQueue // nil: it is not one of NVMe, as far as the capture tells
}

// Management reports whether a conversation is one of queue pairs 0 or 1.
func (c *Conversation) Management() bool {
	return c.Fabric != capture.IWARP && (c.A.Known && c.A.QP <= ib.QP1 || c.B.Known && c.B.QP <= ib.QP1)
}

// Has reports whether an end has the queue pair, or with iWARP the TCP port.
func (c *Conversation) Has(qp uint32) bool {
	for _, e := range []End{c.A, c.B} {
		if e.Known && uint32(e.QP) == qp || e.Port != 0 && uint32(e.Port) == qp {
			return true
		}
	}
	return false
}

// add counts packets and marks.
func (c *Conversation) add(at time.Time, packets, bytes int, m Mark) {
	if packets > 0 {
		if c.Packets == 0 || at.Before(c.First) {
			c.First = at
		}
		if at.After(c.Last) {
			c.Last = at
		}
	}
	c.Packets += packets
	c.Bytes += int64(bytes)
	c.Tally.add(m)
	if m&severe != 0 && (c.Trouble.IsZero() || at.Before(c.Trouble)) {
		c.Trouble = at
	}
}

// Survey is the summary of a capture.
type Survey struct {
	Counts        capture.Counts
	Cut           bool // the file ends in the middle of a frame
	Start, End    time.Time
	Conversations []*Conversation
	Unfollowed    int // packets of more flows than are followed
	// NoCRCs says that not a single ICRC is right, as in captures from before they are computed: they are ignored.
	NoCRCs bool

	source Source
	flows  []*flow
	setups *setups
	limits []Limits
}

// Limits are how often a host sends requests to a queue pair again, where no message of a connection manager tells.
type Limits struct {
	From       capture.Host
	To         ib.QPN
	Retries    uint8 // without an answer, or after a NAK
	RNRRetries uint8 // after an RNR NAK; 7: any number
}

// Take reads a capture twice: to find its conversations, and to count the packets and faults of each. A file that ends
// in the middle of a frame is not an error. Limits are facts from other sources than the capture.
func Take(source Source, limits ...Limits) (*Survey, error) {
	s := &Survey{source: source, setups: newSetups(), limits: limits}
	a := newAnalyzer()
	a.pairs = newPairing()
	names := make(map[capture.Host]string)
	checked, wrong := 0, 0
	counts, err := source(func(p *capture.Packet) {
		if s.Start.IsZero() || p.At.Before(s.Start) {
			s.Start = p.At
		}
		if p.At.After(s.End) {
			s.End = p.At
		}
		f, _, _, again := a.step(p)
		if f == nil || again {
			return
		}
		if p.Fabric != capture.IWARP && p.Broken == "" && p.Missing == 0 {
			checked++
			if p.BadCRC {
				wrong++
			}
		}
		if _, node := pointOf(p); node != "" && names[p.From] == "" { // its first cable
			names[p.From] = node
		}
		if p.Fabric == capture.IWARP {
			f.portA, f.portB = p.FromPort, p.ToPort
			if p.Stream.Kind == capture.SetUp && p.Stream.FromDialer {
				f.nvme = nvmeConnection(p.Stream.Private)
			}
		}
		s.setups.learn(p)
	})
	s.Counts, s.Unfollowed = counts, a.lost
	if errors.Is(err, capture.ErrCut) {
		s.Cut, err = true, nil
	}
	if err != nil {
		return nil, err
	}
	s.flows, s.NoCRCs = a.list, wrong == checked && wrong >= someWrong
	s.resolve(a)
	for _, c := range s.Conversations {
		c.A.Node, c.B.Node = names[c.A.Host], names[c.B.Host]
	}
	if err := s.count(); err != nil {
		return nil, err
	}
	return s, nil
}

// someWrong is how many packets have wrong ICRCs before that is the capture's fault if none is right.
const someWrong = 8

// resolve makes conversations of flows.
func (s *Survey) resolve(a *analyzer) {
	for _, c := range s.setups.list {
		s.connected(a, c)
	}
	for _, l := range s.limits {
		for _, f := range a.list {
			if !f.tries.known && f.key.from == l.From && f.key.dest == l.To && !f.key.datagram {
				f.tries = tries{known: true, retries: l.Retries, rnrs: l.RNRRetries}
			}
		}
	}
	a.pairs.finish(a.list)
	for _, f := range a.list {
		if f.conv == nil && f.peer != nil && f.peer.conv != nil {
			f.conv, f.fromA = f.peer.conv, !f.peer.fromA
		}
		if f.conv == nil {
			s.conversation(f)
		}
		if f.known && f.conv.Service == "CM" {
			f.conv.Service = f.service.String()
		}
	}
}

// count counts the packets and faults of each conversation, and numbers the conversations that have packets.
func (s *Survey) count() error {
	a := s.again()
	a.seen.forgotten = func(g *sighting) {
		if g.lost() {
			g.conv.add(g.at, 0, 0, Lost)
		}
	}
	counts, err := s.source(func(p *capture.Packet) {
		f, r, g, again := a.step(p)
		if f == nil {
			return
		}
		if again {
			if g.conv != nil {
				g.conv.add(p.At, 0, 0, r.marks)
			}
			return
		}
		conv, fromA := s.of(p, f)
		if p.Comment == lostComment {
			r.marks |= Lost
		}
		conv.add(p.At, 1, p.Wire, r.marks)
		conv.judge(p, &r, f.peer, fromA, p.At.Sub(s.Start))
		if g != nil {
			g.conv, g.at, g.flow, g.counted = conv, p.At, f, r.marks&Lost != 0
		}
	})
	if err != nil && !errors.Is(err, capture.ErrCut) {
		return err
	}
	if counts.Frames < s.Counts.Frames {
		return s.shorter(counts)
	}
	a.seen.forget()
	for _, f := range a.list {
		f.conv.unanswered(f)
	}
	s.Conversations = slices.DeleteFunc(s.Conversations, func(c *Conversation) bool { return c.Packets == 0 })
	slices.SortStableFunc(s.Conversations, func(a, b *Conversation) int { return a.First.Compare(b.First) })
	for i, c := range s.Conversations {
		c.Number = i + 1
	}
	return nil
}

// shorter says that a file has changed.
func (s *Survey) shorter(counts capture.Counts) error {
	return fmt.Errorf("the capture has become shorter while it was read: %d frames, and then %d", s.Counts.Frames,
		counts.Frames)
}

// of returns the conversation that a packet of a flow is part of, and whether it comes from its end A.
func (s *Survey) of(p *capture.Packet, f *flow) (*Conversation, bool) {
	c := s.setups.of(p)
	if c == nil {
		return f.conv, f.fromA
	}
	if c.a == c.b { // both managers are at one host
		_, _, local, _, _ := message(p)
		return c.conv, c.idA == local.id
	}
	return c.conv, p.From == c.a
}

// connected makes the conversation that a connection manager's messages have set up.
func (s *Survey) connected(a *analyzer, c *setup) {
	conv := &Conversation{Fabric: c.fabric, Service: "CM", A: End{Host: c.a, QP: c.qpA, Known: c.hasA},
		B: End{Host: c.b, QP: c.qpB, Known: c.hasB}}
	c.conv, conv.nvme = conv, c.nvme
	s.Conversations = append(s.Conversations, conv)
	there, back := a.flows[flowKey{fabric: c.fabric, from: c.a, to: c.b, dest: c.qpB}],
		a.flows[flowKey{fabric: c.fabric, from: c.b, to: c.a, dest: c.qpA}]
	if !c.hasB || there != nil && there.conv != nil {
		there = nil
	}
	if !c.hasA || back != nil && back.conv != nil {
		back = nil
	}
	for _, f := range []*flow{there, back} {
		if f != nil {
			if f.peer != nil {
				f.peer.peer = nil
			}
			f.peer = nil
			f.conv, f.fromA, f.mtu = conv, f == there, max(f.mtu, c.mtu)
			f.tries = c.tries(f == there)
		}
	}
	if there != nil && back != nil {
		there.peer, back.peer = back, there
	}
}

// conversation makes a conversation of a flow, in which it goes from A to B.
func (s *Survey) conversation(f *flow) {
	k := f.key
	c := &Conversation{Fabric: k.fabric, A: End{Host: k.from, QP: k.src, Known: k.datagram},
		B: End{Host: k.to, QP: k.dest, Known: true}}
	f.conv, f.fromA = c, true
	switch {
	case k.fabric == capture.IWARP:
		c.Service = "iWARP"
		c.A, c.B = End{Host: k.from, Port: f.portA}, End{Host: k.to, Port: f.portB}
		if !k.dialer {
			c.A, c.B, f.fromA = c.B, c.A, false
		}
		c.nvme = f.nvme
		if f.peer != nil && c.nvme == nil {
			c.nvme = f.peer.nvme
		}
	case c.Management():
		c.Service = "MAD"
	case f.known:
		c.Service = f.service.String()
	default:
		c.Service = "?"
	}
	if g := f.peer; g != nil {
		g.conv, g.fromA = c, !f.fromA
		if !k.datagram && k.fabric != capture.IWARP {
			c.A.QP, c.A.Known = g.key.dest, true
		}
	}
	s.Conversations = append(s.Conversations, c)
}

// Choose returns the conversation to look at first when searching for a fault: of the conversations that a fault ended,
// or else of all, the one with the most faults, or else the one with the most packets. One of management datagrams is
// chosen only if there is no other. The second result says why. If there are none, it returns nil.
func Choose(list []*Conversation) (*Conversation, string) {
	if len(list) == 0 {
		return nil, ""
	}
	best := slices.MinFunc(list, func(a, b *Conversation) int {
		return cmp.Or(first(!a.Management(), !b.Management()), first(a.Ended, b.Ended),
			cmp.Compare(b.faults(severe), a.faults(severe)),
			cmp.Compare(b.faults(failed), a.faults(failed)), cmp.Compare(b.Packets, a.Packets),
			cmp.Compare(a.Number, b.Number))
	})
	most := slices.MaxFunc(list,
		func(a, b *Conversation) int { return cmp.Compare(a.faults(severe), b.faults(severe)) }).faults(severe)
	switch n := best.faults(severe); {
	case best.Ended && (n < most || n == 0): // none: by RNR NAKs alone
		return best, "one that a fault ended"
	case n > 0 && n == most:
		return best, "the one with the most faults"
	case n > 0:
		return best, "the one with the most faults that is not of management"
	}
	return best, "the busiest"
}

// faults returns how many marks of some kinds there are.
func (c *Conversation) faults(of Mark) (n int) {
	of.each(func(i int) { n += c.Tally[i] })
	return n
}

// first orders true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// String returns the end as "10.9.0.2 QP 0x000011".
func (e End) String() string {
	name := e.Host.String()
	if e.Node != "" {
		name = e.Node + " " + name
	}
	switch q := e.Queue(); {
	case q != "":
		return name + " " + q
	}
	return name
}

// Queue returns the queue pair's number as "QP 0x000011", or the port of TCP as "port 7471".
func (e End) Queue() string {
	switch {
	case e.Port != 0:
		return fmt.Sprintf("port %d", e.Port)
	case e.Known && e.QP == ib.QPNMulticast:
		return "multicast"
	case e.Known && e.QP <= ib.QP1:
		return fmt.Sprintf("QP %d", e.QP)
	case e.Known:
		return fmt.Sprintf("QP 0x%06x", uint32(e.QP))
	}
	return ""
}
