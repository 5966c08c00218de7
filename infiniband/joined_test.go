// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// listening starts a fabric with ports for adapters that join at the address that it returns.
func listening(ctx context.Context, t *testing.T, spare int, address string) (*infiniband.Fabric, string) {
	t.Helper()
	f := softfabric.Generate(t, "star:1", &infiniband.FabricOptions{Spare: spare})
	var a net.Addr
	eventually(t, "the address is free", func() (ok bool) {
		var err error
		a, err = f.Listen(ctx, address)
		return err == nil
	})
	return f, a.String()
}

// joinAs opens the device of an adapter that joins.
func joinAs(t *testing.T, address, name string) *verbs.Device {
	t.Helper()
	d, err := infiniband.OpenJoined(within(t), address, &infiniband.JoinOptions{Name: t.Name() + name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// stateOf returns the state of a device's port.
func stateOf(t *testing.T, d *verbs.Device) verbs.PortState {
	t.Helper()
	p, err := d.Port(1)
	if err != nil {
		t.Fatal(err)
	}
	return p.State
}

// TestAdaptersJoin: two adapters join, one with losses, repetitions and changes on its way. The stream between them
// arrives as it was written, and a listener is found by the host's address or the GID.
func TestAdaptersJoin(t *testing.T) {
	t.Parallel()
	f, at := listening(t.Context(), t, 4, "127.0.0.1:0")
	p := startProxy(t, at)
	a, b := joinAs(t, p.conn.LocalAddr().String(), "a"), joinAs(t, at, "b")
	x := startTransfer(t, a, b, patient)
	x.more(t, 1<<20)
	p.percent.Store(2)
	x.more(t, 2<<20)
	p.percent.Store(0)
	x.more(t, 4<<20)
	if p.lost.Load() == 0 {
		t.Error("nothing was lost")
	}
	l := pair.Echo(t, a, net.JoinHostPort(gidOf(t, a), "0"))
	c, err := cm.Dial(within(t), b, l.Addr().String(), cm.WithAckTimeout(patient))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := talk(within(t), c, 10); err != nil {
		t.Error(err)
	}
	c.Close()

	// Nothing comes through: the port goes down at both ends, and comes up when it does again.
	p.percent.Store(100)
	here := infiniband.End{Node: t.Name() + "a", Port: 1}
	eventually(t, "the port is down", func() bool { return stateOf(t, a) == verbs.PortDown })
	p.percent.Store(0)
	eventually(t, "the port is active", func() bool { return stateOf(t, a) == verbs.PortActive })

	// Pulled, it stays down until it is plugged in again.
	if err := f.Pull(here); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the port is down", func() bool { return stateOf(t, a) == verbs.PortDown })
	if err := f.Relink(infiniband.End{Node: "nobody", Port: 1}); err == nil {
		t.Error("a cable that was not pulled is plugged in again")
	}
	eventually(t, "the cable is pulled", func() bool { return f.Relink(here) == nil })
	eventually(t, "the port is active", func() bool { return stateOf(t, a) == verbs.PortActive })
}

// TestFabricStartsAgain: adapters join the next fabric at the address of the fabric that they had joined, and keep
// their LIDs.
func TestFabricStartsAgain(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	f, at := listening(ctx, t, 2, "127.0.0.1:0")
	d := joinAs(t, at, "")
	before, err := d.Port(1)
	if err != nil || before.State != verbs.PortActive {
		t.Fatal(before.State, err)
	}
	stop()
	f.Close()
	eventually(t, "the port is down", func() bool { return stateOf(t, d) == verbs.PortDown })
	listening(t.Context(), t, 2, at)
	eventually(t, "the port is active", func() bool { return stateOf(t, d) == verbs.PortActive })
	if after, _ := d.Port(1); after.LID != before.LID {
		t.Errorf("the LID was %d, and is %d", before.LID, after.LID)
	}
}

// TestAdapterRefused: refusals say what to do, and an adapter that comes back has its port and GUID.
func TestAdapterRefused(t *testing.T) {
	t.Parallel()
	f, at := listening(t.Context(), t, 1, "127.0.0.1:0")
	d := joinAs(t, at, "a")
	guid := d.Query().NodeGUID
	if got, err := infiniband.JoinedGUID(t.Name() + "a"); err != nil || got != guid {
		t.Errorf("the GUID is %#x, %v, want %#x", got, err, guid)
	}
	_, err := infiniband.OpenJoined(within(t), at, &infiniband.JoinOptions{Name: t.Name() + "b"})
	if err == nil || !strings.Contains(err.Error(), "--spare") {
		t.Errorf("without a port: %v", err)
	}
	end := freeOrFar(f, t.Name()+"a")
	d.Close()
	again := joinAs(t, at, "a")
	if got := freeOrFar(f, t.Name()+"a"); got != end || again.Query().NodeGUID != guid {
		t.Errorf("it is at %v with %#x, and was at %v with %#x", got, again.Query().NodeGUID, end, guid)
	}
	for address, want := range map[string]string{"7470": "HOST:PORT", "127.0.0.1:": "HOST:PORT",
		"127.0.0.1:x": "not where a fabric listens"} {
		if _, err := infiniband.OpenJoined(within(t), address, nil); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// freeOrFar returns the port with the cable to an adapter.
func freeOrFar(f *infiniband.Fabric, name string) (at infiniband.End) {
	for _, n := range f.View().Nodes {
		for _, p := range n.Ports {
			if n.Type == infiniband.Switch && strings.HasPrefix(p.Remote, name+"[1]") {
				at = infiniband.End{Node: n.Name, Port: p.Number}
			}
		}
	}
	return at
}

// A device that does not wait is opened without a fabric, and its port is down.
func TestJoinWithoutFabric(t *testing.T) {
	d, err := infiniband.OpenJoined(within(t), "127.0.0.1:9", &infiniband.JoinOptions{Name: t.Name(), NoWait: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if s := stateOf(t, d); s != verbs.PortDown {
		t.Errorf("the port is %v", s)
	}
}
