// SPDX-License-Identifier: Apache-2.0

package sma

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/smp"
)

// second is a time in the scripts.
const second = clock.Time(time.Second)

// end is a port of a node.
type end struct {
	agent *Agent
	port  int
}

// world is agents and the cables between them. A packet goes along a directed route as the verdicts say.
type world struct {
	t      *testing.T
	now    clock.Time
	cables map[end]end
	tid    uint64
}

func newWorld(t *testing.T) *world { return &world{t: t, now: second, cables: make(map[end]end)} }

// add returns the agent of a new node.
func (w *world) add(kind node.Type, guid uint64, ports int) *Agent {
	return New(node.New(kind, guid, "node", ports, node.DefaultSpec))
}

// connect plugs a cable, over which both links come up.
func (w *world) connect(a *Agent, ap int, b *Agent, bp int) {
	w.cables[end{a, ap}], w.cables[end{b, bp}] = end{b, bp}, end{a, ap}
	x, y := &a.node.Ports[ap], &b.node.Ports[bp]
	width, speed := node.Negotiate(x, y)
	x.Up(width, speed)
	y.Up(width, speed)
}

// line is a switch of 4 ports with an adapter at port 1: where most scripts play.
func (w *world) line() (ca, sw *Agent) {
	ca, sw = w.add(node.CA, 0x10, 1), w.add(node.Switch, 0x20, 4)
	w.connect(ca, 1, sw, 1)
	return ca, sw
}

// send has the manager at a port of an agent's node send a packet, and follows it. It returns the agent to which
// it is delivered, and nil if it is dropped.
func (w *world) send(from *Agent, port int, p *smp.SMP) *Agent {
	w.t.Helper()
	b, in := p.Append(nil), 0
	for range 200 {
		v := from.HandleSMP(w.now, in, Route{Port: port, Directed: true}, b)
		if !p.Decode(b) {
			w.t.Fatal("the packet became too short")
		}
		switch {
		case v == Deliver:
			return from
		case v <= 0:
			return nil
		}
		next, ok := w.cables[end{from, int(v)}]
		if !ok {
			return nil
		}
		from, in = next.agent, next.port
	}
	w.t.Fatal("a packet went on for 200 hops")
	return nil
}

// directed sends a request of a manager at port 1 of an adapter along a path, and returns the response;
// nil: there came none.
func (w *world) directed(from *Agent, m mad.Method, attr mad.Attribute, modifier uint32, data []byte,
	path ...uint8) *smp.SMP {
	w.t.Helper()
	w.tid++
	p := smp.NewDirected(m, attr, modifier, w.tid, path)
	copy(p.Data[:], data)
	if to := w.send(from, 1, &p); to == nil {
		return nil
	} else if to != from || p.TID != w.tid || p.Method != mad.MethodGetResp || !p.Returning() {
		w.t.Fatalf("what came back was %+v at %p", p.Header, to)
	}
	return &p
}

// ask hands an agent a request that is routed by LIDs, and returns the response; nil: it was dropped.
func (w *world) ask(a *Agent, in int, m mad.Method, attr mad.Attribute, modifier uint32, mkey uint64,
	data []byte) *smp.SMP {
	w.t.Helper()
	w.tid++
	p := smp.New(m, attr, modifier, w.tid)
	p.MKey = mkey
	copy(p.Data[:], data)
	b := p.Append(nil)
	switch v := a.HandleSMP(w.now, in, Route{SLID: 1, DLID: 2, Port: in}, b); {
	case v == Drop:
		return nil
	case v != Reply:
		w.t.Fatalf("verdict %d", v)
	}
	p.Decode(b)
	if p.TID != w.tid || p.Method != mad.MethodGetResp {
		w.t.Fatalf("response is %+v", p.Header)
	}
	return &p
}

// get asks for an attribute, which there must be.
func (w *world) get(a *Agent, in int, attr mad.Attribute, modifier uint32, m decoder) {
	w.t.Helper()
	w.got(w.ask(a, in, mad.MethodGet, attr, modifier, 0, nil), m)
}

// set sets an attribute, which must succeed, and decodes the response into m.
func (w *world) set(a *Agent, in int, attr mad.Attribute, modifier uint32, m codec) {
	w.t.Helper()
	w.got(w.ask(a, in, mad.MethodSet, attr, modifier, 0, m.Append(nil)), m)
}

// got decodes a response without an error.
func (w *world) got(r *smp.SMP, m decoder) {
	w.t.Helper()
	w.status(r, mad.StatusOK)
	m.Decode(r.Data[:])
}

// status checks the status of a response.
func (w *world) status(r *smp.SMP, want mad.Status) {
	w.t.Helper()
	if r == nil {
		w.t.Fatalf("no response, want status %v", want)
	}
	if r.Status() != want {
		w.t.Fatalf("%s: status %v, want %v", smp.AttributeName(r.Attribute), r.Status(), want)
	}
}

type decoder interface{ Decode(b []byte) bool }

type codec interface {
	decoder
	Append(b []byte) []byte
}

// managed sets the LID of a port and its manager's, so that it sends traps.
func managed(p *node.Port, lid uint16) {
	p.Address.LID, p.Address.SMLID, p.Address.SMSL = lid, 1, 3
	p.Authority.Lease = 0
}
