// SPDX-License-Identifier: Apache-2.0

package fabriccontrol

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/fabricconsole"
	"github.com/ramjet-rdma/ramjet/internal/app/fabricview"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A Control is a console's fabric.
var _ fabricconsole.Fabric = (*Control)(nil)

func newControl(t *testing.T, shape string) *Control {
	t.Helper()
	return New(softfabric.Start(t, shape))
}

// Every command of the console has its effect on a fabric.
func TestConsole(t *testing.T) {
	c := newControl(t, "ring:3,1")
	var out bytes.Buffer
	err := fabricconsole.New(c, &out).Script(t.Context(), "test", `
expect active
expect route host-1 198.18.0.2
expect switch switch-1 up
unlink switch-1[2]
wait active within 1m
expect route host-1 host-2 within 1m
relink switch-1[2]
wait active within 1m
switch switch-3 down
expect switch switch-3 down
expect no route host-1 host-3 within 1m
switch switch-3 up
expect route host-1 host-3 within 1m
clear
hold host-1[1] 0 on
hold host-1[1] 0 off
error host-1[1] 1%
error host-1[1] 0
guid host-1[1] 0x0000000000abcdef
guid host-1
dump
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3 switches, 3 adapters, 6 links", "0x0000000000abcdef"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// Commands that cannot be carried out say why.
func TestRefused(t *testing.T) {
	c := newControl(t, "star:2")
	ctx := t.Context()
	end := func(n string, p int) fabricview.End { return fabricview.End{Node: n, Port: p} }
	for what, err := range map[string]error{
		`no node "host-7"`:    c.Unlink(ctx, end("host-7", 1)),
		"has ports 1 to 1":    c.Unlink(ctx, end("host-1", 2)),
		"only switches can":   c.SetSwitch(ctx, "host-1", false),
		"a share of the pack": c.SetErrorRate(ctx, end("host-1", 1), 2),
		"have no GUID":        c.SetGUID(ctx, end("switch-1", 1), 5),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if err := c.Sleep(stopped, time.Hour); err != context.Canceled {
		t.Error(err)
	}
}

// A route that ends says where, and why.
func TestBrokenRoute(t *testing.T) {
	c := newControl(t, "line:2,1")
	ctx := t.Context()
	from, to := fabricview.End{Node: "host-1", Port: 1}, fabricview.End{Node: "host-2", Port: 1}
	r, err := c.Route(ctx, from, to)
	if err != nil || r.Broken != "" || len(r.Hops) != 3 || r.Hops[2].To != to || r.FromLID == 0 || r.ToLID == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := c.SetSwitch(ctx, "switch-2", false); err != nil {
		t.Fatal(err)
	}
	r, err = c.Route(ctx, from, to)
	if err != nil || r.Broken == "" {
		t.Errorf("the last switch is down: %+v, %v", r, err)
	}
	if err := c.Unlink(ctx, from); err != nil {
		t.Fatal(err)
	}
	r, err = c.Route(ctx, from, to)
	if err != nil || r.Broken != "port 1 of host-1 is not active" {
		t.Errorf("without a cable: %+v, %v", r, err)
	}
}

// Packets of subnet management are not traffic; packets of programs are.
func TestTraffic(t *testing.T) {
	f := softfabric.Start(t, "star:2")
	c := New(f)
	counters := func() fabricview.Counters {
		v, err := c.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(v.Nodes, func(n fabricview.Node) bool { return n.Name == "host-1" })
		return v.Nodes[i].Ports[0].Counters
	}
	if got := counters(); got.XmitPackets == 0 || got.LanePackets != 0 {
		t.Errorf("after bring-up: %d packets sent, %d of data lanes", got.XmitPackets, got.LanePackets)
	}
	var devs [2]*verbs.Device
	for i, name := range []string{"host-1", "host-2"} {
		dev, err := f.Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		devs[i] = dev
	}
	before := counters().LanePackets
	ends := pair.Connect(t, devs[0], devs[1], pair.Options{Type: verbs.RC, Size: 64, Depth: 1})
	err := ends[0].QP.PostSend(&verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled,
		SGL: []verbs.SGE{ends[0].MR.SGE(0, 64)}, Remote: ends[1].MR.Remote()})
	if err != nil {
		t.Fatal(err)
	}
	var wc [1]verbs.WC
	if _, err := ends[0].CQ.Wait(t.Context(), wc[:]); err != nil || wc[0].Status != verbs.StatusSuccess {
		t.Fatal(err, wc[0].Status)
	}
	if got := counters().LanePackets - before; got < 2 {
		t.Errorf("a READ moved %d packets of data lanes, want a request and a response", got)
	}
}

// Loads are shares of the rate, which software may exceed, and do not follow from counters that were cleared.
func TestLoads(t *testing.T) {
	view := func(sent ...uint64) *fabricview.View {
		n := fabricview.Node{Name: "n"}
		for i, s := range sent {
			n.Ports = append(n.Ports, fabricview.Port{Number: i + 1, Mbps: 100,
				Counters: fabricview.Counters{XmitData: s}})
		}
		return &fabricview.View{Nodes: []fabricview.Node{n}}
	}
	v := view(1000, 1000+6_250_000, 1<<40, 5)
	addLoads(v, view(1000, 1000, 0, 1000), time.Second)
	for i, want := range []float64{0, 0.5, float64(1<<40) * 8 / 1e8, 0} {
		if got := v.Nodes[0].Ports[i].Load; got != want {
			t.Errorf("port %d: load %v, want %v", i+1, got, want)
		}
	}
}

func TestPlanned(t *testing.T) {
	v, err := Planned("", "star:3")
	if err != nil || len(v.Nodes) != 4 || len(v.Links) != 3 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := Planned("/nowhere/to/be/found", ""); err == nil {
		t.Error("a file that is not there")
	}
}
