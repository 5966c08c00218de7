// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// program is an attachment that receives when the test says so.
type program struct {
	t testing.TB
	*Attachment
	last uint64
}

func (program) Wake()                            {}
func (*program) Changed(int, ...verbs.EventType) {}

// groupTest is a fabric of three adapters, at the last of which the test plays the administrator.
type groupTest struct {
	t     testing.TB
	f     *Fabric
	admin *program
}

func newGroupTest(t testing.TB) *groupTest {
	t.Helper()
	shape, err := topology.Generate("star:3")
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(shape, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	for late := time.Now().Add(time.Minute); !f.Active(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the fabric does not come up")
		}
	}
	g := &groupTest{t: t, f: f}
	g.admin = g.program("host-3")
	g.admin.Serve(uint8(sa.Class), true)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.manager = nil // it has done its work, and would repair the following faults
	for _, name := range []string{"host-1", "host-2"} {
		f.byName[name].state.Ports[1].Address.SMLID = f.byName["host-3"].state.Ports[1].Address.LID
	}
	return g
}

func (g *groupTest) program(adapter string) *program {
	g.t.Helper()
	p := &program{t: g.t}
	var err error
	if p.Attachment, err = g.f.Attach(adapter, p); err != nil {
		g.t.Fatal(err)
	}
	return p
}

func (g *groupTest) lid(adapter string) uint16 {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	return g.f.byName[adapter].state.Ports[1].Address.LID
}

// leaving returns how many requests of the fabric are under way.
func (g *groupTest) leaving() int {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	return len(g.f.leaves.requests)
}

// datagram returns a request or an answer, and where it goes.
func (p *program) datagram(to uint16, h *sa.Header, r *sa.MCMemberRecord) (d link.Datagram, b []byte) {
	b = make([]byte, mad.Size)
	r.Append(h.Append(b[:0]))
	return link.Datagram{SLID: p.Info(1).LID, DLID: to, Source: ib.QP1, Dest: ib.QP1, PKey: ib.DefaultPKey,
		QKey: ib.QKeyGSI}, b
}

// send sends a datagram.
func (p *program) send(to uint16, h *sa.Header, r *sa.MCMemberRecord) {
	p.t.Helper()
	d, b := p.datagram(to, h, r)
	if err := p.SendMAD(1, d, b); err != nil {
		p.t.Fatal(err)
	}
}

// post sends a datagram as other packets are sent, which wait if there is no room.
func (p *program) post(to uint16, h *sa.Header, r *sa.MCMemberRecord) {
	p.t.Helper()
	p.f.mu.Lock()
	packet := p.f.net.NewMAD(p.datagram(to, h, r))
	p.f.mu.Unlock()
	if err := p.Send(1, []*link.Packet{packet}); err != nil {
		p.t.Fatal(err)
	}
}

// request returns a request for a membership of the program's port.
func (p *program) request(method mad.Method, group byte, state sa.JoinState) (sa.Header, sa.MCMemberRecord) {
	p.last++
	h := sa.NewHeader(method, sa.AttrMCMemberRecord, uint64(p.Slot())<<60|p.last,
		sa.MemberMGID|sa.MemberPortGID|sa.MemberJoinState)
	r := sa.MCMemberRecord{PortGID: p.Info(1).GIDs[0], Join: state}
	if r.MGID = (ib.GID{0: 0xff, 15: group}); group == 0 {
		r.MGID, h.Mask = ib.GID{}, h.Mask&^sa.MemberMGID
	}
	return h, r
}

// ask sends a request.
func (p *program) ask(method mad.Method, group byte, state sa.JoinState) {
	p.t.Helper()
	h, r := p.request(method, group, state)
	p.send(p.Info(1).SMLID, &h, &r)
}

func (p *program) join(group byte, state sa.JoinState)  { p.ask(mad.MethodSet, group, state) }
func (p *program) leave(group byte, state sa.JoinState) { p.ask(sa.MethodDelete, group, state) }

// message is a datagram that a program has received.
type message struct {
	from uint16
	sa.Header
	sa.MCMemberRecord
}

// settle runs the network until it is idle.
func (p *program) settle() {
	f := p.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for d := clock.Time(1); d != 0 && d <= f.now(); d = f.net.Deadline() {
		f.step()
	}
}

// next returns the next message; false: there is none.
func (p *program) next() (m message, ok bool) {
	p.t.Helper()
	p.settle()
	var got [1]Arrival
	n, err := p.Receive(got[:])
	if err != nil {
		p.t.Fatal(err)
	}
	if n == 0 {
		return m, false
	}
	d, b, ok := link.ReadMAD(got[0].Packet)
	if !ok {
		p.t.Fatal("no datagram")
	}
	m.from = d.SLID
	m.Header.Decode(b)
	m.MCMemberRecord.Decode(b[sa.HeaderLen:])
	p.Release(got[:])
	return m, true
}

// wants returns the next message, and fails unless it has this method, status and join state.
func (p *program) wants(method mad.Method, status mad.Status, state sa.JoinState) message {
	p.t.Helper()
	m, ok := p.next()
	if !ok || m.Method != method || m.Status != status || m.Join != state {
		p.t.Fatalf("%v: method %#x, status %v, state %#x, want method %#x, status %v, state %#x", ok, m.Method,
			m.Status, m.Join, method, status, state)
	}
	return m
}

// wantsNothing fails if a message has arrived.
func (p *program) wantsNothing() {
	p.t.Helper()
	if m, ok := p.next(); ok {
		p.t.Fatalf("method %#x, status %v, state %#x has come", m.Method, m.Status, m.Join)
	}
}

// answers has the administrator answer a request.
func (g *groupTest) answers(m message, status mad.Status) {
	g.t.Helper()
	h := m.Header
	if h.Status = status; h.Method == mad.MethodSet {
		h.Method = mad.MethodGetResp
	} else {
		h.Method = sa.MethodDeleteResp
	}
	if m.MGID == (ib.GID{}) {
		m.MGID = ib.GID{0: 0xff, 15: 99}
	}
	if status != mad.StatusOK {
		m.MCMemberRecord = sa.MCMemberRecord{}
	}
	g.admin.send(m.from, &h, &m.MCMemberRecord)
}

const (
	setResp    = mad.MethodGetResp
	deleteResp = sa.MethodDeleteResp
)

// joins makes a program a member.
func (g *groupTest) joins(p *program, group byte, state sa.JoinState) {
	g.t.Helper()
	p.join(group, state)
	g.answers(g.admin.wants(mad.MethodSet, 0, state), mad.StatusOK)
	p.wants(setResp, mad.StatusOK, state)
}

// Requests of programs that share a port, step by step: the administrator's requests, and the answers to the
// programs.
func TestMemberships(t *testing.T) {
	for name, run := range map[string]func(g *groupTest, a, b *program){
		"the last one leaves the port": func(g *groupTest, a, b *program) {
			g.joins(a, 1, sa.FullMember)
			g.joins(b, 1, sa.FullMember)
			a.leave(1, sa.FullMember)
			a.wants(deleteResp, mad.StatusOK, sa.FullMember)
			b.leave(1, sa.FullMember)
			g.answers(g.admin.wants(sa.MethodDelete, 0, sa.FullMember), mad.StatusOK)
			b.wants(deleteResp, mad.StatusOK, sa.FullMember)
			g.f.mu.Lock()
			defer g.f.mu.Unlock()
			if len(a.m.groups) != 0 || a.groups != 0 || b.groups != 0 {
				g.t.Errorf("kept: %d groups, %d and %d", len(a.m.groups), a.groups, b.groups)
			}
		},
		"one joins while another leaves": func(g *groupTest, a, b *program) {
			g.joins(a, 1, sa.FullMember)
			b.join(1, sa.FullMember)
			asked := g.admin.wants(mad.MethodSet, 0, sa.FullMember)
			a.leave(1, sa.FullMember)
			a.wants(deleteResp, mad.StatusOK, sa.FullMember)
			g.answers(asked, mad.StatusOK)
			b.wants(setResp, mad.StatusOK, sa.FullMember)
			g.admin.wantsNothing()
		},
		"one is refused while another leaves": func(g *groupTest, a, b *program) {
			g.joins(a, 1, sa.FullMember)
			b.join(1, sa.FullMember)
			asked := g.admin.wants(mad.MethodSet, 0, sa.FullMember)
			a.leave(1, sa.FullMember)
			a.wants(deleteResp, mad.StatusOK, sa.FullMember)
			g.answers(asked, sa.StatusInvalid)
			b.wants(setResp, sa.StatusInvalid, 0)
			left := g.admin.wants(sa.MethodDelete, 0, sa.FullMember)
			g.answers(left, mad.StatusOK)
			a.wantsNothing()
			b.wantsNothing()
			if n := g.leaving(); n != 0 {
				g.t.Errorf("%d requests that are answered are kept", n)
			}
		},
		"a refusal takes nothing from a member": func(g *groupTest, a, b *program) {
			g.joins(a, 1, sa.FullMember)
			g.joins(b, 1, sa.FullMember)
			a.join(1, sa.FullMember)
			g.answers(g.admin.wants(mad.MethodSet, 0, sa.FullMember), sa.StatusInvalid)
			a.wants(setResp, sa.StatusInvalid, 0)
			b.leave(1, sa.FullMember)
			b.wants(deleteResp, mad.StatusOK, sa.FullMember)
			g.admin.wantsNothing()
		},
		"a request is repeated, and refused": func(g *groupTest, a, b *program) {
			g.joins(b, 1, sa.FullMember)
			a.join(1, sa.FullMember)
			g.admin.wants(mad.MethodSet, 0, sa.FullMember) // and is not answered
			a.join(1, sa.FullMember)
			g.answers(g.admin.wants(mad.MethodSet, 0, sa.FullMember), sa.StatusInvalid)
			a.wants(setResp, sa.StatusInvalid, 0)
			b.leave(1, sa.FullMember)
			g.admin.wants(sa.MethodDelete, 0, sa.FullMember)
		},
		"one leaves before it is answered": func(g *groupTest, a, b *program) {
			g.joins(b, 1, sa.FullMember)
			a.join(1, sa.FullMember)
			asked := g.admin.wants(mad.MethodSet, 0, sa.FullMember)
			a.leave(1, sa.FullMember)
			a.wants(deleteResp, mad.StatusOK, sa.FullMember)
			g.answers(asked, mad.StatusOK)
			a.wants(setResp, mad.StatusOK, sa.FullMember)
			b.leave(1, sa.FullMember)
			g.admin.wants(sa.MethodDelete, 0, sa.FullMember)
		},
		"in part": func(g *groupTest, a, b *program) {
			const both = sa.FullMember | sa.NonMember
			g.joins(a, 1, both)
			g.joins(b, 1, sa.FullMember)
			a.leave(1, both)
			g.answers(g.admin.wants(sa.MethodDelete, 0, sa.NonMember), mad.StatusOK)
			a.wants(deleteResp, mad.StatusOK, sa.NonMember)
			b.leave(1, both)
			b.wants(deleteResp, sa.StatusInvalid, 0)
			g.admin.wantsNothing()
		},
		"what only the other is": func(g *groupTest, a, b *program) {
			g.joins(a, 1, sa.FullMember)
			b.leave(1, sa.FullMember)
			b.wants(deleteResp, sa.StatusInvalid, 0)
			b.leave(2, sa.FullMember)
			g.admin.wants(sa.MethodDelete, 0, sa.FullMember)
		},
		"the administrator chooses the group": func(g *groupTest, a, b *program) {
			g.joins(a, 0, sa.FullMember)
			g.joins(b, 99, sa.FullMember)
			a.leave(99, sa.FullMember)
			a.wants(deleteResp, mad.StatusOK, sa.FullMember)
			g.admin.wantsNothing()
		},
		"one ends": func(g *groupTest, a, b *program) {
			g.joins(a, 1, sa.FullMember)
			g.joins(a, 2, sa.FullMember)
			g.joins(b, 1, sa.FullMember)
			a.join(3, sa.NonMember)
			g.admin.wants(mad.MethodSet, 0, sa.NonMember) // which it may yet carry out
			a.Close()
			got := make(map[byte]sa.JoinState)
			for m, ok := g.admin.next(); ok; m, ok = g.admin.next() {
				if m.Method != sa.MethodDelete {
					g.t.Errorf("method %#x", m.Method)
				}
				got[m.MGID[15]] = m.Join
				g.answers(m, mad.StatusOK)
			}
			if len(got) != 2 || got[2] != sa.FullMember || got[3] != sa.NonMember {
				g.t.Errorf("left: %v", got)
			}
			b.wantsNothing()
		},
		"one ends, and another one joins": func(g *groupTest, a, b *program) {
			g.joins(a, 1, sa.FullMember)
			a.Close()
			g.admin.wants(sa.MethodDelete, 0, sa.FullMember) // and is not answered
			g.joins(b, 1, sa.FullMember)
			if n := g.leaving(); n != 0 {
				g.t.Errorf("%d requests to leave are repeated", n)
			}
		},
		"one asks and leaves, and the other is refused": func(g *groupTest, a, b *program) {
			a.join(1, sa.FullMember)
			b.join(1, sa.FullMember)
			first, second := g.admin.wants(mad.MethodSet, 0, sa.FullMember),
				g.admin.wants(mad.MethodSet, 0, sa.FullMember)
			a.leave(1, sa.FullMember)
			a.wants(deleteResp, mad.StatusOK, sa.FullMember)
			g.answers(first, mad.StatusOK)
			g.answers(second, sa.StatusInvalid)
			g.admin.wants(sa.MethodDelete, 0, sa.FullMember)
		},
		"one ends before the administrator has chosen its group": func(g *groupTest, a, b *program) {
			a.join(0, sa.FullMember)
			asked := g.admin.wants(mad.MethodSet, 0, sa.FullMember)
			a.Close()
			g.answers(asked, mad.StatusOK)
			if m := g.admin.wants(sa.MethodDelete, 0, sa.FullMember); m.MGID[15] != 99 {
				g.t.Errorf("left: %v", m.MGID)
			}
		},
		"another adapter": func(g *groupTest, a, _ *program) {
			b := g.program("host-2")
			g.joins(a, 1, sa.FullMember)
			g.joins(b, 1, sa.FullMember)
			a.leave(1, sa.FullMember)
			g.admin.wants(sa.MethodDelete, 0, sa.FullMember)
		},
		"too many": func(g *groupTest, a, b *program) {
			for i := range maxGroups {
				h, r := a.request(mad.MethodSet, byte(i), sa.FullMember)
				r.MGID[1], r.MGID[14] = 1, byte(i>>8)
				h.Mask |= sa.MemberMGID
				a.send(a.Info(1).SMLID, &h, &r)
				g.admin.wants(mad.MethodSet, 0, sa.FullMember)
			}
			a.join(1, sa.FullMember)
			a.wants(setResp, sa.StatusNoResources, 0)
			g.admin.wantsNothing()
			b.join(1, sa.FullMember)
			g.admin.wants(mad.MethodSet, 0, sa.FullMember)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroupTest(t)
			run(g, g.program("host-1"), g.program("host-1"))
		})
	}
}

// A request that waits for room takes its place in the order when it leaves: here that to join overtakes the one
// to leave, which then is not for the administrator.
func TestMembershipsInOrder(t *testing.T) {
	g := newGroupTest(t)
	a, b := g.program("host-1"), g.program("host-1")
	g.joins(b, 1, sa.FullMember)
	hold := func(on bool) {
		t.Helper()
		if err := g.f.Hold(End{"switch-1", 1}, 0, on); err != nil {
			t.Fatal(err)
		}
	}
	hold(true)
	filler := sa.NewHeader(mad.MethodSet, mad.AttrNotice, 1, 0)
	for !a.Full() {
		a.post(g.lid("host-2"), &filler, &sa.MCMemberRecord{})
	}
	h, r := b.request(sa.MethodDelete, 1, sa.FullMember)
	b.post(b.Info(1).SMLID, &h, &r)
	h, r = a.request(mad.MethodSet, 1, sa.FullMember)
	a.post(a.Info(1).SMLID, &h, &r)
	g.admin.wantsNothing()
	hold(false)
	g.admin.wants(mad.MethodSet, 0, sa.FullMember)
	g.admin.wantsNothing()
	b.wants(deleteResp, mad.StatusOK, sa.FullMember)
}

// model is the membership of a port at the administrator, and its programs' memberships.
type model struct {
	*groupTest
	port     map[ib.GID]sa.JoinState
	requests []message // that the administrator has
	programs [3]*modelProgram
	tid      uint64
}

// modelProgram is a program that knows its own membership.
type modelProgram struct {
	*program
	is    map[ib.GID]sa.JoinState
	asked map[uint64]sa.MCMemberRecord // requests to join without an answer
}

func (m *model) start(i int) {
	m.t.Helper()
	m.programs[i] = &modelProgram{m.program("host-1"), make(map[ib.GID]sa.JoinState),
		make(map[uint64]sa.MCMemberRecord)}
}

// take receives at the administrator and at the programs.
func (m *model) take() {
	m.t.Helper()
	for r, ok := m.admin.next(); ok; r, ok = m.admin.next() {
		m.requests = append(m.requests, r)
	}
	for _, p := range m.programs {
		if p == nil {
			continue
		}
		for r, ok := p.next(); ok; r, ok = p.next() {
			if q, ok := p.asked[r.TID]; ok && r.Status == mad.StatusOK {
				p.is[r.MGID] |= q.Join
			}
			delete(p.asked, r.TID)
		}
	}
}

// ask has a program ask to join or to leave.
func (m *model) ask(p *modelProgram, method mad.Method, group byte, state sa.JoinState) {
	m.t.Helper()
	m.tid++
	p.last = m.tid
	h, r := p.request(method, group, state)
	if method == mad.MethodSet {
		// it waits for the last answer
		maps.DeleteFunc(p.asked, func(_ uint64, o sa.MCMemberRecord) bool { return o == r })
		p.asked[h.TID] = r
	} else {
		p.is[r.MGID] &^= state
	}
	p.post(p.Info(1).SMLID, &h, &r)
}

// answer has the administrator carry out a request, or refuse it.
func (m *model) answer(refuse bool) {
	m.t.Helper()
	r := m.requests[0]
	m.requests = m.requests[1:]
	status := mad.StatusOK
	switch {
	case r.Method == mad.MethodSet && refuse, r.Method != mad.MethodSet && m.port[r.MGID]&r.Join != r.Join:
		status = sa.StatusInvalid
	case r.Method == mad.MethodSet:
		m.port[r.MGID] |= r.Join
	default:
		m.port[r.MGID] &^= r.Join
	}
	m.answers(r, status)
}

// With any requests of programs at a port, in any order: when all is answered, the administrator has the union
// of their memberships for the port.
func FuzzMemberships(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	for seed := range uint64(20) {
		var b [200]byte
		r := rand.New(rand.NewPCG(seed, 0))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		m := &model{groupTest: newGroupTest(t), port: make(map[ib.GID]sa.JoinState)}
		for i := range m.programs {
			m.start(i)
		}
		for ; len(ops) >= 2 && len(ops) < 1000; ops = ops[2:] {
			i := int(ops[0]>>4) % len(m.programs)
			p, group, state := m.programs[i], ops[1]&1+1, sa.JoinState(ops[1]>>4)
			switch op := ops[0] & 15; {
			case op < 5 && state != 0:
				m.ask(p, mad.MethodSet, group, state)
			case op < 9:
				// A program leaves only with states that it was granted: the administrator's answer to others is not
				// known.
				if state &= p.is[ib.GID{0: 0xff, 15: group}]; state != 0 && len(p.asked) == 0 {
					m.ask(p, sa.MethodDelete, group, state)
				}
			case op < 10:
				p.Close()
				m.start(i)
			default:
				m.take()
				if len(m.requests) > 0 {
					m.answer(op == 15)
				}
				m.take()
			}
		}
		for m.take(); len(m.requests) > 0; m.take() {
			m.answer(false)
		}
		for _, mgid := range []ib.GID{{0: 0xff, 15: 1}, {0: 0xff, 15: 2}} {
			var all sa.JoinState
			for _, p := range m.programs {
				all |= p.is[mgid]
			}
			if m.port[mgid] != all {
				t.Errorf("group %v: the port is %#x, its programs are %#x", mgid, m.port[mgid], all)
			}
		}
		for i, p := range m.programs {
			p.Close()
			m.programs[i] = nil
		}
		for m.take(); len(m.requests) > 0; m.take() {
			m.answer(false)
		}
		for mgid, state := range m.port {
			if state != 0 {
				t.Errorf("group %v: the port is %#x without a program", mgid, state)
			}
		}
	})
}
