// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Options choose the packets that are drawn.
type Options struct {
	Conversations []*Conversation
	From, To      time.Duration // since the start of the capture; To 0: to its end
	Limit         int           // rows; 0: no limit
	All           bool          // every packet has a row
	Calls         *Calls        // of the programs at both ends; nil: none
}

// Column is a host, or a switch between hosts.
type Column struct {
	Name    string   // the host's address, or the node's name
	Details []string // below it: the LID, the queue pair
	Switch  bool
}

// Row is a packet, several that are alike, a call of a program, or a repetition of rows.
type Row struct {
	Frame    int           // of its first packet; 0: there is none
	At       time.Duration // since the start of the capture; calls before it have a negative one
	Until    time.Duration // when the last packet of several was sent
	Arrived  time.Duration // when it was recorded at the other end; 0: it was not
	From, To int           // columns
	Via      []int         // columns of the nodes whose cables it was recorded at, in order

	Number   int // of its conversation
	Op       string
	Facts    []string
	Notes    []string
	More     []string
	Marks    Mark
	Packets  int
	Calls    int   // calls and completions
	Call     *Call // the one that the row is of, at the host From, which is To, too
	Bytes    int64 // of payload
	Acks     int   // acknowledgements between the packets of several
	Repeats  int   // how many times more the rows above came; then Rows says how many rows
	Rows     int
	FirstPSN ib.PSN
	LastPSN  ib.PSN
	HasPSN   bool
	Ack      bool // a positive acknowledgement
	shape    shape
}

// shape identifies packets that may be drawn as one row; the zero shape is like no other.
type shape struct {
	from, to, number int
	op               string
	bytes, packets   int
	injected         string // the fault that has struck each; empty: none
}

// Ladder is a drawing.
type Ladder struct {
	Columns       []Column
	Rows          []Row
	LeftOut       int // packets of rows beyond the limit
	CallsLeftOut  int // calls and completions of rows beyond the limit
	Conversations []*Conversation
	Start         time.Time
	Options       Options
	Packets       int // that are drawn, alone or with others
	next          time.Duration
}

// Next returns when the first packet or call was that the limit left out.
func (l *Ladder) Next() time.Duration { return l.next }

// event is a packet on its way to a row. Sightings that come later add to it.
type event struct {
	row     Row
	f       *flow
	at      time.Time
	leaving bool // it was recorded as it left
	nodes   []string
	arrived bool
}

// maxPending is how many packets wait for further sightings.
const maxPending = 4096

// drawer makes rows of packets.
type drawer struct {
	s       *Survey
	o       *Options
	l       *Ladder
	a       *analyzer
	fold    *folder
	pending []*event
	chosen  map[*Conversation]bool
	columns map[columnKey]int
	nodes   map[string]int
	calls   []callRow // that are still to be drawn, by time
}

// columnKey is the key of a column: an end if there is one conversation, or else a host.
type columnKey struct {
	host capture.Host
	end  int // 1: A, 2: B of the one conversation
}

// Draw reads the capture again and makes the rows of conversations.
func (s *Survey) Draw(o Options) (*Ladder, error) {
	l := &Ladder{Conversations: o.Conversations, Start: s.Start, Options: o}
	d := &drawer{s: s, o: &o, l: l, a: s.again(), chosen: make(map[*Conversation]bool),
		columns: make(map[columnKey]int), nodes: make(map[string]int)}
	d.fold = &folder{all: o.All, out: d.add}
	d.calls = o.Calls.sorted()
	for _, c := range o.Conversations {
		d.chosen[c] = true
	}
	d.hosts()
	counts, err := s.source(d.packet)
	if err != nil && !errors.Is(err, capture.ErrCut) {
		return nil, err
	}
	if counts.Frames < s.Counts.Frames {
		return nil, s.shorter(counts)
	}
	for _, e := range d.pending {
		d.finish(e)
	}
	d.callsTo(math.MaxInt64)
	d.fold.flush()
	d.order()
	return l, nil
}

// again returns an analyzer that begins anew with the survey's knowledge of flows.
func (s *Survey) again() *analyzer {
	a := newAnalyzer()
	a.anyCRC = s.NoCRCs
	a.list = make([]*flow, len(s.flows))
	for i, f := range s.flows {
		a.list[i] = &flow{key: f.key, order: i, conv: f.conv, fromA: f.fromA, mtu: f.mtu, service: f.service,
			both: f.both, tries: tries{known: f.tries.known, retries: f.tries.retries, rnrs: f.tries.rnrs}}
		a.flows[f.key] = a.list[i]
	}
	for i, f := range s.flows {
		if f.peer != nil {
			a.list[i].peer = a.list[f.peer.order]
		}
	}
	return a
}

// hosts makes the columns of ends.
func (d *drawer) hosts() {
	one := len(d.o.Conversations) == 1
	for _, c := range d.o.Conversations {
		for i, e := range []End{c.A, c.B} {
			k := columnKey{host: e.Host}
			if one {
				k.end = i + 1
			}
			if _, ok := d.columns[k]; ok {
				continue
			}
			d.columns[k] = len(d.l.Columns)
			col := Column{Name: e.Host.String()}
			if e.Node != "" {
				col = Column{Name: e.Node, Details: []string{e.Host.String()}}
				d.nodes[e.Node] = len(d.l.Columns)
			}
			if q := e.Queue(); one && q != "" {
				col.Details = append(col.Details, q)
			}
			d.l.Columns = append(d.l.Columns, col)
		}
	}
}

// column returns the column of a host of a conversation.
func (d *drawer) column(h capture.Host, end int) int {
	if len(d.o.Conversations) == 1 {
		return d.columns[columnKey{host: h, end: end}]
	}
	return d.columns[columnKey{host: h}]
}

// node returns the column of a fabric's node.
func (d *drawer) node(name string) int {
	i, ok := d.nodes[name]
	if !ok {
		i = len(d.l.Columns)
		d.nodes[name] = i
		d.l.Columns = append(d.l.Columns, Column{Name: name, Switch: true})
	}
	return i
}

// packet takes a packet of the second reading.
func (d *drawer) packet(p *capture.Packet) {
	f, r, g, again := d.a.step(p)
	if f == nil {
		return
	}
	if again {
		d.sighted(p, g, &r)
		return
	}
	conv, fromA := d.s.of(p, f)
	if !d.chosen[conv] {
		return
	}
	at := p.At.Sub(d.s.Start)
	if at < d.o.From || d.o.To > 0 && at > d.o.To {
		return
	}
	if d.l.full() { // no more rows
		d.l.LeftOut++
		return
	}
	if p.Comment == lostComment {
		r.marks |= Lost
	}
	e := &event{f: f, at: p.At, row: d.row(p, &r, conv, fromA)}
	point, node := pointOf(p)
	e.leaving = point == leaving
	if node != "" {
		e.nodes = append(e.nodes, node)
	}
	if g != nil {
		g.event = e
	}
	d.pending = append(d.pending, e)
	if len(d.pending) > 2*maxPending {
		for _, e := range d.pending[:maxPending] {
			d.finish(e)
		}
		d.pending = slices.Delete(d.pending, 0, maxPending)
	}
}

// row makes a packet's row.
func (d *drawer) row(p *capture.Packet, r *finding, conv *Conversation, fromA bool) Row {
	w := describe(p, r)
	if conv.nvme != nil {
		w.nvme(p, conv.nvme, fromA)
	}
	row := Row{Frame: p.Frame, At: p.At.Sub(d.s.Start), Number: conv.Number, Op: w.op, Facts: w.facts, Notes: w.notes,
		More: w.more, Marks: r.marks, Packets: 1}
	row.Until = row.At
	from, to := 1, 2
	if !fromA {
		from, to = to, from
	}
	row.From, row.To = d.column(p.From, from), d.column(p.To, to)
	row.shape = shape{from: row.From, to: row.To, number: row.Number, op: w.op, packets: 1}
	if p.Fabric == capture.IWARP {
		row.Bytes = int64(len(p.Stream.Body))
		if h := &p.Stream.Header; p.Stream.Kind != capture.Segment {
			row.shape = shape{}
		} else if h.Last {
			row.shape.op += " last"
		}
	} else {
		row.Bytes = int64(len(p.IB.Payload))
		row.FirstPSN, row.LastPSN, row.HasPSN = p.IB.PSN, r.lastPSN, p.Broken == ""
		class := p.IB.Opcode.Info().Class
		row.Ack = class == ib.ClassAck && row.Marks == 0
		if class == ib.ClassReadRequest {
			row.Bytes = 0
		}
		said := p.Comment != "" && p.Comment != onlyDelayed && !onCable.MatchString(p.Comment)
		if p.IB.DestQP <= ib.QP1 || p.Broken != "" || said || class == ib.ClassAck && row.Marks != 0 {
			row.shape = shape{}
		}
	}
	row.shape.bytes = int(row.Bytes)
	switch {
	case r.restarts:
		row.shape = shape{}
	case row.Marks == Injected && r.injected == onlyDelayed && row.shape.op != "":
		row.shape.injected = r.injected
	case row.Marks != 0:
		row.shape = shape{}
	}
	return row
}

// onlyDelayed is the comment of packets that a fault has delayed, and that none other has struck.
var onlyDelayed = faults.Kinds(1 << faults.Delay).Comment()

// sighted takes another sighting of a packet.
func (d *drawer) sighted(p *capture.Packet, g *sighting, r *finding) {
	e := g.event
	if e == nil {
		return
	}
	if r.injected != "" {
		e.row.Marks |= r.marks
		e.row.Notes = append(e.row.Notes, r.injected)
		e.row.shape, e.row.Ack = shape{}, false
	}
	at, node := pointOf(p)
	switch {
	case node != "":
		e.nodes = append(e.nodes, node)
	case at == arriving:
		e.arrived = true
		e.row.Arrived = p.At.Sub(d.s.Start)
	default: // it was recorded as it arrived first, because the sender records after it has sent
		e.arrived, e.leaving = true, true
		e.row.Arrived = max(e.row.At, p.At.Sub(d.s.Start))
		e.row.At = min(e.row.At, p.At.Sub(d.s.Start))
	}
}

// finish hands an event to the folder, when no further sightings are expected.
func (d *drawer) finish(e *event) {
	if e.f.both && e.leaving && !e.arrived && e.row.Marks&Lost == 0 {
		e.row.Marks |= Lost
	}
	if e.row.Marks&Lost != 0 {
		if e.row.Marks&Injected == 0 {
			e.row.Notes = append(e.row.Notes, "lost: it was sent and did not arrive")
		}
		e.row.shape, e.row.Ack = shape{}, false
	}
	for _, n := range e.nodes {
		if i := d.node(n); i != e.row.From && i != e.row.To {
			e.row.Via = append(e.row.Via, i)
		}
	}
	d.callsTo(e.row.At)
	d.fold.add(e.row)
}

// callsTo draws the calls up to a time.
func (d *drawer) callsTo(at time.Duration) {
	for ; len(d.calls) > 0 && d.calls[0].At <= at; d.calls = d.calls[1:] {
		c := &d.calls[0]
		c.From = d.column(c.of.host(), c.of.end)
		c.To = c.From
		if c.shape != (shape{}) {
			c.shape.from, c.shape.to = c.From, c.To
		}
		d.fold.add(c.Row)
	}
}

// full reports whether the limit is reached.
func (l *Ladder) full() bool { return l.LeftOut+l.CallsLeftOut > 0 }

// add takes a row that is complete.
func (d *drawer) add(r Row) {
	if d.o.Limit > 0 && len(d.l.Rows) >= d.o.Limit {
		if !d.l.full() {
			d.l.next = r.At
		}
		d.l.LeftOut += r.Packets
		d.l.CallsLeftOut += r.Calls
		return
	}
	d.l.Packets += r.Packets
	d.l.Rows = append(d.l.Rows, r)
}

// order puts the columns of switches between the columns of hosts: A, the switches in the order in which packets pass
// them, B.
func (d *drawer) order() {
	l := d.l
	hosts := len(d.columns)
	if hosts != 2 || len(l.Columns) == hosts {
		return
	}
	place := make(map[int]int) // from A on, by the packets that go that way
	for i := range l.Rows {
		r := &l.Rows[i]
		for n, v := range r.Via {
			if r.From != 0 {
				n = len(r.Via) - 1 - n
			}
			if _, ok := place[v]; !ok {
				place[v] = n
			}
		}
	}
	via := make([]int, 0, len(l.Columns))
	for i := hosts; i < len(l.Columns); i++ {
		via = append(via, i)
	}
	slices.SortStableFunc(via, func(a, b int) int { return place[a] - place[b] })
	now, columns := make([]int, len(l.Columns)), make([]Column, 0, len(l.Columns))
	for _, i := range slices.Concat([]int{0}, via, []int{1}) {
		now[i] = len(columns)
		columns = append(columns, l.Columns[i])
	}
	l.Columns = columns
	for i := range l.Rows {
		r := &l.Rows[i]
		r.From, r.To = now[r.From], now[r.To]
		for n := range r.Via {
			r.Via[n] = now[r.Via[n]]
		}
	}
}
