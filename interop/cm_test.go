// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// programTimeout bounds one of rdma-core's programs, and Ramjet's part in its exchange.
const programTimeout = 3 * time.Minute

// A family is a way to reach the peer as the connection manager knows them. The path MTU is
// its business: that of the ports.
type family struct {
	name        string
	ipv6        bool
	host, guest string
	device      string // Ramjet's, but for the address
	peer        string // the guest's, but for its number
}

// families are the families of RoCEv2, iwFamilies the families of iWARP.
var (
	families = []family{{"IPv4", false, hostIPv4, guestIPv4, "roce:", "rxe"},
		{"IPv6", true, hostIPv6, guestIPv6, "roce:", "rxe"}}
	iwFamilies = []family{{"IPv4", false, iwHostIPv4, iwGuestIPv4, "iwarp:", "siw"},
		{"IPv6", true, iwHostIPv6, iwGuestIPv6, "iwarp:", "siw"}}
	both = slices.Concat(families, iwFamilies)
)

func (f family) iwarp() bool { return f.peer == "siw" }

// answer is the guest's event that has the answer of a passive side.
func (f family) answer() string {
	if f.iwarp() {
		return "ESTABLISHED"
	}
	return "CONNECT_RESPONSE"
}

// toGuest and fromGuest name tests by the active side.
func (f family) toGuest() string   { return "ramjet→" + f.peer }
func (f family) fromGuest() string { return f.peer + "→ramjet" }

// manager is Ramjet's side of a test of connections: a device, and a channel where the
// events of all its ids arrive.
type manager struct {
	*device
	family
	ctx context.Context // bounds every wait
	ch  *cm.EventChannel
}

// openManager opens Ramjet's RoCEv2 device until the test ends.
func openManager(t testing.TB, ipv6 bool) *manager {
	t.Helper()
	if ipv6 {
		return families[1].open(t)
	}
	return families[0].open(t)
}

// open opens Ramjet's device until the test ends.
func (f family) open(t testing.TB) *manager {
	t.Helper()
	dev, err := ramjet.Open(f.device + f.host)
	must(t, dev, err)
	return f.manage(t, dev)
}

// manage closes a device when the test ends.
func (f family) manage(t testing.TB, dev *verbs.Device) *manager {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programTimeout)
	t.Cleanup(cancel)
	return &manager{newDevice(t, dev, f.host), f, ctx, cm.NewEventChannel()}
}

func (m *manager) id(ps cm.PortSpace) *cm.ID {
	m.t.Helper()
	id, err := cm.NewID(m.ch, m.dev, ps)
	return must(m.t, id, err)
}

// listen makes an id that listens on the link's address.
func (m *manager) listen(ps cm.PortSpace, port uint16) *cm.ID {
	m.t.Helper()
	id := m.id(ps)
	m.ok(id.Bind(netip.AddrPortFrom(netip.MustParseAddr(m.host), port)))
	m.ok(id.Listen(0))
	return id
}

// resolve makes an id that is ready to connect to a port of the guest.
func (m *manager) resolve(ps cm.PortSpace, port uint16) *cm.ID {
	m.t.Helper()
	id := m.id(ps)
	m.ok(id.ResolveAddr(netip.AddrPort{}, netip.AddrPortFrom(netip.MustParseAddr(m.guest), port), time.Minute))
	m.event(cm.AddrResolved)
	m.ok(id.ResolveRoute(time.Minute))
	m.event(cm.RouteResolved)
	return id
}

func (m *manager) ok(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// event waits for the next event and fails the test if it is of another type. The end of
// the time wait may come in between at any time.
func (m *manager) event(want cm.EventType) *cm.Event {
	m.t.Helper()
	for {
		e, err := m.ch.Get(m.ctx)
		if err != nil {
			m.t.Fatalf("waiting for event %q: %v", want, err)
		}
		if e.Type == cm.TimewaitExit && want != e.Type {
			continue
		}
		if e.Type != want {
			m.t.Fatalf("event %q (%v), want %q", e.Type, e.Err, want)
		}
		return e
	}
}

// endpoint is a queue pair of an id, with memory for the messages of rdma-core's examples: they send
// and receive all of them out of and into one buffer.
type endpoint struct {
	m           *manager
	id          *cm.ID
	qp          *verbs.QP
	send, recv  *verbs.CQ
	mr          *verbs.MR
	size, count int
}

// grhSize is the room that datagrams need in front of them.
const grhSize = 40

// endpoint makes a queue pair of id and posts count receives for messages of size bytes.
func (m *manager) endpoint(id *cm.ID, size, count int) *endpoint {
	m.t.Helper()
	e := &endpoint{m: m, id: id, size: size, count: count}
	var err error
	if e.send, err = m.dev.CreateCQ(max(1, count), nil); err != nil {
		m.t.Fatal(err)
	}
	if e.recv, err = m.dev.CreateCQ(max(1, count), nil); err != nil {
		m.t.Fatal(err)
	}
	e.qp, err = id.CreateQP(m.pd, verbs.QPInit{SendCQ: e.send, RecvCQ: e.recv,
		Cap: verbs.QPCap{MaxSendWR: max(1, count), MaxRecvWR: max(1, count), MaxSendSGE: 1, MaxRecvSGE: 1}})
	must(m.t, e.qp, err)
	e.mr, err = m.pd.RegMR(make([]byte, grhSize+size), verbs.LocalWrite)
	must(m.t, e.mr, err)
	for id := range uint64(count) {
		m.ok(e.qp.PostRecv(&verbs.RecvWR{ID: id, SGL: []verbs.SGE{e.mr.SGE(0, grhSize+size)}}))
	}
	return e
}

// post posts all the endpoint's messages; wr has the fields of datagrams.
func (e *endpoint) post(wr verbs.SendWR) {
	e.m.t.Helper()
	wr.Flags, wr.SGL = verbs.Signaled, []verbs.SGE{e.mr.SGE(grhSize, e.size)}
	for id := range uint64(e.count) {
		wr.ID = id
		e.m.ok(e.qp.PostSend(&wr))
	}
}

// sent waits until all messages have been sent.
func (e *endpoint) sent() {
	e.m.t.Helper()
	for i, wc := range e.wait(e.send) {
		want(e.m.t, wc, uint64(i), verbs.WCSend)
	}
}

// received waits until all messages have come, and returns the first one's completion.
func (e *endpoint) received(headers int) verbs.WC {
	e.m.t.Helper()
	wcs := e.wait(e.recv)
	for i, wc := range wcs {
		want(e.m.t, wc, uint64(i), verbs.WCRecv)
		if wc.ByteLen != uint32(headers+e.size) {
			e.m.t.Fatalf("message %d has %d bytes, want %d", i, wc.ByteLen, headers+e.size)
		}
	}
	return wcs[0]
}

func (e *endpoint) wait(cq *verbs.CQ) []verbs.WC {
	e.m.t.Helper()
	wcs := make([]verbs.WC, e.count)
	for got := 0; got < e.count; {
		n, err := cq.Wait(e.m.ctx, wcs[got:])
		if err != nil {
			e.m.t.Fatalf("%d completions of %d: %v", got, e.count, err)
		}
		got += n
	}
	return wcs
}

// close closes the id, and with it the queue pair.
func (e *endpoint) close() {
	e.m.t.Helper()
	for _, err := range []error{e.id.Close(), e.send.Close(), e.recv.Close(), e.mr.Close()} {
		e.m.ok(err)
	}
}

// spawnCM starts a program in the guest that is going to listen on a port of its
// connection manager, and returns when it does.
func (g *guest) spawnCM(port uint16, argv ...string) *job {
	g.t.Helper()
	j := &job{g: g}
	g.call("spawn", args{"argv": argv, "cm_listen": port}, j)
	return j
}

// wantProgram fails the test unless a program ended well and wrote all of words.
func wantProgram(t testing.TB, who string, r jobResult, words ...string) {
	t.Helper()
	if r.Exit != 0 || r.TimedOut {
		t.Fatalf("%s: exit %d, timed out %v:\n%s", who, r.Exit, r.TimedOut, r.Output)
	}
	for _, w := range words {
		if !strings.Contains(r.Output, w) {
			t.Fatalf("%s did not say %q:\n%s", who, w, r.Output)
		}
	}
}
