// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// side is one end in the manner of librdmacm: an id with its channel.
type side struct {
	t  *testing.T
	ch *cm.EventChannel
	id *cm.ID
	pd *verbs.PD
	cq *verbs.CQ
}

func newSide(t *testing.T, dev *verbs.Device, ps cm.PortSpace) *side {
	t.Helper()
	s := &side{t: t, ch: cm.NewEventChannel()}
	var err error
	s.id, err = cm.NewID(s.ch, dev, ps)
	ok(t, err)
	s.pd, err = dev.AllocPD()
	ok(t, err)
	s.cq, err = dev.CreateCQ(64, nil)
	ok(t, err)
	t.Cleanup(func() { s.id.Close(); s.ch.Close() })
	return s
}

func (s *side) event(want cm.EventType) *cm.Event { s.t.Helper(); return event(s.t, s.ch, want) }

// addQP makes the queue pair of an id, which is of the side's device.
func (s *side) addQP(id *cm.ID) *verbs.QP {
	s.t.Helper()
	qp, err := id.CreateQP(s.pd, verbs.QPInit{SendCQ: s.cq, RecvCQ: s.cq})
	ok(s.t, err)
	return qp
}

// resolve brings the id to a resolved route.
func (s *side) resolve(to netip.AddrPort) {
	s.t.Helper()
	ok(s.t, s.id.ResolveAddr(netip.AddrPort{}, to, time.Second))
	s.event(cm.AddrResolved)
	ok(s.t, s.id.ResolveRoute(time.Second))
	s.event(cm.RouteResolved)
}

// listening returns a side that listens.
func listening(t *testing.T, dev *verbs.Device, ps cm.PortSpace) *side {
	t.Helper()
	s := newSide(t, dev, ps)
	ok(t, s.id.Bind(netip.AddrPort{}))
	ok(t, s.id.Listen(0))
	return s
}

// sides returns a listener and an id that knows the way to it.
func sides(t *testing.T, ps cm.PortSpace) (client, server *side) {
	t.Helper()
	return sidesOf(t, open(t), open(t), ps)
}

// sidesOf is sides on the given devices.
func sidesOf(t *testing.T, a, b *verbs.Device, ps cm.PortSpace) (client, server *side) {
	t.Helper()
	server = listening(t, b, ps)
	client = newSide(t, a, ps)
	client.resolve(server.id.LocalAddr())
	return client, server
}

func holds(t *testing.T, what string, got []byte, want string, n int) {
	t.Helper()
	if len(got) != n || !bytes.HasPrefix(got, []byte(want)) || len(bytes.Trim(got[len(want):], "\x00")) != 0 {
		t.Errorf("%s: %d bytes %q, want %d that start with %q", what, len(got), got, n, want)
	}
}

// A connection in all its stations, with queue pairs that the manager looks after.
func TestEvents(t *testing.T) {
	t.Parallel()
	client, server := sides(t, cm.TCP)
	client.addQP(client.id)
	p := cm.DefaultConnParam
	p.PrivateData = []byte("please")
	ok(t, client.id.Connect(&p))

	e := server.event(cm.ConnectRequest)
	if e.Listener != server.id || e.ID == server.id {
		t.Error("the request is of a new id, with its listener")
	}
	holds(t, "request", e.Conn.PrivateData, "please", cm.MaxConnectData)
	if e.ID.PeerAddr() != client.id.LocalAddr() || e.ID.LocalAddr() != client.id.PeerAddr() {
		t.Errorf("request from %v to %v, want %v to %v", e.ID.PeerAddr(), e.ID.LocalAddr(), client.id.LocalAddr(),
			client.id.PeerAddr())
	}
	in := e.ID
	defer in.Close()
	server.addQP(in)
	p.PrivateData = []byte("welcome")
	ok(t, in.Accept(&p))
	holds(t, "reply", client.event(cm.Established).Conn.PrivateData, "welcome", cm.MaxAcceptData)
	if e := server.event(cm.Established); e.ID != in {
		t.Error("another id is established")
	}
	for _, id := range []*cm.ID{client.id, in} {
		if s := id.QP().State(); s != verbs.StateRTS {
			t.Errorf("the queue pair is in %v", s)
		}
	}
	ok(t, client.id.Disconnect())
	server.event(cm.Disconnected)
	client.event(cm.Disconnected)
	for _, id := range []*cm.ID{client.id, in} {
		if s := id.QP().State(); s != verbs.StateError {
			t.Errorf("the queue pair is in %v", s)
		}
		ok(t, id.Disconnect())
	}
	client.event(cm.TimewaitExit)
	server.event(cm.TimewaitExit)
}

// The same with queue pairs that the programs bring through their states.
func TestEventsOfOwnQueuePairs(t *testing.T) {
	client, server := sides(t, cm.TCP)
	ownQueuePairs(t, client, server, cm.ConnectResponse)
}

// Over streams the device brings queue pairs to RTS, and there is no ConnectResponse. Establish has no effect there.
func TestEventsOfOwnQueuePairsOverStreams(t *testing.T) {
	for kind, open := range map[string]func(*testing.T) *verbs.Device{"iwarp": openIWARP, "shm": openMemory} {
		t.Run(kind, func(t *testing.T) {
			client, server := sidesOf(t, open(t), open(t), cm.TCP)
			for _, n := range []verbs.QPN{0x12345, 0xffffff} {
				if err := client.id.Connect(&cm.ConnParam{QPNum: n}); !errors.Is(err, verbs.ErrInvalid) {
					t.Errorf("a queue pair that there is not: %v", err)
				}
			}
			ownQueuePairs(t, client, server, cm.Established)
		})
	}
}

// ownQueuePairs connects queue pairs of the programs. The client's first event is answer.
func ownQueuePairs(t *testing.T, client, server *side, answer cm.EventType) {
	t.Helper()
	make := func(s *side, id *cm.ID) *verbs.QP {
		qp, err := s.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq})
		ok(t, err)
		raise(t, id, qp, verbs.StateInit)
		return qp
	}
	mine := make(client, client.id)
	p := cm.DefaultConnParam
	p.QPNum = mine.Num()
	ok(t, client.id.Connect(&p))
	e := server.event(cm.ConnectRequest)
	if answer == cm.ConnectResponse && e.Conn.QPNum != mine.Num() {
		t.Errorf("request of queue pair %d, want %d", e.Conn.QPNum, mine.Num())
	}
	theirs := make(server, e.ID)
	raise(t, e.ID, theirs, verbs.StateRTR, verbs.StateRTS)
	p.QPNum = theirs.Num()
	ok(t, e.ID.Accept(&p))
	client.event(answer)
	if answer == cm.Established {
		raise(t, client.id, mine, verbs.StateInit)
	}
	raise(t, client.id, mine, verbs.StateRTR, verbs.StateRTS)
	ok(t, client.id.Establish())
	server.event(cm.Established)

	mr, err := client.pd.RegMR([]byte("hello"), 0)
	ok(t, err)
	into, err := server.pd.RegMR(append([]byte(nil), "....."...), verbs.LocalWrite)
	ok(t, err)
	ok(t, theirs.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{into.SGE(0, 5)}}))
	ok(t, mine.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{mr.SGE(0, 5)}}))
	var wc [1]verbs.WC
	if _, err := server.cq.Wait(within(t), wc[:]); err != nil || wc[0].Status != verbs.StatusSuccess ||
		string(into.Bytes()) != "hello" {
		t.Errorf("%v, %v, %q", err, wc[0].Status, into.Bytes())
	}
	ok(t, e.ID.Notify(verbs.EventCommEstablished))
	ok(t, e.ID.Close())
	client.event(cm.Disconnected)
}

func raise(t *testing.T, id *cm.ID, qp *verbs.QP, states ...verbs.QPState) {
	t.Helper()
	for _, s := range states {
		attr, mask, err := id.InitQPAttr(s)
		ok(t, err)
		ok(t, qp.Modify(attr, mask))
	}
}

// Where the client's last word is lost, the server's queue pair knows first.
func TestNotifyEstablishes(t *testing.T) {
	client, server := sides(t, cm.TCP)
	qp, err := client.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: client.cq, RecvCQ: client.cq})
	ok(t, err)
	p := cm.DefaultConnParam
	p.QPNum = qp.Num()
	ok(t, client.id.Connect(&p))
	e := server.event(cm.ConnectRequest)
	server.addQP(e.ID)
	defer e.ID.Close()
	ok(t, e.ID.Accept(nil))
	client.event(cm.ConnectResponse) // and Establish is never called
	ok(t, e.ID.Notify(verbs.EventPathMigrated))
	ok(t, e.ID.Notify(verbs.EventCommEstablished))
	server.event(cm.Established)
	ok(t, e.ID.Notify(verbs.EventCommEstablished))
}

func TestReject(t *testing.T) {
	client, server := sides(t, cm.TCP)
	client.addQP(client.id)
	ok(t, client.id.Connect(nil))
	e := server.event(cm.ConnectRequest)
	ok(t, e.ID.Reject([]byte("no room")))
	got := client.event(cm.Rejected)
	holds(t, "rejection", got.Conn.PrivateData, "no room", cm.MaxRejectData)
	var why *cm.RejectError
	if !errors.As(got.Err, &why) || why.Reason != cm.ReasonConsumer || why.Address != server.id.LocalAddr().String() {
		t.Errorf("%v", got.Err)
	}
	fails(t, e.ID.Accept(nil), cm.ErrDisconnected,
		"has ended: "+e.ID.LocalAddr().String()+" to "+e.ID.PeerAddr().String())
	fails(t, client.id.Disconnect(), cm.ErrDisconnected)
	ok(t, e.ID.Close())
}

// An id that is closed with an unanswered request rejects it.
func TestCloseRejects(t *testing.T) {
	for _, what := range []string{"request", "listener", "channel"} {
		t.Run(what, func(t *testing.T) {
			client, server := sides(t, cm.TCP)
			client.addQP(client.id)
			ok(t, client.id.Connect(nil))
			switch what {
			case "request":
				ok(t, server.event(cm.ConnectRequest).ID.Close())
			case "listener":
				eventually(t, func() bool { _, there := server.ch.TryGet(); return there }, "request")
				ok(t, server.id.Close())
			case "channel":
				e := server.event(cm.ConnectRequest)
				defer e.ID.Close()
				second := newSide(t, client.id.Device(), cm.TCP)
				second.resolve(server.id.LocalAddr())
				second.addQP(second.id)
				ok(t, second.id.Connect(nil))
				ok(t, server.ch.Close())
				second.event(cm.Rejected)
				return
			}
			client.event(cm.Rejected)
		})
	}
}

func TestPrivateDataLimits(t *testing.T) {
	for _, c := range []struct {
		ps                      cm.PortSpace
		connect, accept, reject int
	}{
		{cm.TCP, cm.MaxConnectData, cm.MaxAcceptData, cm.MaxRejectData},
		{cm.UDP, cm.MaxConnectDataUD, cm.MaxAcceptDataUD, cm.MaxAcceptDataUD},
	} {
		t.Run(c.ps.String(), func(t *testing.T) {
			client, server := sides(t, c.ps)
			client.addQP(client.id)
			data := func(n int) *cm.ConnParam {
				p := cm.DefaultConnParam
				p.PrivateData = bytes.Repeat([]byte{'x'}, n)
				return &p
			}
			fails(t, client.id.Connect(data(c.connect+1)), verbs.ErrInvalid, "private data",
				client.id.PeerAddr().String())
			ok(t, client.id.Connect(data(c.connect)))
			e := server.event(cm.ConnectRequest)
			got := e.Conn.PrivateData
			if c.ps == cm.UDP {
				got = e.UD.PrivateData
			}
			if !bytes.Equal(got, data(c.connect).PrivateData) {
				t.Errorf("%q", got)
			}
			server.addQP(e.ID)
			defer e.ID.Close()
			fails(t, e.ID.Reject(data(c.reject+1).PrivateData), verbs.ErrInvalid, "private data")
			fails(t, e.ID.Accept(data(c.accept+1)), verbs.ErrInvalid, "private data")
			ok(t, e.ID.Accept(data(c.accept)))
			answer := client.event(cm.Established)
			got = answer.Conn.PrivateData
			if c.ps == cm.UDP {
				got = answer.UD.PrivateData
			}
			if !bytes.Equal(got, data(c.accept).PrivateData) {
				t.Errorf("%q", got)
			}
		})
	}
}

// READs and atomics: each side gets the smaller of its own depth and the peer's.
func TestDepths(t *testing.T) {
	for _, c := range []struct {
		name                   string
		client, server         [2]uint8 // responder resources, initiator depth
		request, atServ, atCli [2]uint8 // the depths in the server's event, and of both sides in the end
	}{
		{"the same", [2]uint8{4, 4}, [2]uint8{4, 4}, [2]uint8{4, 4}, [2]uint8{4, 4}, [2]uint8{4, 4}},
		{"one way", [2]uint8{0, 8}, [2]uint8{8, 0}, [2]uint8{8, 0}, [2]uint8{8, 0}, [2]uint8{0, 8}},
		{"server less", [2]uint8{8, 6}, [2]uint8{2, 3}, [2]uint8{6, 8}, [2]uint8{2, 3}, [2]uint8{3, 2}},
		{"server more", [2]uint8{2, 3}, [2]uint8{9, 9}, [2]uint8{3, 2}, [2]uint8{3, 2}, [2]uint8{2, 3}},
		{"none", [2]uint8{0, 0}, [2]uint8{9, 9}, [2]uint8{0, 0}, [2]uint8{0, 0}, [2]uint8{0, 0}},
		{"unlimited", [2]uint8{cm.Unlimited, cm.Unlimited}, [2]uint8{cm.Unlimited, cm.Unlimited}, [2]uint8{128, 128},
			[2]uint8{128, 128}, [2]uint8{128, 128}},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, server := sides(t, cm.TCP)
			client.addQP(client.id)
			p := cm.DefaultConnParam
			p.ResponderResources, p.InitiatorDepth = c.client[0], c.client[1]
			p.RetryCount, p.RNRRetryCount = 5, 3
			ok(t, client.id.SetAckTimeout(15))
			ok(t, client.id.Connect(&p))
			e := server.event(cm.ConnectRequest)
			defer e.ID.Close()
			if got := [2]uint8{e.Conn.ResponderResources, e.Conn.InitiatorDepth}; got != c.request {
				t.Errorf("the server is told %v, want %v", got, c.request)
			}
			server.addQP(e.ID)
			p.ResponderResources, p.InitiatorDepth = c.server[0], c.server[1]
			p.RNRRetryCount = 6
			ok(t, e.ID.Accept(&p))
			client.event(cm.Established)
			server.event(cm.Established)
			for _, s := range []struct {
				name string
				id   *cm.ID
				want [2]uint8
				rnr  uint8
			}{{"server", e.ID, c.atServ, 3}, {"client", client.id, c.atCli, 6}} {
				a := s.id.QP().Query()
				if got := [2]uint8{a.MaxDestRdAtomic, a.MaxRdAtomic}; got != s.want {
					t.Errorf("%s: %v, want %v", s.name, got, s.want)
				}
				if a.RetryCount != 5 || a.RNRRetry != s.rnr || a.Timeout != 15 {
					t.Errorf("%s: %d retries, %d for RNR, timeout %d; want 5, %d, 15", s.name, a.RetryCount, a.RNRRetry,
						a.Timeout, s.rnr)
				}
			}
		})
	}
}

// How long a peer waits that found no receive depends on how often it was asked to try again.
func TestRNRTimer(t *testing.T) {
	const limited, unlimited = 0, 12 // codes of 655.36 ms and 0.64 ms
	for _, c := range []struct {
		client, server     uint8 // RNR retries that they request
		atClient, atServer uint8
	}{
		{7, 7, unlimited, unlimited},
		{6, 7, limited, unlimited},
		{7, 6, unlimited, limited},
		{0, 1, limited, limited},
	} {
		t.Run(fmt.Sprint(c.client, c.server), func(t *testing.T) {
			client, server := sides(t, cm.TCP)
			client.addQP(client.id)
			p := cm.DefaultConnParam
			p.RNRRetryCount = c.client
			ok(t, client.id.Connect(&p))
			e := server.event(cm.ConnectRequest)
			defer e.ID.Close()
			server.addQP(e.ID)
			p.RNRRetryCount = c.server
			ok(t, e.ID.Accept(&p))
			client.event(cm.Established)
			server.event(cm.Established)
			a := client.id.QP().Query()
			b := e.ID.QP().Query()
			if a.MinRNRTimer != c.atClient || b.MinRNRTimer != c.atServer {
				t.Errorf("client %d, server %d, want %d, %d", a.MinRNRTimer, b.MinRNRTimer, c.atClient, c.atServer)
			}
		})
	}
}

func TestBind(t *testing.T) {
	dev := open(t)
	at := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	a := newSide(t, dev, cm.TCP)
	fails(t, a.id.Bind(at("203.0.113.77:5000")), cm.ErrNoAddr, "203.0.113.77", dev.Name())
	ok(t, a.id.Bind(at("0.0.0.0:5000")))
	own := a.id.LocalAddr()
	if own.Port() != 5000 || "roce:"+own.Addr().String() != dev.Name() {
		t.Errorf("bound to %v", own)
	}
	fails(t, a.id.Bind(at("0.0.0.0:5001")), verbs.ErrState)

	b := newSide(t, dev, cm.TCP)
	fails(t, b.id.Bind(own), cm.ErrAddrInUse, "5000", own.Addr().String())
	ok(t, b.id.Bind(at("[::]:0")))
	if p := b.id.LocalAddr().Port(); p == 0 || p == 5000 {
		t.Errorf("any port is %d", p)
	}
	udp := newSide(t, dev, cm.UDP) // has ports of its own
	ok(t, udp.id.Bind(own))

	ok(t, a.id.Close())
	c := newSide(t, dev, cm.TCP)
	ok(t, c.id.SetReuseAddr(true))
	ok(t, c.id.Bind(own))
	d := newSide(t, dev, cm.TCP)
	ok(t, d.id.SetReuseAddr(true))
	ok(t, d.id.Bind(own))
	ok(t, c.id.Listen(0))
	fails(t, d.id.Listen(0), cm.ErrAddrInUse, "5000")
	e := newSide(t, dev, cm.TCP)
	ok(t, e.id.SetReuseAddr(true))
	fails(t, e.id.Bind(own), cm.ErrAddrInUse)
	ok(t, e.id.Listen(0)) // which binds it to any port
	if !e.id.LocalAddr().IsValid() {
		t.Error("a listener has an address")
	}
}

func TestResolveRefusals(t *testing.T) {
	dev := open(t)
	s := newSide(t, dev, cm.TCP)
	none := netip.AddrPort{}
	fails(t, s.id.ResolveRoute(time.Second), verbs.ErrState)
	fails(t, s.id.Connect(nil), verbs.ErrState, "not bound")
	fails(t, s.id.ResolveAddr(none, none, time.Second), verbs.ErrInvalid)
	fails(t, s.id.ResolveAddr(none, netip.MustParseAddrPort("[fd00::1]:7"), time.Second), cm.ErrNoAddr, "fd00::1")
	ok(t, s.id.ResolveAddr(none, netip.MustParseAddrPort("203.0.113.77:7"), time.Second))
	e := s.event(cm.AddrError)
	fails(t, e.Err, cm.ErrNoAddr, "203.0.113.77")
	ok(t, s.id.ResolveAddr(none, netip.MustParseAddrPort("0.0.0.0:7"), time.Second))
	s.event(cm.AddrResolved)
	if got := s.id.PeerAddr().Addr(); got != s.id.LocalAddr().Addr() {
		t.Errorf("0.0.0.0 is %v", got)
	}
	if _, err := cm.NewID(s.ch, dev, 7); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("an unknown port space: %v", err)
	}
	ok(t, s.id.ResolveRoute(time.Second))
	fails(t, s.id.Connect(nil), verbs.ErrInvalid, "queue pair")
	_, err := s.id.CreateQP(s.pd, verbs.QPInit{Type: verbs.XRCIni, SendCQ: s.cq})
	fails(t, err, verbs.ErrInvalid, "XRC", "port space TCP")
	fails(t, s.id.Accept(nil), verbs.ErrState)
	ok(t, s.id.Close())
	ok(t, s.id.Close())
	fails(t, s.id.Bind(none), verbs.ErrClosed)
	fails(t, s.id.Migrate(s.ch), verbs.ErrClosed)
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	client, server := sides(t, cm.TCP)
	client.addQP(client.id)
	ok(t, client.id.Connect(nil))
	e := server.event(cm.ConnectRequest)
	in := e.ID
	defer in.Close()
	server.addQP(in)
	ok(t, in.Accept(nil))
	client.event(cm.Established)
	eventually(t, func() bool { return server.ch.Queued() == 1 }, "established") // the DREQ could come before the RTU
	ok(t, client.id.Disconnect())
	client.event(cm.Disconnected)

	// Established and Disconnected wait at the listener's channel, and move in order.
	other := cm.NewEventChannel()
	eventually(t, func() bool { return in.QP().State() == verbs.StateError }, "disconnected")
	ok(t, in.Migrate(other))
	ok(t, in.Migrate(other))
	if e, there := server.ch.TryGet(); there {
		t.Errorf("%v was left behind", e.Type)
	}
	event(t, other, cm.Established)
	event(t, other, cm.Disconnected)
	event(t, other, cm.TimewaitExit)

	// A listener takes the requests along that have not been fetched.
	second := newSide(t, client.id.Device(), cm.TCP)
	second.resolve(server.id.LocalAddr())
	second.addQP(second.id)
	ok(t, second.id.Connect(nil))
	ok(t, server.id.Migrate(other))
	in = event(t, other, cm.ConnectRequest).ID
	defer in.Close()
	server.addQP(in)
	ok(t, in.Accept(nil))
	second.event(cm.Established)
	event(t, other, cm.Established) // later events arrive there, too
}

// The way to an address has no port; a connection has.
func TestResolveWithoutPort(t *testing.T) {
	dev := open(t)
	s := newSide(t, dev, cm.TCP)
	to := netip.MustParseAddrPort(dev.Name()[len("roce:"):] + ":0")
	s.resolve(to)
	s.addQP(s.id)
	fails(t, s.id.Connect(nil), verbs.ErrInvalid, to.String())
}

// The id's events vanish with it, and with their channel.
func TestCloseDropsEvents(t *testing.T) {
	dev := open(t)
	s := newSide(t, dev, cm.TCP)
	ok(t, s.id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("0.0.0.0:7"), time.Second))
	ok(t, s.id.Close())
	if e, there := s.ch.TryGet(); there {
		t.Errorf("%v of a closed id", e.Type)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.ch.Get(ctx); err != context.Canceled {
		t.Error(err)
	}
	ok(t, s.ch.Close())
	ok(t, s.ch.Close())
	_, err := s.ch.Get(t.Context())
	fails(t, err, verbs.ErrClosed)
}

func TestDeviceRemoval(t *testing.T) {
	client, server := sides(t, cm.TCP)
	dev := server.id.Device()
	go dev.Close()
	e := server.event(cm.DeviceRemoval)
	if e.ID != server.id {
		t.Error("of another id")
	}
	fails(t, server.id.Disconnect(), verbs.ErrClosed, "device")
	ok(t, server.id.Close())
	_ = client
}

// Either side closes at each station; the other learns of it, and nothing is left.
func TestCloseAnywhere(t *testing.T) {
	t.Parallel()
	for station, name := range []string{"asked", "queue pair", "accepted", "established", "disconnecting"} {
		for _, who := range []string{"client", "server"} {
			t.Run(name+"/"+who, func(t *testing.T) {
				client, server := sides(t, cm.TCP)
				client.addQP(client.id)
				ok(t, client.id.Connect(nil))
				in := server.event(cm.ConnectRequest).ID
				for i, step := range []func(){
					func() {},
					func() { server.addQP(in) },
					func() { ok(t, in.Accept(nil)) },
					func() { client.event(cm.Established); server.event(cm.Established) },
					func() { ok(t, client.id.Disconnect()) },
				} {
					if step(); i == station {
						break
					}
				}
				gone, left := client.id, server
				if who == "server" {
					gone, left = in, client
				}
				ok(t, gone.Close())
				ok(t, gone.Close())
				for { // events of the way there may come before
					e, err := left.ch.Get(within(t))
					ok(t, err)
					if e.Type == cm.Rejected || e.Type == cm.Disconnected {
						break
					}
					if e.Type != cm.Established {
						t.Fatalf("event %q: %v", e.Type, e.Err)
					}
				}
				ok(t, in.Close())
				ok(t, client.id.Close())
				ok(t, server.id.Close())
				eventually(t, func() bool { return cm.Idle(client.id.Device()) && cm.Idle(server.id.Device()) },
					"nothing is left")
			})
		}
	}
}
