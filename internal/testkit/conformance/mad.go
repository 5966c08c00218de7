// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	wire "github.com/ramjet-rdma/ramjet/wire/mad"
)

var madTests = []test{
	{name: "MAD/Exchange", run: testMADExchange, needs: []Ability{GeneralServices}},
	{name: "MAD/Self", run: testMADSelf, needs: []Ability{GeneralServices}},
	{name: "MAD/Bound", run: testMADBound, needs: []Ability{GeneralServices}},
	{name: "MAD/Refused", run: testMADRefused, needs: []Ability{GeneralServices}},
	{name: "MAD/Agents", run: testMADAgents, needs: []Ability{GeneralServices}},
	{name: "MAD/Transactions", run: testMADTransactions, needs: []Ability{GeneralServices}},
	{name: "MAD/Claim", run: testMADClaim, needs: []Ability{GeneralServices}},
	{name: "MAD/Close", run: testMADClose, needs: []Ability{GeneralServices}},
}

// connections is the registration of a connection manager.
var connections = umad.Spec{Class: wire.ClassCM, Methods: []wire.Method{wire.MethodSend}}

// agent opens an agent of a device.
func (t *T) agent(dev *verbs.Device, spec umad.Spec) *umad.Agent {
	t.Helper()
	a := value(umad.Open(dev, 1, ib.QP1, spec))(t)
	t.Cleanup(func() { a.Close() })
	return a
}

// manager opens the agent of a connection manager.
func (t *T) manager(dev *verbs.Device) *umad.Agent {
	t.Helper()
	return t.agent(dev, connections)
}

// to is the way to a device.
func (t *T) to(dev *verbs.Device) umad.Path {
	t.Helper()
	return umad.Path{AH: verbs.AHAttr{DGID: t.gid(dev), DLID: value(dev.Port(1))(t).LID}}
}

// gid returns the first GID of a device.
func (t *T) gid(dev *verbs.Device) verbs.GID {
	t.Helper()
	return value(dev.GIDs(1))(t)[0].GID
}

// mad makes a management datagram that tells seeds apart. Of the connection manager's
// class, it is a REQ for service id seed, and is thus for the agent that claims that.
func mad(seed int) []byte {
	b := make([]byte, umad.Len)
	pattern(b, seed)
	clear(b[:24])
	b[0], b[1], b[2], b[3], b[17] = 1, 7, 2, 3, 0x10
	clear(b[32:40])
	b[39] = byte(seed)
	return b
}

// receives waits for a datagram and returns whence it came.
func (t *T) receives(g *umad.Agent, seed int) umad.Path {
	t.Helper()
	b := make([]byte, umad.Len)
	n, from, err := g.Recv(t.within(), b)
	t.ok(err)
	if n != umad.Len || string(b) != string(mad(seed)) {
		t.Fatalf("%d bytes % x…, want datagram %d", n, b[:40], seed)
	}
	return from
}

// testMADExchange sends datagrams to and fro, the answers to where the questions came from.
func testMADExchange(t *T) {
	da, db := t.devices()
	if da == db {
		t.Skip("a device is its own peer here: see MAD/Self")
	}
	a, b := t.manager(da), t.manager(db)
	t.ok(a.Claim(100, ^uint64(0)))
	t.ok(b.Claim(200, ^uint64(0)))
	for range 3 {
		t.ok(a.Send(t.to(db), mad(200)))
		from := t.receives(b, 200)
		if from.AH.DGID != t.gid(da) {
			t.Fatalf("from %v, want %v", from.AH.DGID, t.gid(da))
		}
		t.ok(b.Send(from, mad(100)))
		t.receives(a, 100)
	}
}

func testMADSelf(t *T) {
	dev, _ := t.devices()
	g := t.manager(dev)
	t.ok(g.Claim(1, ^uint64(0)))
	t.ok(g.Send(t.to(dev), mad(1)))
	if from := t.receives(g, 1); from.AH.DGID != t.gid(dev) {
		t.Errorf("from %v", from.AH.DGID)
	}
}

// testMADBound lets datagrams wait without a receiver: the kept ones are bounded, the rest counted.
func testMADBound(t *T) {
	dev, _ := t.devices()
	g := t.manager(dev)
	t.ok(g.Claim(1, ^uint64(0)))
	dropped := func() uint64 { return loopback.Counter(t, dev, "dropped_no_receive_posted") }
	t.eventually(func() bool {
		for range 100 {
			if err := g.Send(t.to(dev), mad(1)); !errors.Is(err, verbs.ErrQueueFull) {
				t.ok(err)
			}
		}
		return dropped() > 0
	}, "a datagram is dropped and counted")
	t.receives(g, 1)
}

func testMADRefused(t *T) {
	dev, _ := t.devices()
	g := t.manager(dev)
	self := t.to(dev)
	for _, n := range []int{0, umad.Len - 1, umad.Len + 1} {
		t.fails(g.Send(self, make([]byte, n)), verbs.ErrInvalid, "256")
	}
	t.fails(g.Send(umad.Path{}, mad(1)), verbs.ErrInvalid)
	_, _, err := g.Recv(t.Context(), make([]byte, umad.Len-1))
	t.fails(err, verbs.ErrInvalid, "256")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := g.Recv(ctx, make([]byte, umad.Len)); err != context.Canceled {
		t.Errorf("receiving with a context that has ended: %v", err)
	}
	far := self
	far.PKey = 0x1234
	t.fails(g.Send(far, mad(1)), verbs.ErrInvalid, "0x1234")
}

// datagram makes one of a class.
func datagram(class wire.Class, version uint8, method wire.Method, tid uint64) []byte {
	h := wire.Header{BaseVersion: wire.BaseVersion, Class: class, ClassVersion: version, Method: method, TID: tid}
	b := make([]byte, umad.Len)
	h.Append(b[:0])
	return b
}

// header receives a datagram.
func (t *T) header(a *umad.Agent) (h wire.Header, from umad.Path) {
	t.Helper()
	b := make([]byte, umad.Len)
	_, from, err := a.Recv(t.within(), b)
	t.ok(err)
	h.Decode(b)
	return h, from
}

// testMADAgents has agents of several classes, versions and methods beside each other: each gets
// its own, and datagrams for none are counted.
func testMADAgents(t *T) {
	dev, _ := t.devices()
	const class, other = wire.Class(0x33), wire.Class(0x34)
	get := []wire.Method{wire.MethodGet}
	first := t.agent(dev, umad.Spec{Class: class, Version: 1, Methods: get})
	second := t.agent(dev, umad.Spec{Class: class, Version: 2, Methods: get})
	sets := t.agent(dev, umad.Spec{Class: class, Version: 1, Methods: []wire.Method{wire.MethodSet, wire.MethodTrap}})
	rest := t.agent(dev, umad.Spec{Class: class, Methods: get})
	manager := t.manager(dev)

	_, err := umad.Open(dev, 1, ib.QP1, umad.Spec{Class: class, Version: 1,
		Methods: []wire.Method{wire.MethodReport, wire.MethodTrap}})
	t.fails(err, verbs.ErrBusy, "0x33", "0x05")
	_, err = umad.Open(dev, 1, ib.QP1, connections)
	t.fails(err, verbs.ErrBusy)
	_, err = umad.Open(dev, 1, ib.QP1, umad.Spec{Class: class, Methods: []wire.Method{wire.MethodGetResp}})
	t.fails(err, verbs.ErrInvalid, "0x81")
	_, err = umad.Open(dev, 1, ib.QP0, umad.Spec{Class: class})
	t.fails(err, verbs.ErrInvalid, "queue pair 0")
	_, err = umad.Open(dev, 1, 2, umad.Spec{Class: class})
	t.fails(err, verbs.ErrInvalid, "queue pair 2")
	_, err = umad.Open(dev, 2, ib.QP1, umad.Spec{Class: class})
	t.fails(err, verbs.ErrInvalid, "port 2")

	asks := t.agent(dev, umad.Spec{Class: class}) // answers only
	lost := loopback.Counter(t, dev, "dropped_no_agent")
	for _, b := range [][]byte{
		datagram(other, 1, wire.MethodGet, 1),               // no such class
		datagram(class, 1, wire.MethodReport, 2),            // no such method
		datagram(class, 3, wire.MethodSet, 3),               // no such version
		datagram(class, 1, wire.MethodGetResp, 4),           // an answer to nothing
		datagram(wire.ClassCM, 2, wire.MethodGetResp, 5),    // likewise
		datagram(class, 1, wire.MethodTrapRepress, 1<<63|6), // likewise
	} {
		t.ok(asks.Send(t.to(dev), b))
	}
	t.eventually(func() bool { return loopback.Counter(t, dev, "dropped_no_agent") == lost+6 },
		"what is for nobody is counted")
	bad := datagram(class, 1, wire.MethodGet, 7)
	bad[0] = 2
	lost = loopback.Counter(t, dev, "dropped_malformed")
	t.ok(asks.Send(t.to(dev), bad))
	t.eventually(func() bool { return loopback.Counter(t, dev, "dropped_malformed") == lost+1 },
		"another base version is counted")

	for i, want := range []struct {
		a       *umad.Agent
		class   wire.Class
		version uint8
		method  wire.Method
	}{
		{first, class, 1, wire.MethodGet}, {second, class, 2, wire.MethodGet}, {rest, class, 3, wire.MethodGet},
		{sets, class, 1, wire.MethodSet}, {sets, class, 1, wire.MethodTrap},
		{manager, wire.ClassCM, 9, wire.MethodSend},
	} {
		t.ok(asks.Send(t.to(dev), datagram(want.class, want.version, want.method, uint64(i))))
		h, from := t.header(want.a)
		at := t.to(dev).AH
		at.Port = 1
		if h.Class != want.class || h.ClassVersion != want.version || h.Method != want.method ||
			uint32(h.TID) != uint32(i) {
			t.Errorf("datagram %d: got %+v", i, h)
		}
		if from != (umad.Path{AH: at, QPN: ib.QP1, QKey: ib.QKeyGSI, PKey: ib.DefaultPKey}) {
			t.Errorf("from %+v", from)
		}
	}
	t.ok(first.Close())
	t.ok(asks.Send(t.to(dev), datagram(class, 1, wire.MethodGet, 8)))
	if h, _ := t.header(rest); h.TID&0xffff != 8 {
		t.Errorf("got %+v", h)
	}
}

// testMADTransactions has two clients ask one agent with the same numbers: each gets its own
// answers. A datagram that is not answered keeps its transaction id.
func testMADTransactions(t *T) {
	da, db := t.devices()
	const class = wire.Class(0x33)
	server := t.agent(db, umad.Spec{Class: class, Version: 1, Methods: []wire.Method{wire.MethodGet, wire.MethodSend}})
	clients := []*umad.Agent{t.agent(da, umad.Spec{Class: class, Version: 1}),
		t.agent(da, umad.Spec{Class: class, Version: 1})}
	for i := range 3 {
		for _, c := range clients {
			t.ok(c.Send(t.to(db), datagram(class, 1, wire.MethodGet, 0xffff_0000_0000_0000|uint64(i))))
		}
	}
	for range 3 * len(clients) {
		h, from := t.header(server)
		h.Method = wire.MethodGetResp
		b := make([]byte, umad.Len)
		h.Append(b[:0])
		t.ok(server.Send(from, b))
	}
	for _, c := range clients {
		for i := range 3 {
			if h, _ := t.header(c); h.TID != c.Transaction(uint32(i)) || h.Method != wire.MethodGetResp {
				t.Errorf("answer %d: %+v, want transaction %#x", i, h, c.Transaction(uint32(i)))
			}
		}
	}
	const tid = 0x1122_3344_5566_7788
	t.ok(clients[0].Send(t.to(db), datagram(class, 1, wire.MethodSend, tid)))
	if h, _ := t.header(server); h.TID != tid {
		t.Errorf("a Send came with transaction %#x, want %#x", h.TID, uint64(tid))
	}
	// An answer of another class has no agent.
	lost := loopback.Counter(t, da, "dropped_no_agent")
	t.ok(server.Send(t.to(da), datagram(class+1, 1, wire.MethodGetResp, clients[0].Transaction(9))))
	t.eventually(func() bool { return loopback.Counter(t, da, "dropped_no_agent") == lost+1 },
		"an answer of another class is counted")
}

func testMADClaim(t *T) {
	dev, _ := t.devices()
	other := t.agent(dev, umad.Spec{Class: 0x33})
	t.fails(other.Claim(1, ^uint64(0)), verbs.ErrInvalid, "connection managers")
	g := t.manager(dev)
	const service, whole = 0x01061234, ^uint64(0)
	t.ok(g.Claim(service, whole))
	t.fails(g.Claim(service, whole), verbs.ErrBusy, "0x1061234")
	t.fails(g.Claim(service&^0xffff, whole&^0xffff), verbs.ErrBusy, "0x1060000")
	t.ok(g.Claim(service+1, whole))
	g.Release(service)
	g.Release(service) // harmless
	t.ok(g.Claim(service, whole))
	t.ok(g.Close())
	g = t.manager(dev)
	t.ok(g.Claim(service, whole))
	if base, mask := g.IDs(); base&^mask != 0 {
		t.Errorf("IDs %#x, mask %#x", base, mask)
	}
}

func testMADClose(t *T) {
	for what, end := range map[string]func(*verbs.Device, *umad.Agent) error{
		"agent":  func(_ *verbs.Device, g *umad.Agent) error { return g.Close() },
		"device": func(d *verbs.Device, _ *umad.Agent) error { return d.Close() },
	} {
		dev := t.f.Open(t.T)
		g := value(umad.Open(dev, 1, ib.QP1, connections))(t)
		done := make(chan error, 2)
		for range 2 {
			go func() {
				_, _, err := g.Recv(t.within(), make([]byte, umad.Len))
				done <- err
			}()
		}
		t.ok(end(dev, g))
		for range 2 {
			if err := t.finish(done); !errors.Is(err, verbs.ErrClosed) {
				t.Errorf("%s closed: receiving ended with %v", what, err)
			}
		}
		t.fails(g.Send(umad.Path{AH: verbs.AHAttr{DGID: verbs.GID{15: 1}}}, mad(1)), verbs.ErrClosed)
		t.fails(g.Claim(1, 1), verbs.ErrClosed)
		t.ok(g.Close())
		t.ok(dev.Close())
	}
}
