// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var gsiTests = []test{
	{name: "GSI/Exchange", run: testGSIExchange, needs: []Ability{GeneralServices}},
	{name: "GSI/Self", run: testGSISelf, needs: []Ability{GeneralServices}},
	{name: "GSI/Bound", run: testGSIBound, needs: []Ability{GeneralServices}},
	{name: "GSI/Refused", run: testGSIRefused, needs: []Ability{GeneralServices}},
	{name: "GSI/Claim", run: testGSIClaim, needs: []Ability{GeneralServices}},
	{name: "GSI/Close", run: testGSIClose, needs: []Ability{GeneralServices}},
}

// gsi opens QP1 of a device.
func (t *T) gsi(dev *verbs.Device) *verbs.GSI {
	t.Helper()
	g := value(dev.OpenGSI())(t)
	t.Cleanup(func() { g.Close() })
	return g
}

// gid returns the first GID of a device.
func (t *T) gid(dev *verbs.Device) verbs.GID {
	t.Helper()
	return value(dev.GIDs(1))(t)[0].GID
}

// mad makes a management datagram that tells seeds apart. Of the connection manager's
// class, it is a REQ for service id seed, and is thus for whoever claims that.
func mad(seed int) []byte {
	b := make([]byte, verbs.MADLen)
	pattern(b, seed)
	clear(b[:24])
	b[0], b[1], b[2], b[3], b[17] = 1, 7, 2, 3, 0x10
	clear(b[32:40])
	b[39] = byte(seed)
	return b
}

// receives waits for a datagram and returns whence it came.
func (t *T) receives(g *verbs.GSI, seed int) verbs.AHAttr {
	t.Helper()
	b := make([]byte, verbs.MADLen)
	n, from, err := g.Recv(t.within(), b)
	t.ok(err)
	if n != verbs.MADLen || string(b) != string(mad(seed)) {
		t.Fatalf("%d bytes % x…, want datagram %d", n, b[:40], seed)
	}
	return from
}

// testGSIExchange sends datagrams to and fro, the answers to where the questions came from.
func testGSIExchange(t *T) {
	da, db := t.devices()
	if da == db {
		t.Skip("a device is its own peer here: see GSI/Self")
	}
	a, b := t.gsi(da), t.gsi(db)
	t.ok(a.Claim(100, ^uint64(0)))
	t.ok(b.Claim(200, ^uint64(0)))
	for range 3 {
		t.ok(a.Send(verbs.AHAttr{DGID: t.gid(db)}, mad(200)))
		from := t.receives(b, 200)
		if from.DGID != t.gid(da) {
			t.Fatalf("from %v, want %v", from.DGID, t.gid(da))
		}
		t.ok(b.Send(from, mad(100)))
		t.receives(a, 100)
	}
}

func testGSISelf(t *T) {
	dev, _ := t.devices()
	g := t.gsi(dev)
	t.ok(g.Claim(1, ^uint64(0)))
	t.ok(g.Send(verbs.AHAttr{DGID: t.gid(dev)}, mad(1)))
	if from := t.receives(g, 1); from.DGID != t.gid(dev) {
		t.Errorf("from %v", from.DGID)
	}
}

// testGSIBound lets datagrams wait for nobody: what is kept is bounded, the rest counted.
func testGSIBound(t *T) {
	dev, _ := t.devices()
	g := t.gsi(dev)
	t.ok(g.Claim(1, ^uint64(0)))
	dropped := func() (n uint64) {
		for _, c := range dev.Counters() {
			if c.Name == "dropped_no_receive_posted" {
				n = c.Value
			}
		}
		return n
	}
	t.eventually(func() bool {
		for range 100 {
			if err := g.Send(verbs.AHAttr{DGID: t.gid(dev)}, mad(1)); !errors.Is(err, verbs.ErrQueueFull) {
				t.ok(err)
			}
		}
		return dropped() > 0
	}, "a datagram is dropped and counted")
	t.receives(g, 1)
}

func testGSIRefused(t *T) {
	dev, _ := t.devices()
	g := t.gsi(dev)
	self := verbs.AHAttr{DGID: t.gid(dev)}
	for _, n := range []int{0, verbs.MADLen - 1, verbs.MADLen + 1} {
		t.fails(g.Send(self, make([]byte, n)), verbs.ErrInvalid, "256")
	}
	t.fails(g.Send(verbs.AHAttr{}, mad(1)), verbs.ErrInvalid)
	_, _, err := g.Recv(t.Context(), make([]byte, verbs.MADLen-1))
	t.fails(err, verbs.ErrInvalid, "256")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := g.Recv(ctx, make([]byte, verbs.MADLen)); err != context.Canceled {
		t.Errorf("receiving with a context that has ended: %v", err)
	}
	_, err = dev.OpenGSI()
	t.fails(err, verbs.ErrBusy)
}

func testGSIClaim(t *T) {
	dev, _ := t.devices()
	g := t.gsi(dev)
	const service, whole = 0x01061234, ^uint64(0)
	t.ok(g.Claim(service, whole))
	t.fails(g.Claim(service, whole), verbs.ErrBusy, "0x1061234")
	t.fails(g.Claim(service&^0xffff, whole&^0xffff), verbs.ErrBusy, "0x1060000")
	t.ok(g.Claim(service+1, whole))
	g.Release(service)
	g.Release(service) // harmless
	t.ok(g.Claim(service, whole))
	t.ok(g.Close())
	g = t.gsi(dev)
	t.ok(g.Claim(service, whole))
	if base, mask := g.IDs(); base&^mask != 0 {
		t.Errorf("IDs %#x, mask %#x", base, mask)
	}
}

func testGSIClose(t *T) {
	for what, end := range map[string]func(*verbs.Device, *verbs.GSI) error{
		"GSI":    func(_ *verbs.Device, g *verbs.GSI) error { return g.Close() },
		"device": func(d *verbs.Device, _ *verbs.GSI) error { return d.Close() },
	} {
		dev := t.f.Open(t.T)
		g := value(dev.OpenGSI())(t)
		done := make(chan error, 2)
		for range 2 {
			go func() {
				_, _, err := g.Recv(t.within(), make([]byte, verbs.MADLen))
				done <- err
			}()
		}
		t.ok(end(dev, g))
		for range 2 {
			if err := t.finish(done); !errors.Is(err, verbs.ErrClosed) {
				t.Errorf("%s closed: receiving ended with %v", what, err)
			}
		}
		t.fails(g.Send(verbs.AHAttr{DGID: verbs.GID{15: 1}}, mad(1)), verbs.ErrClosed)
		t.fails(g.Claim(1, 1), verbs.ErrClosed)
		t.ok(g.Close())
		t.ok(dev.Close())
	}
}
