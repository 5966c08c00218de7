// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// folder makes one row of many: first of packets that are alike one after the other, and then of rows that repeat.
// Acknowledgements between them do not disturb. A packet with a mark has a row of its own, unless a fault has delayed
// all.
type folder struct {
	all bool
	out func(Row)

	run  []Row // packets that are alike, with acknowledgements between them, until they are enough
	long Row   // they as a row, when they are
	n    int   // how many packets that are no acknowledgements
	tail []Row // acknowledgements behind them

	cycle cycles
	acks  []Row // acknowledgements that are next to each other
}

const (
	minRun    = 4  // packets alike that become a row
	maxTail   = 16 // acknowledgements behind a run that are kept apart from it
	maxPeriod = 8  // rows of a repetition
	minTimes  = 3  // how often they come before they are one
)

// add takes the row of a packet.
func (f *folder) add(r Row) {
	if f.all {
		f.out(r)
		return
	}
	switch {
	case r.Ack && f.n > 0:
		f.tail = append(f.tail, r)
		if len(f.tail) > maxTail && f.n >= minRun {
			f.absorb()
		}
		return
	case f.n > 0 && r.shape == f.run[0].shape && r.shape != (shape{}):
		f.n++
		if f.n < minRun {
			f.run = append(append(f.run, f.tail...), r)
			f.tail = f.tail[:0]
			return
		}
		if f.n == minRun {
			f.long = f.run[0]
			for _, m := range f.run[1:] {
				f.merge(&m)
			}
			f.run = f.run[:1]
		}
		f.absorb()
		f.merge(&r)
		return
	}
	f.flushRun()
	if r.shape == (shape{}) || r.Ack {
		f.cycle.add(r, f.last)
		return
	}
	f.run, f.n = append(f.run[:0], r), 1
}

// absorb makes the acknowledgements behind a run part of it.
func (f *folder) absorb() {
	for i := range f.tail {
		f.merge(&f.tail[i])
	}
	f.tail = f.tail[:0]
}

func (f *folder) merge(r *Row) { merge(&f.long, r) }

// merge counts a row as part of another.
func merge(into, r *Row) {
	if r.Ack {
		into.Acks += max(1, r.Packets)
	} else {
		into.Acks += r.Acks
		into.LastPSN = r.LastPSN
		into.Bytes += r.Bytes
	}
	into.Marks |= r.Marks
	into.Packets += r.Packets
	into.Calls += r.Calls
	into.Until = max(into.Until, r.Until)
}

// flushRun hands on the packets that were held.
func (f *folder) flushRun() {
	if f.n == 0 {
		return
	}
	if f.n >= minRun {
		f.long.shape.packets = f.n
		f.long.Facts = f.long.runFacts(f.n)
		f.long.Notes, f.long.Call = nil, nil
		if text := f.long.shape.injected; text != "" {
			f.long.Notes = []string{text}
		}
		f.cycle.add(f.long, f.last)
	} else {
		for _, r := range f.run {
			f.cycle.add(r, f.last)
		}
	}
	for _, r := range f.tail {
		f.cycle.add(r, f.last)
	}
	f.run, f.tail, f.n = f.run[:0], f.tail[:0], 0
}

// runFacts describes a run of n packets.
func (r *Row) runFacts(n int) []string {
	facts := []string{"×" + units.Count(n)}
	if r.Call != nil && len(r.Facts) > 1 { // the same of all: the first fact is the wr_id
		facts = append(facts, r.Facts[1:]...)
	}
	if r.HasPSN {
		facts = append(facts, "PSN "+psns(r.FirstPSN, r.LastPSN))
	}
	if r.Bytes > 0 {
		facts = append(facts, units.Bytes(r.Bytes))
	}
	if r.Acks > 0 {
		facts = append(facts, units.Plural(r.Acks, "ACK"))
	}
	return facts
}

// flush hands on all that is held.
func (f *folder) flush() {
	f.flushRun()
	f.cycle.flush(f.last)
	f.flushAcks()
}

// last makes one row of acknowledgements that are next to each other.
func (f *folder) last(r Row) {
	if len(f.acks) > 0 && (!r.Ack || r.From != f.acks[0].From || r.Number != f.acks[0].Number) {
		f.flushAcks()
	}
	if !r.Ack {
		f.out(r)
		return
	}
	if f.acks = append(f.acks, r); len(f.acks) > minRun { // from then on the first has all of them
		joinAcks(&f.acks[0], f.acks[1:])
		f.acks = f.acks[:1]
	}
}

func (f *folder) flushAcks() {
	if n := len(f.acks); n == minRun || n > 1 && f.acks[0].Packets > 1 {
		joinAcks(&f.acks[0], f.acks[1:])
		f.acks = f.acks[:1]
	}
	for _, r := range f.acks {
		if r.Packets > 1 {
			r.Facts = []string{"×" + units.Count(r.Packets), "PSN " + psns(r.FirstPSN, r.LastPSN)}
			r.More = nil
		}
		f.out(r)
	}
	f.acks = f.acks[:0]
}

// joinAcks counts acknowledgements as part of one.
func joinAcks(into *Row, rows []Row) {
	for i := range rows {
		into.Packets += rows[i].Packets
		into.LastPSN, into.Until = rows[i].LastPSN, max(into.Until, rows[i].Until)
	}
}

// cycles finds rows that repeat: it holds the last ones, and hands them on when they are too old to be part of a
// repetition.
type cycles struct {
	held []Row // rows that may be part of a repetition
	sig  []int // which of them are no acknowledgements

	on      bool
	pattern []shape // of the rows that repeat
	total   Row     // of the rows that were repeated
	partial []Row   // rows of a repetition that is not complete
	k       int     // how many of partial are no acknowledgements
}

func (c *cycles) add(r Row, out func(Row)) {
	if r.shape == (shape{}) && !r.Ack {
		c.flush(out)
		out(r)
		return
	}
	if c.on {
		switch {
		case r.Ack:
			c.partial = append(c.partial, r)
			if len(c.partial) > maxTail+2*maxPeriod && c.k == 0 {
				c.take()
			}
			return
		case r.shape == c.pattern[c.k]:
			c.partial = append(c.partial, r)
			if c.k++; c.k == len(c.pattern) {
				c.take()
				c.total.Repeats++
				c.k = 0
			}
			return
		}
		c.flush(out)
	}
	c.held = append(c.held, r)
	if r.Ack {
		c.shrink(out)
		return
	}
	c.sig = append(c.sig, len(c.held)-1)
	for period := 2; period <= maxPeriod; period++ {
		if c.repeats(period) {
			c.begin(period, out)
			return
		}
	}
	c.shrink(out)
}

// take counts the partial repetition as complete.
func (c *cycles) take() {
	for i := range c.partial {
		c.count(&c.partial[i])
	}
	c.partial = c.partial[:0]
}

func (c *cycles) count(r *Row) { merge(&c.total, r) }

// repeats reports whether the last rows are as many times the same as makes a repetition.
func (c *cycles) repeats(period int) bool {
	n := len(c.sig)
	if n < minTimes*period {
		return false
	}
	for i := n - (minTimes-1)*period; i < n; i++ {
		if c.held[c.sig[i]].shape != c.held[c.sig[i-period]].shape {
			return false
		}
	}
	return true
}

// begin makes a repetition of the last rows: the first time is drawn, all others are one row.
func (c *cycles) begin(period int, out func(Row)) {
	n := len(c.sig)
	second := c.sig[n-(minTimes-1)*period]
	first := c.sig[n-minTimes*period]
	for _, r := range c.held[:second] {
		out(r)
	}
	c.pattern = c.pattern[:0]
	for _, i := range c.sig[n-period:] {
		c.pattern = append(c.pattern, c.held[i].shape)
	}
	at := &c.held[second]
	c.total = Row{Frame: at.Frame, At: at.At, Until: at.At, From: at.From, To: at.To, Number: at.Number,
		Repeats: minTimes - 1, Rows: second - first}
	for i := second; i < len(c.held); i++ {
		c.count(&c.held[i])
	}
	c.on, c.k = true, 0
	c.held, c.sig = c.held[:0], c.sig[:0]
}

// shrink hands on rows that are too old.
func (c *cycles) shrink(out func(Row)) {
	const most = minTimes * maxPeriod
	if len(c.sig) <= most && len(c.held) <= 4*most {
		return
	}
	drop := len(c.held) - 2*most
	if len(c.sig) > most {
		drop = max(1, c.sig[len(c.sig)-most])
	}
	drop = max(drop, 1)
	for _, r := range c.held[:drop] {
		out(r)
	}
	c.held = append(c.held[:0], c.held[drop:]...)
	kept := c.sig[:0]
	for _, i := range c.sig {
		if i >= drop {
			kept = append(kept, i-drop)
		}
	}
	c.sig = kept
}

// flush hands on all that is held.
func (c *cycles) flush(out func(Row)) {
	if c.on {
		c.on = false
		t := c.total
		t.Op = fmt.Sprintf("%s more: the %d rows above", times(t.Repeats), t.Rows)
		t.Facts = nil
		if t.Packets > 0 {
			t.Facts = append(t.Facts, units.Plural(t.Packets, "packet"))
		}
		if t.Calls > 0 {
			t.Facts = append(t.Facts, units.Count(t.Calls)+" calls and completions")
		}
		if t.Bytes > 0 {
			t.Facts = append(t.Facts, units.Bytes(t.Bytes))
		}
		if t.Acks > 0 {
			t.More = []string{units.Plural(t.Acks, "ACK") + " of them"}
		}
		out(t)
		for _, r := range c.partial {
			out(r)
		}
		c.partial, c.k = c.partial[:0], 0
	}
	for _, r := range c.held {
		out(r)
	}
	c.held, c.sig = c.held[:0], c.sig[:0]
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return units.Count(n) + " times"
}
