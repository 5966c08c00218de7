// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/internal/core/spell"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

const (
	// MaxText is the length of a text of faults, in bytes.
	MaxText = 1 << 20
	// maxTime is the longest time of a fault.
	maxTime = 1000 * time.Hour
	// maxRate is the highest rate, in bits a second.
	maxRate = 1e15
)

// Set is a text of faults.
type Set struct {
	Faults []Fault
	Seed   uint64 // of faults by chance
	Seeded bool   // the text has a seed; else the caller makes one up

	devices []Error // where the text names a device, for CheckDevices
}

// Error is an error in a text, and its place.
type Error struct {
	Line, Column int    // from 1; the column counts characters
	Word         string // the word there; empty: the end of the line
	Expected     string
}

// Error names the place, the word there, and the expected one.
func (e *Error) Error() string {
	there := "the end of the line"
	if e.Word != "" {
		there = strconv.Quote(e.Word)
	}
	return fmt.Sprintf("line %d, column %d: %s: expected %s", e.Line, e.Column, there, e.Expected)
}

// Parse parses a text: one fault in a line, or several with semicolons between them. A # begins a comment, and
// [Prefix] at the beginning of a line means nothing. The error is an [*Error].
func Parse(text string) (*Set, error) {
	if len(text) > MaxText {
		return nil, &Error{Line: 1, Column: 1, Word: text[:16] + "…",
			Expected: fmt.Sprintf("a text of at most %d bytes", MaxText)}
	}
	set := &Set{}
	merged := map[string]int{} // faults that differ only in numbers
	line := 0
	for l := range strings.Lines(text) {
		line++
		for _, words := range split(l) {
			p := parser{words: words, line: line, set: set}
			f, err := p.fault()
			if err != nil {
				return nil, err
			}
			if f != nil {
				set.add(f, merged)
			}
		}
	}
	return set, nil
}

// add adds a fault, or its numbers to the numbers of a fault that is the same otherwise.
func (s *Set) add(f *Fault, merged map[string]int) {
	if len(f.Nth) > 0 && f.Times == 0 {
		key := f.text([]Span{})
		if i, ok := merged[key]; ok {
			s.Faults[i].Nth = append(s.Faults[i].Nth, f.Nth...)
			return
		}
		merged[key] = len(s.Faults)
	}
	s.Faults = append(s.Faults, *f)
}

// sortSpans puts spans in order and joins spans that touch.
func sortSpans(spans []Span) []Span {
	last := func(s Span) uint64 {
		if s.Last == 0 {
			return math.MaxUint64
		}
		return s.Last
	}
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b Span) int {
		switch {
		case a.First < b.First:
			return -1
		case a.First > b.First:
			return 1
		}
		return 0
	})
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && (last(out[n-1]) == math.MaxUint64 || s.First <= last(out[n-1])+1) {
			if last(s) > last(out[n-1]) {
				out[n-1].Last = s.Last
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

// word is a word of a line.
type word struct {
	text   string
	column int
}

// split returns the words of each fault of a line.
func split(line string) (faults [][]word) {
	var words []word
	start, column, at := -1, 0, 0
	line = strings.TrimRight(line, "\r\n")
	if rest, ok := strings.CutPrefix(line, Prefix); ok {
		line, column = rest, len(Prefix)
	}
	end := func(i int) {
		if start >= 0 {
			words = append(words, word{line[start:i], at})
			start = -1
		}
	}
	next := func(i int) {
		end(i)
		// The end of the line is a word, so that there is a place where something is missing.
		faults = append(faults, append(words, word{"", column}))
		words = nil
	}
	for i, r := range line {
		column++
		switch {
		case r == '#' && start < 0:
			next(i)
			return faults
		case r == ';':
			next(i)
		case unicode.IsSpace(r):
			end(i)
		case start < 0:
			start, at = i, column
		}
	}
	column++
	next(len(line))
	return faults
}

// parser parses one fault.
type parser struct {
	words []word
	line  int
	set   *Set
	f     Fault
	given map[string]bool
	lasts time.Duration // from After on; 0: it is not said
}

// peek returns the next word; it is empty at the end.
func (p *parser) peek() string { return p.words[0].text }

// take takes the next word.
func (p *parser) take() string {
	w := p.words[0].text
	if len(p.words) > 1 {
		p.words = p.words[1:]
	}
	return w
}

// bad is an error at the next word.
func (p *parser) bad(format string, a ...any) error {
	w := p.words[0]
	if len(w.text) > 40 {
		cut := 40
		for !utf8.RuneStart(w.text[cut]) {
			cut--
		}
		w.text = w.text[:cut] + "…"
	}
	expected := fmt.Sprintf(format, a...)
	if strings.HasSuffix(w.text, ",") {
		expected += "; faults have semicolons between them, and words have blanks"
	}
	return &Error{Line: p.line, Column: w.column, Word: w.text, Expected: expected}
}

// fault parses a fault; nil: there is none, or it was the seed.
func (p *parser) fault() (*Fault, error) {
	if p.peek() == "" {
		return nil, nil
	}
	if p.peek() == "seed" {
		return nil, p.seed()
	}
	k := slices.Index(kindNames[:], p.peek())
	if k < 0 {
		return nil, p.bad("a fault: seed, %s%s", list(kindNames[:]), meant(p.peek(), kindNames[:]))
	}
	p.take()
	p.f.Kind, p.given = Kind(k), map[string]bool{}
	if err := p.arguments(); err != nil {
		return nil, err
	}
	for p.peek() != "" {
		if err := p.selector(); err != nil {
			return nil, err
		}
	}
	if p.lasts > 0 {
		p.f.Until = p.f.After + p.lasts
	}
	if p.f.Kind == Partition && !p.f.Peer.IsValid() && p.f.LID == 0 {
		return nil, p.bad("peer ADDRESS or lid NUMBER: whom the partition is from")
	}
	if p.f.Kind.events() && Owner(p.f.Event) != OfQP && (p.f.QPN != 0 || p.f.Ordinal != 0) && p.f.always() {
		return nil, p.bad("an event of queue pairs with qp: %s is none", eventNames[p.f.Event])
	}
	return &p.f, nil
}

func (p *parser) seed() error {
	p.take()
	n, err := strconv.ParseUint(p.peek(), 10, 64)
	if err != nil {
		return p.bad("a number, the seed of what depends on chance")
	}
	p.take()
	if p.peek() != "" {
		return p.bad("nothing more after the seed")
	}
	p.set.Seed, p.set.Seeded = n, true
	return nil
}

// arguments parses the words after the first one.
func (p *parser) arguments() (err error) {
	f := &p.f
	switch f.Kind {
	case Delay, Late, Reorder:
		if f.Kind == Reorder && !startsDuration(p.peek()) {
			f.Delay = time.Millisecond
			return nil
		}
		if f.Delay, err = p.duration("how much later"); err != nil {
			return err
		}
		if f.Kind == Delay && startsDuration(p.peek()) {
			f.Jitter, err = p.duration("the jitter")
		}
	case Rate:
		f.Bits, err = p.rate()
	case Fail:
		call := strings.TrimPrefix(strings.TrimPrefix(p.peek(), "ibv_"), "rdma_")
		if f.Call, err = p.oneOf("a call", call, Calls); err != nil {
			return err
		}
		names := make([]string, len(errnos))
		for i := range errnos {
			names[i] = errnos[i].name
		}
		f.Errno, err = p.oneOf("an errno", strings.ToUpper(p.peek()), names)
	case Complete:
		if f.Op, err = p.oneOf("an operation", strings.ToLower(p.peek()), Ops); err != nil {
			return err
		}
		s := strings.TrimPrefix(strings.ToUpper(p.peek()), statusPrefix)
		if s, err = p.oneOf("a status", s, statusNames[1:]); err == nil {
			f.Status = verbs.Status(slices.Index(statusNames, s))
		}
	case Disconnect:
		f.Event = driver.EventQPBroken
	case Reject:
		f.Reason = consumerReject
		if startsDuration(p.peek()) {
			var n uint64
			n, err = p.number("the number of a reason, from 1 to 65535, such as 28", 1, math.MaxUint16)
			f.Reason = uint16(n)
		}
	case Raise:
		s := strings.TrimPrefix(strings.ToUpper(p.peek()), eventPrefix)
		if s, err = p.oneOf("an event", s, eventNames); err == nil {
			f.Event = verbs.EventType(slices.Index(eventNames, s))
		}
	}
	return err
}

// selectors are the words that select the events that a fault strikes.
var selectors = []string{"sent", "received", "peer", "lid", "qp", "of", "device", "nth", "every", "times",
	"after", "until", "for"}

// selector parses one.
func (p *parser) selector() (err error) {
	f, w := &p.f, p.peek()
	if strings.HasSuffix(w, "%") {
		return p.chance()
	}
	if !slices.Contains(selectors, w) {
		if f.Kind == Reject && len(p.given) == 0 {
			return p.bad("the number of a reason, such as 28, a chance such as 1%%, %s, or the end of the line",
				list(selectors))
		}
		hint := meant(w, selectors)
		if v, err := strconv.ParseFloat(w, 64); err == nil && v > 0 && v <= 100 {
			hint = "; did you mean " + w + "%?"
		}
		return p.bad("a chance such as 1%%, %s, or the end of the line%s", list(selectors), hint)
	}
	if why := refusedSelector(f, w); why != "" {
		return p.bad("another word: %s", why)
	}
	group := w
	switch w {
	case "received":
		group = "sent"
	case "for":
		group = "until"
	case "every":
		group = "nth"
	}
	if p.given[group] {
		return p.bad("%s only once in a fault", strings.Join(groupWords(group), " or "))
	}
	p.given[group] = true
	p.take()
	switch w {
	case "sent":
		f.Way = Sent
	case "received":
		f.Way = Received
	case "peer":
		f.Peer, err = p.prefix()
	case "lid":
		var n uint64
		n, err = p.number("a LID, from 1 to 65535", 1, math.MaxUint16)
		f.LID = uint16(n)
	case "qp":
		err = p.queuePair()
	case "of":
		f.Message, err = p.message()
	case "device":
		if f.Device = p.peek(); f.Device == "" {
			return p.bad("the name of a device, such as roce:192.0.2.7, or a kind")
		}
		p.set.devices = append(p.set.devices, Error{Line: p.line, Column: p.words[0].column, Word: f.Device})
		p.take()
	case "nth":
		at := p.words[0]
		f.Nth, err = p.spans()
		if err == nil && f.Kind.lasts() && (len(f.Nth) > 1 || f.Nth[0].Last != 0) {
			return &Error{Line: p.line, Column: at.column, Word: at.text,
				Expected: fmt.Sprintf("from which number on, such as 3-: %s lasts", f.Kind)}
		}
	case "every":
		f.Every, err = p.number("a number from 1 on", 1, math.MaxUint64)
	case "times":
		f.Times, err = p.number("a number from 1 on", 1, math.MaxUint64)
	case "after":
		f.After, err = p.duration("a time since the faults were set")
		if err == nil && f.Until > 0 && f.Until <= f.After {
			return p.bad("after before until: nothing is between them")
		}
	case "until":
		at := p.words[0]
		f.Until, err = p.duration("a time since the faults were set")
		if err == nil && (f.Until <= f.After) {
			return &Error{Line: p.line, Column: at.column, Word: at.text,
				Expected: fmt.Sprintf("a time later than %v, when the fault begins", f.After)}
		}
	case "for":
		var d time.Duration
		if p.peek() == "0" || p.peek() == "0s" {
			return p.bad("a time longer than that")
		}
		d, err = p.duration("how long the fault lasts")
		p.lasts = d
	}
	return err
}

func groupWords(group string) []string {
	switch group {
	case "sent":
		return []string{"sent", "received"}
	case "until":
		return []string{"until", "for"}
	case "nth":
		return []string{"nth", "every"}
	}
	return []string{group}
}

// refusedSelector says why a word makes no sense with a fault; empty: it does.
func refusedSelector(f *Fault, w string) string {
	k := f.Kind
	switch w {
	case "sent", "received", "of":
		if k == Reject && w != "of" {
			return ""
		}
		if k == Down {
			return "a port is down in both directions"
		}
		if !k.OfPackets() || k == Partition && w == "of" {
			return "only packets and requests are " + w + map[string]string{"of": " a sort"}[w]
		}
	case "peer", "lid":
		if !k.OfPackets() && k != RNR && !(k == Reject && w == "peer") || k == Down {
			return "only packets, messages and requests have peers"
		}
	case "qp":
		if k == Down {
			return "it concerns the whole port"
		}
		if k == Reject {
			return "a request has no queue pair yet"
		}
		if k == Fail && !slices.Contains([]string{"modify_qp", "post_send", "post_recv"}, f.Call) {
			return "only modify_qp, post_send and post_recv are of a queue pair"
		}
	case "nth", "every", "times":
		if k == Down {
			return "it begins and ends at a time: after, until or for"
		}
		if k.lasts() && w != "nth" {
			return "it begins at a time or at a number, and ends at a time: after, nth 3-, until or for"
		}
	}
	return ""
}

// chance parses a percentage.
func (p *parser) chance() error {
	f := &p.f
	if f.Kind.lasts() {
		return p.bad("no chance: %s lasts from a time or a number on", f.Kind)
	}
	if p.given["chance"] {
		return p.bad("one chance only")
	}
	p.given["chance"] = true
	v, err := strconv.ParseFloat(strings.TrimSuffix(p.peek(), "%"), 64)
	if err != nil || !(v > 0 && v <= 100) {
		return p.bad("a chance of more than 0%% and at most 100%%")
	}
	p.take()
	f.Chance = v / 100
	return nil
}

// oneOf takes a word of a list, in the form of the list.
func (p *parser) oneOf(what, w string, all []string) (string, error) {
	if !slices.Contains(all, w) {
		return "", p.bad("%s: %s%s", what, list(all), meant(w, all))
	}
	p.take()
	return w, nil
}

// message takes a sort of packet: upper and lower case are the same.
func (p *parser) message() (string, error) {
	for _, m := range Messages {
		if strings.EqualFold(m, p.peek()) {
			p.take()
			return m, nil
		}
	}
	return "", p.bad("a sort of packet: %s%s", list(Messages), meant(p.peek(), Messages))
}

func (p *parser) number(what string, least, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(p.peek(), 0, 64)
	if err != nil || n < least || n > most {
		return 0, p.bad("%s", what)
	}
	p.take()
	return n, nil
}

// queuePair takes a number, or 1st, 2nd.
func (p *parser) queuePair() error {
	const what = "the number of a queue pair, or 1st, 2nd, 3rd in the order of their creation"
	w := p.peek()
	for _, ending := range []string{"st", "nd", "rd", "th"} {
		if digits, ok := strings.CutSuffix(w, ending); ok {
			n, err := strconv.ParseUint(digits, 10, 64)
			if err != nil || n == 0 || ordinal(n) != w {
				return p.bad(what)
			}
			p.f.Ordinal = n
			p.take()
			return nil
		}
	}
	n, err := p.number(what, 1, 1<<24-1)
	p.f.QPN = uint32(n)
	return err
}

// prefix takes an address, or a range of them.
func (p *parser) prefix() (netip.Prefix, error) {
	w := p.peek()
	if a, err := netip.ParseAddr(w); err == nil && a.Zone() == "" {
		p.take()
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	if n, err := netip.ParsePrefix(w); err == nil {
		p.take()
		return n.Masked(), nil
	}
	return netip.Prefix{}, p.bad("the address of a peer, such as 192.0.2.7, or a range, such as 192.0.2.0/24")
}

// spans takes numbers: 3, 5-7, 9-.
func (p *parser) spans() (spans []Span, err error) {
	const what = "numbers from 1 on, such as 3, or 3,5-7, or 9- for all from the 9th on"
	for part := range strings.SplitSeq(p.peek(), ",") {
		first, last, isRange := strings.Cut(part, "-")
		var s Span
		if s.First, err = strconv.ParseUint(first, 10, 64); err != nil || s.First == 0 {
			return nil, p.bad(what)
		}
		s.Last = s.First
		if isRange {
			s.Last = 0
			if last != "" {
				if s.Last, err = strconv.ParseUint(last, 10, 64); err != nil || s.Last < s.First {
					return nil, p.bad(what)
				}
			}
		}
		spans = append(spans, s)
	}
	p.take()
	return spans, nil
}

// startsDuration reports whether a word is meant as a time.
func startsDuration(w string) bool {
	return w != "" && w[0] >= '0' && w[0] <= '9' && !strings.HasSuffix(w, "%")
}

// duration takes a time.
func (p *parser) duration(what string) (time.Duration, error) {
	d, err := time.ParseDuration(p.peek())
	if err != nil || d < 0 || d > maxTime {
		return 0, p.bad("%s, such as 10ms or 1.5s", what)
	}
	p.take()
	return d, nil
}

// rate takes bits a second, in tc's units.
func (p *parser) rate() (int64, error) {
	w := strings.ToLower(p.peek())
	for _, u := range rateUnits {
		if digits, ok := strings.CutSuffix(w, u.name); ok {
			v, err := strconv.ParseFloat(digits, 64)
			if bits := v * float64(u.bits); err == nil && bits >= 1 && bits <= maxRate {
				p.take()
				return int64(math.Round(bits)), nil
			}
			break
		}
	}
	return 0, p.bad("a rate, such as 100mbit, 10gbit or 64kbit")
}

// list writes alternatives.
func list(all []string) string {
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// others are words that other tools, and verbs, have for some of these.
var others = map[string]string{"drop": "loss", "latency": "delay", "bandwidth": "rate", "to": "peer", "from": "peer",
	"host": "peer", "tx": "sent", "rx": "received", "on": "device", "rdma_write": "write", "rdma_read": "read"}

// meant suggests the alternative that a word is likely to be: another word for it, or one in a few letters of it. A
// word with an equals sign may be two.
func meant(w string, all []string) string {
	if a, b, ok := strings.Cut(w, "="); ok && slices.Contains(all, a) {
		return "; did you mean " + a + " " + b + "?"
	}
	if o := others[strings.ToLower(w)]; slices.Contains(all, o) {
		return "; did you mean " + o + "?"
	}
	if near := spell.Nearest(w, all, 2); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}
