// SPDX-License-Identifier: Apache-2.0

package conformance

import "github.com/ramjet-rdma/ramjet/verbs"

var attributeTests = []test{
	{name: "Attributes/Device", run: testDeviceAttributes},
	{name: "Attributes/Port", run: testPortAttributes},
	{name: "Attributes/Clock", run: testClock},
	{name: "Attributes/Endpoint", run: testEndpoint},
}

func testDeviceAttributes(t *T) {
	dev, _ := t.devices()
	a := dev.Query()
	if a.Name == "" || a.Name != dev.Name() || a.Kind == "" || a.Firmware == "" || a.NodeGUID == 0 || a.Ports < 1 {
		t.Errorf("incomplete attributes: %+v", a)
	}
	if a.MaxSGE < 16 || a.MaxSGERead < 16 || a.MaxMsgSize < 1<<30 {
		t.Errorf("MaxSGE %d, MaxSGERead %d, MaxMsgSize %d: want 16, 16, 1 GiB at least", a.MaxSGE, a.MaxSGERead,
			a.MaxMsgSize)
	}
	for name, v := range map[string]int{"MaxQP": a.MaxQP, "MaxQPWR": a.MaxQPWR, "MaxCQ": a.MaxCQ, "MaxCQE": a.MaxCQE,
		"MaxMR": a.MaxMR, "MaxPD": a.MaxPD, "MaxQPRdAtomic": a.MaxQPRdAtomic, "MaxQPInitRdAtomic": a.MaxQPInitRdAtomic,
		"MaxPKeys": a.MaxPKeys} {
		if v < 1 {
			t.Errorf("%s is %d", name, v)
		}
	}
}

func testPortAttributes(t *T) {
	dev, _ := t.devices()
	p := value(dev.Port(1))(t)
	if p.State != verbs.PortActive || !p.ActiveMTU.Valid() || p.ActiveMTU > p.MaxMTU || p.MaxMsg == 0 || p.Link == 0 {
		t.Errorf("port attributes: %+v", p)
	}
	gids := value(dev.GIDs(1))(t)
	if len(gids) != p.GIDs || len(gids) == 0 {
		t.Errorf("%d GIDs, the port attributes say %d", len(gids), p.GIDs)
	}
	for i, g := range gids {
		if g.Index != i || g.GID == (verbs.GID{}) || g.Type == 0 {
			t.Errorf("row %d of the GID table: %+v", i, g)
		}
	}
	keys := value(dev.PKeys(1))(t)
	if len(keys) != p.PKeys || len(keys) == 0 || keys[0] != 0xffff {
		t.Errorf("P_Keys %x, the port attributes say there are %d", keys, p.PKeys)
	}
	for _, n := range []int{-1, 0, dev.Query().Ports + 1} {
		_, err := dev.Port(n)
		t.fails(err, verbs.ErrInvalid)
		_, err = dev.GIDs(n)
		t.fails(err, verbs.ErrInvalid)
		_, err = dev.PKeys(n)
		t.fails(err, verbs.ErrInvalid)
	}
}

func testClock(t *T) {
	dev, _ := t.devices()
	before := dev.Clock()
	t.eventually(func() bool { return dev.Clock() > before }, "time passes")
}

func testEndpoint(t *T) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	e.addQP(verbs.QPInit{})
	again := value(e.qp.Endpoint(0))(t)
	if e.ep.QPN != e.qp.Num() || e.ep.GID != again.GID || !e.ep.MTU.Valid() || e.ep.PSN > 0xffffff {
		t.Errorf("endpoint %+v", e.ep)
	}
	_, err := e.qp.Endpoint(1000)
	t.fails(err, verbs.ErrNotFound)
}
