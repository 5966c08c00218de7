// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/core/calllog"
)

// The most that is held of logs.
const (
	maxCalls   = 100_000 // calls of queue pairs that may be drawn
	maxBytes   = 1 << 25 // of their lines
	maxObjects = 1 << 16 // queue pairs and ids that a log's processes have at a time
	maxEarly   = 64      // calls of an id before it has a queue pair
	maxName    = 32      // bytes of an object's name
)

// Calls are the calls and completions of the queue pairs of conversations, out of logs.
type Calls struct {
	Sources []string // how many calls are of which process, a line each
	Notes   []string // the calls that are missing, and why

	s        *Survey
	chosen   []*Conversation
	from, to time.Duration
	rows     []callRow

	maxCalls, maxBytes, maxObjects int
}

// Call is a call in a row, or a completion that it has returned.
type Call struct {
	*calllog.Entry
	Log string         // the name of its log
	WC  calllog.Fields // the completion; nil: the row is of the call
}

// callRow is a row without its column.
type callRow struct {
	Row
	of callEnd
}

// Calls returns a reader of the logs of both ends of conversations, for a drawing from one time to another.
func (s *Survey) Calls(o *Options) *Calls {
	return &Calls{s: s, chosen: o.Conversations, from: o.From, to: o.To, maxCalls: maxCalls, maxBytes: maxBytes,
		maxObjects: maxObjects}
}

// callLog is a log that is being read.
type callLog struct {
	*Calls
	name      string
	processes map[int]*caller
	objects   int
	calls     int // lines
	held      int // calls
	bytes     int // of their lines
	left      int // calls that are not held
	found     []*loggedQP
	others    []string // queue pairs that are of none of the conversations
	nameless  bool     // queue pairs are named whose numbers the log does not have
	iwarp     bool     // a conversation is of iWARP, whose packets do not have queue pair numbers
}

// caller is a process.
type caller struct {
	pid     int
	qps     map[string]*loggedQP
	numbers map[uint32]*loggedQP
	ids     map[string]*loggedID
	begun   map[int]*calllog.Entry // by thread: calls that have not returned
}

// loggedQP is a queue pair of a process.
type loggedQP struct {
	pid      int
	name     string
	number   uint32
	hosts    []capture.Host // its device's; none: the log does not say
	ends     []callEnd
	from, to time.Time // its life; the zero time: to the end of the log
	calls    []heldCall
}

// callEnd is an end of a conversation that a queue pair is.
type callEnd struct {
	conv *Conversation
	end  int // 1: A, 2: B
}

// heldCall is a call, or a completion that it has returned.
type heldCall struct {
	e  *calllog.Entry
	wc calllog.Fields
}

// loggedID is an id of a connection manager.
type loggedID struct {
	qp    *loggedQP
	early []*calllog.Entry
	at    [2]netip.AddrPort // its own address and the peer's, where a connection stands
}

// Read reads a log. The error names the line that is wrong.
func (c *Calls) Read(name string, r io.Reader) error {
	l := &callLog{Calls: c, name: name, processes: map[int]*caller{}}
	l.iwarp = slices.ContainsFunc(c.chosen, func(c *Conversation) bool { return c.Fabric == capture.IWARP })
	in := calllog.NewReader(r, c.s.Start.Local())
	for {
		e, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		l.calls++
		if err := l.take(e); err != nil {
			return err
		}
	}
	for _, p := range l.processes {
		for _, e := range p.begun {
			l.about(p, e)
		}
	}
	l.finish(in.Cut())
	return nil
}

// process returns the process that has made a call.
func (l *callLog) process(pid int) *caller {
	p := l.processes[pid]
	if p == nil {
		p = &caller{pid: pid, qps: map[string]*loggedQP{}, numbers: map[uint32]*loggedQP{}, ids: map[string]*loggedID{},
			begun: map[int]*calllog.Entry{}}
		l.processes[pid] = p
		l.objects++
	}
	return p
}

// take takes a line of the log.
func (l *callLog) take(e *calllog.Entry) error {
	p := l.process(e.PID)
	if old := p.begun[e.TID]; old != nil {
		l.release(old)
		delete(p.begun, e.TID)
	}
	if e.Begins {
		if l.keep(e) {
			p.begun[e.TID] = e
		}
	} else {
		l.created(p, e)
		l.about(p, e)
		l.destroyed(p, e)
	}
	if l.objects > l.maxObjects || len(l.found) > l.maxObjects {
		return &calllog.LineError{Line: e.Line, Column: 1,
			Expected: fmt.Sprintf("a log with at most %s queue pairs and ids at a time", units.Count(l.maxObjects))}
	}
	return nil
}

// created notes a new queue pair.
func (l *callLog) created(p *caller, e *calllog.Entry) {
	number, known := number(e.Arg("qp_num"))
	if !known || e.Errno != "" {
		return
	}
	name := object(e.Arg("qp")) // of rdma_create_qp
	if strings.HasPrefix(e.Call, "ibv_create_qp") {
		name = object(e.Result)
	}
	if name == "" {
		return
	}
	qp := p.qps[name]
	if qp == nil || qp.number != number {
		if qp != nil {
			l.forget(p, qp, e.At)
		}
		qp = &loggedQP{pid: p.pid, name: name, number: number, hosts: hosts(e), from: e.At}
		l.objects++
		p.qps[name], p.numbers[number] = qp, qp
		qp.ends = l.ends(qp)
		if len(qp.ends) > 0 || l.iwarp {
			l.found = append(l.found, qp)
		} else if len(l.others) < 8 {
			l.others = append(l.others, qp.String())
		}
	}
	if name := object(e.Arg("id")); name != "" {
		id := l.id(p, name)
		id.qp = qp
		l.connected(id)
		early := id.early
		l.drop(id)
		for _, e := range early {
			l.hold(qp, e, nil)
		}
	}
}

// String returns the queue pair as "0x000011 of 192.0.2.7".
func (q *loggedQP) String() string {
	text := fmt.Sprintf("0x%06x", q.number)
	if len(q.hosts) > 0 {
		text += " of " + q.hosts[0].String()
	}
	return text
}

func (l *callLog) id(p *caller, name string) *loggedID {
	id := p.ids[name]
	if id == nil {
		id = &loggedID{}
		p.ids[name] = id
		l.objects++
	}
	return id
}

// hosts returns the addresses of a new queue pair's device.
func hosts(e *calllog.Entry) (all []capture.Host) {
	gids, _ := e.Arg("gids").(calllog.List)
	for _, g := range gids {
		if a, err := netip.ParseAddr(word(g)); err == nil {
			all = append(all, capture.Host{Addr: a.Unmap()})
		}
	}
	for _, a := range e.Args {
		if n, ok := a.Value.(int64); ok && a.Name == "lid" {
			all = append(all, capture.Host{LID: uint16(n)})
		}
	}
	return all
}

// ends returns the ends of conversations that a queue pair is, by its number and its device's addresses.
func (l *callLog) ends(qp *loggedQP) (ends []callEnd) {
	for _, c := range l.chosen {
		for i, e := range []End{c.A, c.B} {
			if e.Known && uint32(e.QP) == qp.number && (len(qp.hosts) == 0 || slices.Contains(qp.hosts, e.Host)) {
				ends = append(ends, callEnd{c, i + 1})
			}
		}
	}
	return ends
}

// connected gives the queue pair of an id the ends of iWARP's conversation between the id's addresses.
func (l *callLog) connected(id *loggedID) {
	if id.qp == nil || !id.at[0].IsValid() || !id.at[1].IsValid() {
		return
	}
	for _, c := range l.chosen {
		a, b := netip.AddrPortFrom(c.A.Host.Addr, c.A.Port), netip.AddrPortFrom(c.B.Host.Addr, c.B.Port)
		switch {
		case c.Fabric != capture.IWARP || len(id.qp.ends) > 0:
		case a == id.at[0] && b == id.at[1]:
			id.qp.ends = []callEnd{{c, 1}}
		case b == id.at[0] && a == id.at[1]:
			id.qp.ends = []callEnd{{c, 2}}
		}
	}
}

// about finds the queue pairs that a call is about.
func (l *callLog) about(p *caller, e *calllog.Entry) {
	if polls(e.Call) {
		wcs, _ := e.Arg("wc").(calllog.List)
		for _, wc := range wcs {
			f, _ := wc.(calllog.Fields)
			if n, ok := number(f.Get("qp_num")); ok {
				l.hold(p.numbers[n], e, f)
			}
		}
		return
	}
	event, _ := e.Arg("event").(calllog.Fields)
	name := cmp.Or(object(e.Arg("qp")), object(event.Get("qp")))
	if strings.HasPrefix(e.Call, "ibv_create_qp") {
		name = object(e.Result)
	}
	if name != "" {
		l.nameless = l.nameless || p.qps[name] == nil && !strings.Contains(name, "?")
		l.hold(p.qps[name], e, nil)
		return
	}
	name = cmp.Or(object(e.Arg("id")), object(event.Get("id")))
	if e.Call == "rdma_create_id" {
		name = cmp.Or(name, object(e.Result)) // in Go
	}
	if name == "" || strings.Contains(name, "?") {
		return
	}
	id := l.id(p, name)
	for i, field := range []string{"src_addr", "dst_addr"} {
		if a, err := netip.ParseAddrPort(word(event.Get(field))); err == nil {
			id.at[i] = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
		}
	}
	l.connected(id)
	switch {
	case id.qp != nil:
		l.hold(id.qp, e, nil)
	case len(id.early) < maxEarly && l.keep(e):
		id.early = append(id.early, e)
	}
}

// hold keeps a call of a queue pair that may be drawn.
func (l *callLog) hold(qp *loggedQP, e *calllog.Entry, wc calllog.Fields) {
	if qp == nil || len(qp.ends) == 0 && !l.iwarp {
		return
	}
	at := calledAt(e).Sub(l.s.Start)
	if l.from > 0 && at < l.from || l.to > 0 && at > l.to {
		return
	}
	if !l.keep(e) {
		l.left++
		return
	}
	qp.calls = append(qp.calls, heldCall{e, wc})
}

// keep reports whether there is room for a call, and takes it.
func (l *callLog) keep(e *calllog.Entry) bool {
	if l.held >= l.maxCalls || l.bytes+e.Size > l.maxBytes {
		return false
	}
	l.held++
	l.bytes += e.Size
	return true
}

// release gives back the room of a call.
func (l *callLog) release(e *calllog.Entry) {
	l.held--
	l.bytes -= e.Size
}

// drop releases the calls of an id.
func (l *callLog) drop(id *loggedID) {
	for _, e := range id.early {
		l.release(e)
	}
	id.early = nil
}

// destroyed notes that a call has destroyed objects.
func (l *callLog) destroyed(p *caller, e *calllog.Entry) {
	if c := calllog.Find(e.Call); c == nil || !c.Destroys() || e.Errno != "" {
		return
	}
	if qp := p.qps[object(e.Arg("qp"))]; qp != nil && e.Call == "ibv_destroy_qp" {
		l.forget(p, qp, e.Ended())
	}
	name := object(e.Arg("id"))
	id := p.ids[name]
	if id == nil {
		return
	}
	if id.qp != nil && e.Call != "rdma_destroy_id" {
		l.forget(p, id.qp, e.Ended())
	}
	if e.Call != "rdma_destroy_qp" && e.Call != "rdma_destroy_srq" {
		delete(p.ids, name)
		l.objects--
		l.drop(id)
	}
}

// forget ends the life of a queue pair.
func (l *callLog) forget(p *caller, qp *loggedQP, at time.Time) {
	qp.to = at
	if p.qps[qp.name] == qp {
		delete(p.qps, qp.name)
		l.objects--
	}
	if p.numbers[qp.number] == qp {
		delete(p.numbers, qp.number)
	}
}

// clockSlack is how far the clocks of two hosts may be apart.
const clockSlack = time.Second

// finish makes rows of the calls of queue pairs that lived when their conversation was captured.
func (l *callLog) finish(cut bool) {
	latest := map[callEnd]*loggedQP{}
	var other *loggedQP
	for _, qp := range l.found {
		for _, e := range qp.ends {
			if qp.from.After(e.conv.Last.Add(clockSlack)) ||
				!qp.to.IsZero() && qp.to.Before(e.conv.First.Add(-clockSlack)) {
				other = qp
				continue
			}
			if old := latest[e]; old == nil || qp.from.After(old.from) {
				latest[e] = qp
			}
		}
	}
	for _, qp := range l.found {
		ends := slices.DeleteFunc(qp.ends, func(e callEnd) bool { return latest[e] != qp })
		if len(ends) == 0 {
			continue
		}
		for _, h := range qp.calls {
			l.rows = append(l.rows, l.row(h, nearest(ends, calledAt(h.e))))
		}
		l.Sources = append(l.Sources, fmt.Sprintf("calls and completions: %s of process %d at %s, from %s",
			units.Count(len(qp.calls)), qp.pid, ends[0].host(), filepath.Base(l.name)))
	}
	l.explain(len(latest) > 0, other, cut)
}

// host returns the host of an end.
func (e callEnd) host() capture.Host {
	if e.end == 2 {
		return e.conv.B.Host
	}
	return e.conv.A.Host
}

// nearest returns the end of the conversation that is nearest in time: a queue pair of datagrams has one with each
// peer.
func nearest(ends []callEnd, at time.Time) callEnd {
	away := func(e callEnd) time.Duration { return max(e.conv.First.Sub(at), at.Sub(e.conv.Last), 0) }
	return slices.MinFunc(ends, func(a, b callEnd) int { return cmp.Compare(away(a), away(b)) })
}

// explain says which calls of a log are not drawn.
func (l *callLog) explain(found bool, other *loggedQP, cut bool) {
	note := func(format string, a ...any) { l.Notes = append(l.Notes, l.name+": "+fmt.Sprintf(format, a...)) }
	if cut {
		note("the log ends in the middle of a line: what is before it was read")
	}
	if l.left > 0 {
		note("%s more calls than can be drawn: --from and --to choose", units.Count(l.left))
	}
	switch {
	case l.calls == 0:
		note("the log is empty")
	case found:
	case other != nil:
		note("queue pair %s is there at another time than in the capture, from %s on: a log of another run, or with a clock or a time zone of its own?",
			other, other.from.Format("2006-01-02 15:04:05.000000 -0700"))
	case l.nameless:
		note("it names queue pairs, but not their numbers: its filter has left out ibv_create_qp or rdma_create_qp")
	case len(l.others) > 0:
		note("no queue pair of what is drawn, but %s", strings.Join(l.others, ", "))
	default:
		note("no queue pair of what is drawn")
	}
}

// row makes the row of a call of an end, and counts its marks.
func (l *callLog) row(h heldCall, of callEnd) callRow {
	w := describeCall(h)
	at := calledAt(h.e).Sub(l.s.Start)
	r := Row{At: at, Until: at, Number: of.conv.Number, Op: w.op, Facts: w.facts, Notes: w.notes, Marks: w.marks,
		Calls: 1, Call: &Call{Entry: h.e, Log: l.name, WC: h.wc}}
	if w.alike != "" && w.marks == 0 {
		r.shape = shape{op: w.alike, number: r.Number}
	}
	of.conv.Tally.add(w.marks)
	if t := calledAt(h.e); w.marks&severe != 0 && (of.conv.Trouble.IsZero() || t.Before(of.conv.Trouble)) {
		of.conv.Trouble = t
	}
	return callRow{r, of}
}

// sorted returns the rows of all logs by time.
func (c *Calls) sorted() []callRow {
	if c == nil {
		return nil
	}
	slices.SortStableFunc(c.rows, func(a, b callRow) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Call.Log, b.Call.Log),
			cmp.Compare(a.Call.Line, b.Call.Line))
	})
	return c.rows
}

// calledAt returns the time of a call in a drawing: when it was made, or, if it waits or polls, when it returned.
func calledAt(e *calllog.Entry) time.Time {
	switch e.Call {
	case "ibv_get_async_event", "rdma_get_cm_event", "rdma_get_request":
		return e.Ended()
	}
	if polls(e.Call) {
		return e.Ended()
	}
	return e.At
}

// polls reports whether a call returns completions.
func polls(call string) bool {
	return call == "ibv_poll_cq" || call == "ibv_start_poll" || call == "ibv_next_poll"
}

// word returns a name, such as that of an object, or "".
func word(v any) string {
	s, _ := v.(calllog.Symbol)
	return string(s)
}

// object returns the name of an object, or "". It is a copy, which does not hold the line.
func object(v any) string {
	name := word(v)
	if len(name) > maxName {
		return ""
	}
	return strings.Clone(name)
}

// number returns a hexadecimal number of 24 bits.
func number(v any) (uint32, bool) {
	n, err := strconv.ParseUint(word(v), 0, 24)
	return uint32(n), err == nil
}
