// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// A world is two hosts, a network that loses, repeats and reorders, and
// programs that connect, accept, refuse, wait and disconnect as a seed says.
// Each program keeps a model of its connections: which events may come next.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	now   clock.Time
	hosts [2]*host
	todo  []task // by time
	seq   int

	loss, repeat float64
	delay        time.Duration // at most
	rude         bool          // programs refuse, give up and release too
	mutate       float64       // of datagrams: some bit is flipped
	trace        []string
}

type task struct {
	at  clock.Time
	seq int
	do  func()
}

type host struct {
	w     *world
	name  string
	addr  verbs.AHAttr
	e     *Engine
	conns map[mad.CommID]*program
	qpn   ib.QPN
	ended map[string]int
}

// A program's view of one connection.
type program struct {
	id    mad.CommID
	phase phase
}

type phase string

const (
	asking   phase = "asking"   // active, no REP
	asked    phase = "asked"    // passive, to be answered
	replied  phase = "replied"  // active, REP came
	waiting  phase = "waiting"  // passive, REP sent
	up       phase = "up"       // established
	leaving  phase = "leaving"  // Disconnect called
	down     phase = "down"     // EventDisconnected came
	resolves phase = "resolves" // SIDR_REQ sent
	serves   phase = "serves"   // SIDR_REQ came
)

// after says in which phases an event may come, for a program that is alone
// with its engine.
var after = map[EventKind][]phase{
	EventReply:        {asking},
	EventEstablished:  {waiting},
	EventRejected:     {asking, asked, replied, waiting},
	EventUnreachable:  {asking, asked, waiting, resolves, serves},
	EventDisconnected: {replied, up, leaving},
	EventTimeWaitExit: {down},
	EventMRA:          {asking, waiting},
	EventService:      {resolves},
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: 1e9, delay: 5 * time.Millisecond}
	for i, name := range []string{"A", "B"} {
		h := &host{w: w, name: name, addr: addr(fmt.Sprintf("192.0.2.%d", i+1)), conns: map[mad.CommID]*program{},
			ended: map[string]int{}, qpn: ib.QPN(0x100 * (i + 1))}
		h.e = New(Config{CAGUID: uint64(i + 1), Key: [16]byte{byte(i + 1)}})
		if err := h.e.Listen(ListenParams{Service: testService}); err != nil {
			t.Fatal(err)
		}
		w.hosts[i] = h
	}
	return w
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, l := range w.trace[max(0, len(w.trace)-60):] {
		w.t.Log(l)
	}
	w.t.Fatalf(format, args...)
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%10.6f ", float64(w.now)/1e9)+fmt.Sprintf(format, args...))
}

func (w *world) in(d time.Duration, do func()) {
	w.seq++
	n := task{w.now + clock.Time(d), w.seq, do}
	i, _ := slices.BinarySearchFunc(w.todo, n,
		func(a, b task) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) })
	w.todo = slices.Insert(w.todo, i, n)
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

// run goes on until nothing happens any more.
func (w *world) run() {
	for steps := 0; ; steps++ {
		next := clock.Time(0)
		if len(w.todo) > 0 {
			next = w.todo[0].at
		}
		for _, h := range w.hosts {
			if d := h.e.Deadline(); d != 0 && (next == 0 || d < next) {
				next = d
			}
		}
		if next == 0 {
			return
		}
		if steps > 200_000 || next < w.now {
			w.fail("%d steps, at %d, next is %d", steps, w.now, next)
		}
		w.now = next
		for len(w.todo) > 0 && w.todo[0].at <= w.now {
			do := w.todo[0].do
			w.todo = w.todo[1:]
			do()
		}
		for _, h := range w.hosts {
			h.e.HandleTimeout(w.now)
			h.drain()
			if err := consistent(h.e); err != nil {
				w.fail("%s: %v", h.name, err)
			}
		}
	}
}

// drain takes the engine's datagrams and events.
func (h *host) drain() {
	w := h.w
	var o Datagram
	for h.e.NextMAD(&o) {
		to := w.hosts[0]
		if o.To.DGID == w.hosts[1].addr.DGID {
			to = w.hosts[1]
		}
		w.note("%s → %s %v %x", h.name, to.name, mad.Attribute(o.MAD[17]), o.MAD[24:40])
		for n := 0; n == 0 || w.rng.Float64() < w.repeat; n++ {
			b := o.MAD
			if w.rng.Float64() < w.mutate {
				b[w.rng.IntN(80)] ^= 1 << w.rng.IntN(8)
			}
			if w.rng.Float64() < w.loss {
				continue
			}
			w.in(w.upTo(w.delay), func() {
				to.e.HandleMAD(w.now, h.addr, b[:])
				to.drain()
			})
		}
	}
	var ev Event
	for h.e.NextEvent(&ev) {
		w.note("%s: %v of %x", h.name, ev.Kind, ev.ID)
		h.handle(ev)
	}
	if h.e.Connections() > 1000 {
		w.fail("%s has %d connections", h.name, h.e.Connections())
	}
}

func (h *host) try(what string, err error) {
	if err != nil {
		h.w.fail("%s: %s: %v", h.name, what, err)
	}
}

func (h *host) connect() {
	h.qpn++
	to := h.w.hosts[0]
	if to == h {
		to = h.w.hosts[1]
	}
	id, err := h.e.Connect(h.w.now, &ConnectParams{To: to.addr, LocalGID: h.addr.DGID, Service: testService, QPN: h.qpn,
		PathMTU: verbs.MTU1024})
	h.try("connect", err)
	h.conns[id] = &program{id: id, phase: asking}
	if h.w.rude && h.w.rng.IntN(6) == 0 {
		h.later(2*time.Second, id, func(p *program) { h.release(p) })
	}
	h.drain()
}

func (h *host) resolve() {
	to := h.w.hosts[0]
	if to == h {
		to = h.w.hosts[1]
	}
	id, err := h.e.Resolve(h.w.now, &ResolveParams{To: to.addr, Service: testService})
	h.try("resolve", err)
	h.conns[id] = &program{id: id, phase: resolves}
	h.drain()
}

// later does something to a connection, if the program still has it.
func (h *host) later(d time.Duration, id mad.CommID, do func(*program)) {
	h.w.in(h.w.upTo(d), func() {
		if p := h.conns[id]; p != nil {
			do(p)
			h.drain()
		}
	})
}

func (h *host) release(p *program) {
	h.w.note("%s: release of %x, %s", h.name, p.id, p.phase)
	h.try("release", h.e.Release(h.w.now, p.id))
	h.end(p, "released")
}

func (h *host) end(p *program, how string) {
	h.ended[how]++
	delete(h.conns, p.id)
}

// handle is the program: it checks events against its model, and acts.
func (h *host) handle(ev Event) {
	w, now := h.w, h.w.now
	p := h.conns[ev.ID]
	if ev.Kind == EventRequest || ev.Kind == EventServiceRequest {
		if p != nil {
			w.fail("%s: %v with the ID %x of another connection, %s", h.name, ev.Kind, ev.ID, p.phase)
		}
		h.conns[ev.ID] = &program{id: ev.ID, phase: serves}
		if ev.Kind == EventRequest {
			h.conns[ev.ID].phase = asked
			h.later(w.think(), ev.ID, h.answer)
		} else { // there is no MRA for these
			h.later(10*time.Millisecond, ev.ID, h.answer)
		}
		return
	}
	if p == nil || !slices.Contains(after[ev.Kind], p.phase) {
		w.fail("%s: %v for %x: %+v", h.name, ev.Kind, ev.ID, p)
	}
	switch ev.Kind {
	case EventReply:
		p.phase = replied
		h.later(w.think(), p.id, func(p *program) {
			switch {
			case p.phase != replied:
			case w.rude && w.rng.IntN(5) == 0:
				h.try("reject", h.e.Reject(now, p.id, &RejectParams{}))
				h.end(p, "refused")
			default:
				h.try("ready", h.e.Ready(w.now, p.id, nil))
				h.up(p)
			}
		})
	case EventEstablished:
		h.up(p)
	case EventDisconnected:
		if p.phase == waiting { // its peer was established, and left before it came to know
			h.ended["up"]++
		}
		p.phase = down
	}
	if ev.Kind.Final() {
		h.end(p, ev.Kind.String())
	}
}

// think is how long a program takes to answer; some are slow.
func (w *world) think() time.Duration {
	if w.rng.IntN(10) == 0 {
		return 20 * time.Second
	}
	return 10 * time.Millisecond
}

func (h *host) answer(p *program) {
	w := h.w
	switch {
	case p.phase == serves:
		h.try("serve", h.e.Serve(w.now, p.id, &ServiceParams{QPN: 5, QKey: 6}))
		h.end(p, "served")
	case p.phase != asked:
	case w.rude && w.rng.IntN(5) == 0:
		h.try("reject", h.e.Reject(w.now, p.id, &RejectParams{}))
		h.end(p, "refused")
	default:
		h.qpn++
		p.phase = waiting
		h.try("accept", h.e.Accept(w.now, p.id, &AcceptParams{QPN: h.qpn}))
		if w.rude && w.rng.IntN(4) == 0 { // leaves before it is established, or hears of data
			h.later(2*time.Second, p.id, func(p *program) {
				if p.phase == waiting && w.rng.IntN(2) == 0 {
					h.try("established", h.e.Established(w.now, p.id))
				} else {
					h.release(p)
				}
			})
		}
	}
}

// up: the connection is established; one side or both end it some time.
func (h *host) up(p *program) {
	p.phase = up
	h.ended["up"]++
	h.later(30*time.Second, p.id, func(p *program) {
		switch {
		case p.phase != up:
		case h.w.rude && h.w.rng.IntN(4) == 0:
			h.release(p)
		default:
			p.phase = leaving
			h.try("disconnect", h.e.Disconnect(h.w.now, p.id, nil))
		}
	})
}

// finish checks that both engines and both programs have come to an end.
func (w *world) finish() {
	w.t.Helper()
	for _, h := range w.hosts {
		e := h.e
		if len(h.conns)+len(e.byID)+len(e.requests)+len(e.byQP)+len(e.deadlines)+len(e.refused) != 0 {
			w.fail("%s is left with %d programs, %d IDs, %d requests, %d remote QPs, %d deadlines, %d refused", h.name,
				len(h.conns), len(e.byID), len(e.requests), len(e.byQP), len(e.deadlines), len(e.refused))
		}
		for _, l := range e.services {
			if n := l.unanswered.Len() + l.halfOpen.Len() + len(l.sources); n != 0 {
				w.fail("%s: the listener's backlog has %d places and sources", h.name, n)
			}
		}
	}
}
