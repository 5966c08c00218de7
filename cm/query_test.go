// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// askingDriver is a device that brings a protocol of its own: that of RoCEv2, but everything is
// asked of a test first.
type askingDriver struct {
	driver.Device
	driver.UnsupportedConnector
	asked chan asking
}

// asking is a query under way.
type asking struct {
	what   string
	answer chan error
	ended  <-chan struct{} // of its context
}

func (d *askingDriver) Connections(p driver.Protocols) error {
	err := d.Device.(driver.Connector).Connections(p)
	if m := p.(*manager); err == nil {
		m.proto = &askingProtocol{m.proto.(*ibProtocol), d}
	}
	return err
}

type askingProtocol struct {
	*ibProtocol
	dev *askingDriver
}

func (p *askingProtocol) newEndpoint(id *ID) endpoint {
	return &askingConn{p.ibProtocol.newEndpoint(id).(*ibConn), p.dev, make(chan string, 8)}
}

type askingConn struct {
	*ibConn
	dev  *askingDriver
	left chan string // groups
}

func (c *askingConn) ask(what string) (query, error) {
	return func(ctx context.Context) error {
		a := asking{what, make(chan error), ctx.Done()}
		c.dev.asked <- a
		select {
		case err := <-a.answer:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil
}

func (c *askingConn) resolveAddr(string) (query, error) { return c.ask("address") }
func (c *askingConn) resolveRoute() (query, error)      { return c.ask("route") }
func (c *askingConn) join(g *membership) (query, error) {
	c.ibConn.join(g)
	return c.ask(g.group.String())
}
func (c *askingConn) leave(g *membership) { c.left <- g.group.String() }

// asker is an id of such a device.
type asker struct {
	t   *testing.T
	dev *verbs.Device
	drv *askingDriver
	ch  *EventChannel
	id  *ID
}

func newAsker(t *testing.T, ps PortSpace) *asker {
	t.Helper()
	under, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	drv := &askingDriver{Device: driver.DeviceOf(under), asked: make(chan asking)}
	a := &asker{t: t, drv: drv, dev: driver.NewDevice(drv), ch: NewEventChannel()}
	t.Cleanup(func() { a.dev.Close(); under.Close() })
	var err error
	a.id, err = NewID(a.ch, a.dev, ps)
	a.ok(err)
	return a
}

func (a *asker) ok(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *asker) context() context.Context {
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*time.Minute)
	a.t.Cleanup(cancel)
	return ctx
}

// asked waits for a query.
func (a *asker) asked(what string) asking {
	a.t.Helper()
	select {
	case q := <-a.drv.asked:
		if q.what != what {
			a.t.Fatalf("%s is asked for, want %s", q.what, what)
		}
		return q
	case <-a.context().Done():
		a.t.Fatal("nothing is asked")
	}
	panic("unreachable")
}

// event waits for an event.
func (a *asker) event(want EventType) *Event {
	a.t.Helper()
	e, err := a.ch.Get(a.context())
	a.ok(err)
	if e.Type != want {
		a.t.Fatalf("event %q (%v), want %q", e.Type, e.Err, want)
	}
	return e
}

// ends waits for the end of a query's context.
func (a *asker) ends(q asking) {
	a.t.Helper()
	select {
	case <-q.ended:
	case <-a.context().Done():
		a.t.Fatal("the query goes on")
	}
}

// resolve has the id ask for an address.
func (a *asker) resolve(limit time.Duration) asking {
	a.t.Helper()
	a.ok(a.id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort("0.0.0.0:7"), limit))
	return a.asked("address")
}

var errAsked = errors.New("there is no such path")

// The look-ups of a protocol may take long: the calls return, the id waits in a state of its own
// without delaying others, and after an error the id has its former state.
func TestResolutionWaits(t *testing.T) {
	a := newAsker(t, TCP)
	q := a.resolve(0)
	if err := a.id.ResolveRoute(0); !errors.Is(err, verbs.ErrState) {
		t.Errorf("resolving the route meanwhile: %v", err)
	}
	other, err := NewID(a.ch, a.dev, TCP) // the manager is not held
	a.ok(err)
	a.ok(other.Close())
	q.answer <- errAsked
	if e := a.event(AddrError); !errors.Is(e.Err, errAsked) {
		t.Errorf("%v, want %v", e.Err, errAsked)
	}
	q = a.resolve(0)
	q.answer <- nil
	a.event(AddrResolved)
	a.ok(a.id.ResolveRoute(0))
	q = a.asked("route")
	if err := a.id.Connect(&ConnParam{QPNum: 2}); !errors.Is(err, verbs.ErrState) {
		t.Errorf("connecting meanwhile: %v", err)
	}
	q.answer <- errAsked
	if e := a.event(RouteError); !errors.Is(e.Err, errAsked) {
		t.Errorf("%v, want %v", e.Err, errAsked)
	}
	a.ok(a.id.ResolveRoute(0))
	a.asked("route").answer <- nil
	a.event(RouteResolved)
}

// A resolution ends when its time is over, and with its id and its device.
func TestResolutionEnds(t *testing.T) {
	a := newAsker(t, TCP)
	a.resolve(time.Millisecond)
	if e := a.event(AddrError); !errors.Is(e.Err, ErrTimeout) {
		t.Errorf("%v, want ErrTimeout", e.Err)
	}
	q := a.resolve(0)
	a.ok(a.id.Close())
	a.ends(q)
	var err error
	a.id, err = NewID(a.ch, a.dev, TCP)
	a.ok(err)
	q = a.resolve(0)
	a.ok(a.dev.Close())
	a.event(DeviceRemoval)
	a.ends(q)
	a.ok(a.id.Close())
	if e, more := a.ch.TryGet(); more {
		t.Errorf("event %q of what is closed", e.Type)
	}
}

// Joining a group may take its time as well, and be given up.
func TestJoiningWaits(t *testing.T) {
	a := newAsker(t, UDP)
	left := a.id.ep.(*askingConn).left
	a.ok(a.id.Bind(netip.AddrPort{}))
	group := netip.MustParseAddr("239.1.2.3")
	a.ok(a.id.JoinMulticast(group))
	q := a.asked(group.String())
	if err := a.id.JoinMulticast(group); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("joining twice: %v", err)
	}
	q.answer <- errAsked
	if e := a.event(MulticastError); !errors.Is(e.Err, errAsked) || e.Group != group {
		t.Errorf("%v of %v, want %v", e.Err, e.Group, errAsked)
	}
	a.ok(a.id.JoinMulticast(group))
	q = a.asked(group.String())
	a.ok(a.id.LeaveMulticast(group))
	a.ends(q)
	if g := <-left; g != group.String() {
		t.Errorf("%s was left, want %v", g, group)
	}
	a.ok(a.id.JoinMulticast(group))
	a.asked(group.String()).answer <- nil
	if e := a.event(MulticastJoin); e.UD.AH.DGID.Addr() != group || e.UD.QKey != UDPQKey {
		t.Errorf("how to send: %+v", e.UD)
	}
	a.ok(a.id.Close())
	if g := <-left; g != group.String() {
		t.Errorf("%s was left, want %v", g, group)
	}
}
