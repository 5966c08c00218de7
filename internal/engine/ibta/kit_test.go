// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/memory"
	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// host is an engine's device with the objects that regions, windows, address handles and queue pairs
// need. Tests carry its packets and call its timers.
type host struct {
	*ibta.Device
	lane   ibta.Lane
	pd     *verbs.PD
	full   func() bool // whether its peers' buffers are full; nil: not known
	holds  bool        // sent packets are still on this host
	addr   netip.Addr
	window int // of its flows
	rand   *rand.Rand
	// control makes the congestion control of the flow to a peer; nil: congestion.Window.
	control func() congestion.Controller

	flows map[verbs.GID]*ibta.Flow
	qps   map[verbs.QPN]*qp
}

// qp is a queue pair of a host.
type qp struct {
	*ibta.QP
	host *host
}

// pdNum is the protection domain that all objects of a host are in.
const pdNum memory.PD = 1

// steeringBits of a queue pair's number say which process of a host it belongs to.
const steeringBits = 4

// limits are the limits of a host whose flows have a window of so many bytes.
func limits(window int) ibta.Limits {
	return ibta.Limits{MaxPackets: 64, MaxBytes: 65507, Window: window, Overhead: 192, SteeringBits: steeringBits}
}

// newHosts makes two hosts; window is the size that their flows assume for peers' socket buffers.
func newHosts(t testing.TB, window int) (a, b *host) {
	t.Helper()
	return newHost(t, 1, window), newHost(t, 2, window)
}

func newHost(t testing.TB, num byte, window int) *host {
	t.Helper()
	h := &host{addr: netip.AddrFrom4([4]byte{192, 0, 2, num}), window: window,
		rand:  rand.New(rand.NewPCG(1, uint64(num))),
		flows: make(map[verbs.GID]*ibta.Flow), qps: make(map[verbs.QPN]*qp)}
	h.Device = &ibta.Device{Limits: limits(window), Device: queue.Device{
		Memory: memory.NewTable(h.rand.Uint32),
		Ports:  []queue.Port{{Num: 1, MTU: 4096, PKeys: []verbs.PKey{ib.DefaultPKey}}}, MaxMsgSize: memory.MaxMessage}}
	h.lane.Resolve = h.resolve
	pd, err := driver.NewDevice(&fakeDriver{host: h}).AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	h.pd = pd
	return h
}

func (h *host) gid() verbs.GID { return ib.GIDFromAddr(h.addr) }

// flow returns the flow to a host.
func (h *host) flow(to verbs.GID) *ibta.Flow {
	f := h.flows[to]
	if f == nil {
		control := congestion.Controller(congestion.NewOpenWindow(h.window))
		if h.control != nil {
			control = h.control()
		}
		f = ibta.NewFlow(h.window, control)
		h.flows[to] = f
	}
	return f
}

func (h *host) resolve(attr verbs.AHAttr) (*ibta.Vector, error) {
	p := path{h, ibta.PathKey{GID: attr.DGID, Port: 1}}
	return &ibta.Vector{Attr: attr, Flow: h.flow(attr.DGID), Path: p, Key: p.key}, nil
}

// path is the way from one host to another.
type path struct {
	from *host
	key  ibta.PathKey
}

func (p path) Key() ibta.PathKey { return p.key }
func (p path) Full() bool        { return p.from.full != nil && p.from.full() }
func (p path) Holds() bool       { return p.from.holds }

// newQP makes a queue pair; its device, domain, number and owner are filled in.
func (h *host) newQP(c queue.Config) *qp {
	q := &qp{host: h}
	c.PD, c.Owner = pdNum, q
	for c.Num <= 1 || h.qps[c.Num] != nil {
		c.Num = verbs.QPN(h.rand.Uint32N(1 << (24 - steeringBits))) // of one process
	}
	if c.Recv == nil && c.Type <= verbs.UD {
		c.Recv = &queue.RecvQueue{PD: pdNum, MaxWR: c.Caps.MaxRecvWR, MaxSGE: c.Caps.MaxRecvSGE}
	}
	q.QP = ibta.New(h.Device, &h.lane, c)
	h.qps[c.Num] = q
	return q
}

// newRC makes an RC queue pair with a send queue of some depth, whose completions no test polls.
func (h *host) newRC(depth int) *qp {
	cq := queue.NewCQ(1, false, driver.CQEvents{})
	return h.newQP(queue.Config{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
		Caps: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 1, MaxRecvSGE: 1}})
}

// join takes two RC queue pairs from RESET to RTS, connected to each other.
func join(t testing.TB, a, b *qp, mtu verbs.MTU) {
	t.Helper()
	psns := [2]verbs.PSN{1<<24 - 5, verbs.PSN(a.host.rand.Uint32N(1 << 24))} // the first one wraps around soon
	for i, q := range [2]*qp{a, b} {
		peer := [2]*qp{b, a}[i]
		attr := verbs.QPAttr{Port: 1, Access: everything, PathMTU: mtu, DestQPN: peer.Num, RQPSN: psns[1-i],
			SQPSN: psns[i], AH: verbs.AHAttr{DGID: peer.host.gid()}, MaxDestRdAtomic: 16, MaxRdAtomic: 16,
			MinRNRTimer: 5,
			Timeout:     14, RetryCount: 7, RNRRetry: 7}
		for k, mask := range masksUp(verbs.RC) {
			attr.State = verbs.StateInit + verbs.QPState(k)
			if err := q.Modify(&attr, mask|verbs.MaskState); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// masksUp returns the attributes by which queue pairs of type typ are taken to INIT, RTR and RTS.
func masksUp(typ verbs.QPType) [3]verbs.QPMask {
	path := verbs.MaskAH | verbs.MaskPathMTU | verbs.MaskDestQPN | verbs.MaskRQPSN
	resp := verbs.MaskMaxDestRdAtomic | verbs.MaskMinRNRTimer
	retry := verbs.MaskTimeout | verbs.MaskRetryCount | verbs.MaskRNRRetry | verbs.MaskMaxRdAtomic
	return map[verbs.QPType][3]verbs.QPMask{
		verbs.RC:     {verbs.MaskPKeyIndex | verbs.MaskPort | verbs.MaskAccess, path | resp, verbs.MaskSQPSN | retry},
		verbs.UC:     {verbs.MaskPKeyIndex | verbs.MaskPort | verbs.MaskAccess, path, verbs.MaskSQPSN},
		verbs.UD:     {verbs.MaskPKeyIndex | verbs.MaskPort | verbs.MaskQKey, 0, verbs.MaskSQPSN},
		verbs.XRCIni: {verbs.MaskPKeyIndex | verbs.MaskPort | verbs.MaskAccess, path, verbs.MaskSQPSN | retry},
		verbs.XRCTgt: {verbs.MaskPKeyIndex | verbs.MaskPort | verbs.MaskAccess, path | resp,
			verbs.MaskSQPSN | verbs.MaskTimeout},
	}[typ]
}

// fakeDriver is as much of a driver as makes regions, windows and address handles; its embedded interface is
// nil.
type fakeDriver struct {
	driver.Device
	host *host
}

func (d *fakeDriver) SetEventSink(func(verbs.EventType, int)) {}
func (d *fakeDriver) Close() error                            { return nil }
func (d *fakeDriver) AllocPD() (driver.PD, error)             { return &pdDriver{host: d.host}, nil }

type pdDriver struct {
	driver.PD
	host *host
}

func (p *pdDriver) RegMR(buf []byte, access verbs.Access) (driver.MR, error) {
	t := p.host.Device.Memory
	r, err := t.Register(pdNum, buf, access)
	return &mrDriver{table: t, region: r}, err
}

func (p *pdDriver) AllocMW(t verbs.MWType) (driver.MW, error) {
	table := p.host.Device.Memory
	return &mwDriver{table: table, window: table.AllocWindow(pdNum, t)}, nil
}

func (p *pdDriver) CreateAH(attr verbs.AHAttr) (driver.AH, error) {
	v, err := p.host.resolve(attr)
	return ahDriver{v}, err
}

type mrDriver struct {
	driver.MR
	table  *memory.Table
	region *memory.Region
}

func (m *mrDriver) Region() *memory.Region { return m.region }
func (m *mrDriver) Addr() uint64           { return m.region.Addr() }
func (m *mrDriver) LKey() verbs.Key        { return m.region.Key() }
func (m *mrDriver) RKey() verbs.Key        { return m.region.Key() }
func (m *mrDriver) Bytes() []byte          { return m.region.Bytes() }
func (m *mrDriver) Dereg() error           { return m.table.Deregister(m.region) }

type mwDriver struct {
	table  *memory.Table
	window *memory.Window
}

func (m *mwDriver) Window() *memory.Window { return m.window }
func (m *mwDriver) RKey() verbs.Key        { return m.window.Key() }
func (m *mwDriver) Dealloc() error         { m.table.FreeWindow(m.window); return nil }

type ahDriver struct{ vector *ibta.Vector }

func (a ahDriver) Vector() *ibta.Vector { return a.vector }
func (a ahDriver) Destroy() error       { return nil }
