// SPDX-License-Identifier: Apache-2.0

package packetdev

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/internal/testkit/memhub"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	wire "github.com/ramjet-rdma/ramjet/wire/mad"
)

// subnet is a fabric whose peers have LIDs: adapters with several ports, which a test joins, parts and
// renames as a subnet manager would.
type subnet struct {
	mu   sync.Mutex
	lids map[uint16]*subnetPort
}

// subnetLMC is how many low bits of a LID choose a path.
const subnetLMC = 2

// adapter is a Port with two ports on a subnet.
type adapter struct {
	memhub.Waiter
	net     *subnet
	ports   [2]*subnetPort
	changed func(int, ...verbs.EventType)
	arrived []subnetPacket // in.mu guards it
	packet  ib.Packet
}

// subnetPort is one port of an adapter; the subnet's lock covers it.
type subnetPort struct {
	of    *adapter
	info  softdev.PortInfo
	taken []verbs.GID // groups
}

// subnetPacket is a packet that has come.
type subnetPacket struct {
	frame  []byte
	from   ibta.Arrival
	header ib.GRH
}

// subnetHeader is the GRH of a packet.
type subnetHeader struct{ ib.GRH }

func (h *subnetHeader) AppendGRH(b []byte) []byte { return h.Append(b) }

// subnetPath is the way to a LID, with a GRH if to has a GID.
type subnetPath struct {
	to   verbs.AHAttr
	from verbs.GID
}

func (p *subnetPath) Full() bool  { return false }
func (p *subnetPath) Holds() bool { return false }

func (p *subnetPath) Key() ibta.PathKey {
	return ibta.PathKey{GID: p.to.DGID, LID: p.to.DLID, Port: uint8(p.to.Port)}
}

// newAdapter adds an adapter, whose ports get the next LIDs.
func (n *subnet) newAdapter() *adapter {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lids == nil {
		n.lids = make(map[uint16]*subnetPort)
	}
	a := &adapter{Waiter: memhub.Waiter{In: &memhub.Changes{}}, net: n}
	for i := range a.ports {
		p := &subnetPort{of: a}
		lid := uint16(len(n.lids)+1) << subnetLMC
		p.info.PortAttr = verbs.PortAttr{State: verbs.PortActive, Link: verbs.LinkInfiniBand, MaxMTU: verbs.MTU4096,
			ActiveMTU: verbs.MTU2048, LID: lid, LMC: subnetLMC, SMLID: 1}
		p.info.GIDTable = []verbs.GIDEntry{{GID: verbs.GID{0: 0xfe, 1: 0x80, 15: byte(lid)}, Type: verbs.GIDInfiniBand}}
		p.info.PKeyTable = []verbs.PKey{ib.DefaultPKey, 0x8001, 0}
		n.lids[lid] = p
		a.ports[i] = p
	}
	return a
}

// change changes the attributes of a port, and notifies its device.
func (a *adapter) change(port int, change func(*softdev.PortInfo), events ...verbs.EventType) {
	a.net.mu.Lock()
	info := &a.ports[port-1].info
	info.PKeyTable = slices.Clone(info.PKeyTable)
	info.GIDTable = slices.Clone(info.GIDTable)
	old := info.LID
	change(info)
	delete(a.net.lids, old)
	a.net.lids[info.LID] = a.ports[port-1]
	a.net.mu.Unlock()
	a.changed(port, events...)
}

func (a *adapter) Ports() int { return len(a.ports) }

func (a *adapter) Info(port int) softdev.PortInfo {
	a.net.mu.Lock()
	defer a.net.mu.Unlock()
	return a.ports[port-1].info
}

func (a *adapter) Follow(changed func(int, ...verbs.EventType)) { a.changed = changed }

func (a *adapter) Limits() ibta.Limits {
	return ibta.Limits{MaxPackets: 8, MaxBytes: 1 << 20, Window: 1 << 20, Overhead: 64}
}

func (a *adapter) Resolve(to *verbs.AHAttr) (ibta.Path, error) {
	if to.Port < 1 || to.Port > len(a.ports) || to.DLID == 0 || to.SGIDIndex != 0 || to.SrcPathBits >= 1<<subnetLMC {
		return nil, verbs.ErrInvalid
	}
	p := &subnetPath{to: *to}
	if to.Global() {
		p.from = a.Info(to.Port).GIDTable[0].GID
	}
	return p, nil
}

func (a *adapter) Connect(ibta.Path)    {}
func (a *adapter) Disconnect(ibta.Path) {}
func (a *adapter) WantHeaders()         {}

func (a *adapter) JoinGroup(port int, gid verbs.GID, _ uint16) error {
	a.net.mu.Lock()
	defer a.net.mu.Unlock()
	a.ports[port-1].taken = append(a.ports[port-1].taken, gid)
	return nil
}

func (a *adapter) LeaveGroup(port int, gid verbs.GID, _ uint16) error {
	a.net.mu.Lock()
	defer a.net.mu.Unlock()
	p := a.ports[port-1]
	p.taken = slices.DeleteFunc(p.taken, func(g verbs.GID) bool { return g == gid })
	return nil
}

var errNoLink = errors.New("the port is not active")

// Send takes a batch to the port that has its LID, or to all of a group.
func (a *adapter) Send(b *ibta.Batch) error {
	path := b.To.Path.(*subnetPath)
	n := a.net
	n.mu.Lock()
	defer n.mu.Unlock()
	from := &a.ports[path.to.Port-1].info
	if from.State != verbs.PortActive {
		return errNoLink
	}
	const multicast = 0xc000
	for _, p := range n.lids {
		mask := uint16(1<<p.info.LMC - 1)
		if path.to.DLID&^mask != p.info.LID && (path.to.DLID < multicast || !slices.Contains(p.taken, path.to.DGID)) ||
			p.info.State != verbs.PortActive {
			continue
		}
		num := slices.Index(p.of.ports[:], p) + 1
		for i := range b.Len() {
			out := b.Packet(i)
			frame := slices.Concat(out.Head, slices.Concat(out.Payload...), out.Tail)
			came := subnetPacket{frame: frame[:len(frame)-ib.ICRCLen],
				from: ibta.Arrival{SL: path.to.SL, PathBits: uint8(path.to.DLID & mask),
					From: ibta.PathKey{LID: from.LID | uint16(path.to.SrcPathBits), Port: uint8(num)}}}
			if path.to.Global() {
				came.from.Global, came.from.From.GID, came.from.To = true, path.from, path.to.DGID
				came.header = ib.GRH{IPVer: 6, TClass: path.to.TrafficClass, FlowLabel: path.to.FlowLabel,
					HopLmt: path.to.HopLimit, PayLen: uint16(len(frame)), NxtHdr: ib.GRHNextHeader, SGID: path.from,
					DGID: path.to.DGID}
			}
			p.of.In.Change(func() { p.of.arrived = append(p.of.arrived, came) })
		}
	}
	return nil
}

func (a *adapter) Receive(_ *ibta.Counters, deliver func(*ib.Packet, *ibta.Arrival)) (int, error) {
	if a.IsClosed() {
		return 0, net.ErrClosed
	}
	a.In.Mu.Lock()
	got := a.arrived
	a.arrived = nil
	a.In.Mu.Unlock()
	for i := range got {
		if err := a.packet.Decode(got[i].frame); err != nil {
			panic(err)
		}
		if got[i].from.Global {
			got[i].from.Header = &subnetHeader{got[i].header}
		}
		deliver(&a.packet, &got[i].from)
	}
	return len(got), nil
}

func (a *adapter) Wait(writable bool) error {
	return a.WaitFor(func() bool { return len(a.arrived) > 0 || writable })
}

// node is a device on a subnet.
type node struct {
	side
	port *adapter
}

func (n *subnet) newNode(t *testing.T) *node {
	t.Helper()
	s := &node{port: n.newAdapter()}
	s.open(t, s.port, 1<<16)
	return s
}

func (s *node) newQP(typ verbs.QPType) *verbs.QP {
	s.T.Helper()
	qp, err := s.PD.CreateQP(verbs.QPInit{Type: typ, SendCQ: s.CQ, RecvCQ: s.CQ})
	s.OK(err)
	return qp
}

// lid returns the LID of a port.
func (s *node) lid(port int) uint16 { return s.port.Info(port).LID }

// connect takes a queue pair to RTS. It is patient: beside other programs a peer may get no processor for seconds.
func (s *node) connect(qp, to *verbs.QP, ah verbs.AHAttr, port int, row uint16) {
	s.T.Helper()
	a := verbs.QPAttr{Port: port, PKeyIndex: row, Access: verbs.LocalWrite | verbs.RemoteWrite, AH: ah,
		PathMTU: verbs.MTU1024, DestQPN: to.Num(),
		Timeout: 20, RetryCount: 7, RNRRetry: 7, MinRNRTimer: 1, MaxRdAtomic: 1, MaxDestRdAtomic: 1,
		State: verbs.StateInit}
	s.OK(qp.Modify(a, verbs.MaskState|verbs.MaskPort|verbs.MaskPKeyIndex|verbs.MaskAccess))
	a.State = verbs.StateRTR
	s.OK(qp.Modify(a, verbs.MaskState|verbs.MaskAH|verbs.MaskPathMTU|verbs.MaskDestQPN|verbs.MaskRQPSN|
		verbs.MaskMaxDestRdAtomic|verbs.MaskMinRNRTimer))
	a.State = verbs.StateRTS
	s.OK(qp.Modify(a, verbs.MaskState|verbs.MaskTimeout|verbs.MaskRetryCount|verbs.MaskRNRRetry|verbs.MaskSQPSN|
		verbs.MaskMaxRdAtomic))
}

// hasty has a connected queue pair give up soon, as nothing that it sends will be acknowledged.
func (s *node) hasty(qp *verbs.QP) {
	s.T.Helper()
	s.OK(qp.Modify(verbs.QPAttr{State: verbs.StateSQD}, verbs.MaskState))
	s.OK(qp.Modify(verbs.QPAttr{State: verbs.StateSQD, Timeout: 10, RetryCount: 2},
		verbs.MaskState|verbs.MaskTimeout|verbs.MaskRetryCount))
	s.OK(qp.Modify(verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskState))
}

// datagrams takes a UD queue pair to RTS.
func (s *node) datagrams(qp *verbs.QP, port int) {
	s.T.Helper()
	s.OK(qp.Modify(verbs.QPAttr{State: verbs.StateInit, Port: port, QKey: subnetQKey},
		verbs.MaskState|verbs.MaskPort|verbs.MaskPKeyIndex|verbs.MaskQKey))
	s.OK(qp.Modify(verbs.QPAttr{State: verbs.StateRTR}, verbs.MaskState))
	s.OK(qp.Modify(verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskState|verbs.MaskSQPSN))
}

const subnetQKey = 0x11111111

// writes posts a WRITE of 3000 bytes and returns how it ends.
func (s *node) writes(qp *verbs.QP, to *node) verbs.Status {
	s.T.Helper()
	s.OK(qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{s.MR.SGE(0, 3000)},
		Remote: to.MR.Remote()}))
	return s.completion().Status
}

// completion waits for one.
func (s *node) completion() (wc verbs.WC) {
	s.T.Helper()
	s.Eventually(func() bool {
		var wcs [1]verbs.WC
		n := s.CQ.Poll(wcs[:])
		wc = wcs[0]
		return n == 1
	}, "a completion")
	return wc
}

func (s *node) counter(name string) uint64 {
	s.T.Helper()
	metrics, err := s.Dev.Metrics()
	s.OK(err)
	for i := range metrics {
		if metrics[i].FlatName() == name {
			return metrics[i].Value
		}
	}
	panic("no counter " + name)
}

// A peer that has a LID is reached by it, and no other path to the queue pair is the one that it is
// connected by: another LID of the same port, or the same LID with a GRH.
func TestLIDs(t *testing.T) {
	var n subnet
	a, b := n.newNode(t), n.newNode(t)
	qa, qb := a.newQP(verbs.RC), b.newQP(verbs.RC)
	ea, err := qa.Endpoint(0)
	a.OK(err)
	eb, err := qb.Endpoint(0)
	b.OK(err)
	if ea.LID != a.lid(1) || eb.LID != b.lid(1) {
		t.Fatalf("LIDs %d and %d", ea.LID, eb.LID)
	}
	a.OK(qa.Connect(ea, eb, &pair.Patient))
	b.OK(qb.Connect(eb, ea, &pair.Patient))
	if s := a.writes(qa, b); s != verbs.StatusSuccess {
		t.Fatal(s)
	}
	if got := qa.Query(); got.AH.Global() || got.AH.DLID != b.lid(1) {
		t.Errorf("connected by %+v", got.AH)
	}
	for _, ah := range []verbs.AHAttr{{DLID: b.lid(1), SrcPathBits: 1},
		{DLID: b.lid(1), DGID: b.port.Info(1).GIDTable[0].GID}} {
		qa, qb := a.newQP(verbs.RC), b.newQP(verbs.RC)
		a.connect(qa, qb, ah, 1, 0)
		b.connect(qb, qa, verbs.AHAttr{DLID: a.lid(1)}, 1, 0)
		a.hasty(qa)
		before := b.counter("dropped_wrong_source_address")
		if s := a.writes(qa, b); s != verbs.StatusRetryExceeded {
			t.Errorf("by %+v: %v", ah, s)
		}
		b.Eventually(func() bool { return b.counter("dropped_wrong_source_address") > before }, "it is counted")
		back := verbs.AHAttr{DLID: a.lid(1) | uint16(ah.SrcPathBits)}
		if ah.Global() {
			back.DGID = a.port.Info(1).GIDTable[0].GID
		}
		qa, qb = a.newQP(verbs.RC), b.newQP(verbs.RC)
		a.connect(qa, qb, ah, 1, 0)
		b.connect(qb, qa, back, 1, 0)
		if s := a.writes(qa, b); s != verbs.StatusSuccess {
			t.Errorf("by %+v and back by %+v: %v", ah, back, s)
		}
	}
}

// A datagram says by which path it came: LID, path bits and service level, and a GRH only if it had one. The path that
// it names leads back.
func TestLIDDatagrams(t *testing.T) {
	var n subnet
	a, b := n.newNode(t), n.newNode(t)
	qa, qb := a.newQP(verbs.UD), b.newQP(verbs.UD)
	a.datagrams(qa, 2)
	b.datagrams(qb, 2)
	for _, to := range []verbs.AHAttr{
		{DLID: b.lid(2) | 3, SL: 5, SrcPathBits: 2, Port: 2},
		{DLID: b.lid(2), SL: 1, Port: 2, DGID: b.port.Info(2).GIDTable[0].GID, HopLimit: 3, TrafficClass: 9,
			FlowLabel: 77},
	} {
		ah, err := a.PD.CreateAH(to)
		a.OK(err)
		const junk = 0xee
		b.MR.Do(func(p []byte) {
			for i := range 60 {
				p[i] = junk
			}
		})
		b.OK(qb.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{b.MR.SGE(0, 100)}}))
		a.OK(qa.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{a.MR.SGE(0, 8)}, AH: ah, RemoteQPN: qb.Num(),
			RemoteQKey: subnetQKey}))
		wc := b.completion()
		if wc.Status != verbs.StatusSuccess || wc.ByteLen != 48 || wc.SLID != a.lid(2)|uint16(to.SrcPathBits) ||
			wc.SL != to.SL ||
			wc.DLIDPathBits != uint8(to.DLID&3) || (wc.Flags&verbs.WithGRH != 0) != to.Global() {
			t.Errorf("by %+v: %+v", to, wc)
		}
		grh := make([]byte, 40)
		b.MR.Do(func(p []byte) { copy(grh, p) })
		var h ib.GRH
		if h.Decode(grh); to.Global() && (h.SGID != a.port.Info(2).GIDTable[0].GID || h.DGID != to.DGID ||
			h.HopLmt != 3 || h.TClass != 9 || h.FlowLabel != 77) {
			t.Errorf("the GRH is %+v", h)
		}
		if !to.Global() && (grh[0] != junk || grh[39] != junk) {
			t.Errorf("without a GRH its place has % x", grh)
		}
		back, err := b.PD.AHFromWC(2, &wc, grh)
		b.OK(err)
		a.OK(qa.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{a.MR.SGE(0, 100)}}))
		b.OK(qb.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{b.MR.SGE(0, 8)}, AH: back,
			RemoteQPN: wc.SrcQPN, RemoteQKey: subnetQKey}))
		if wc := a.completion(); wc.SLID != to.DLID || wc.SL != to.SL || wc.DLIDPathBits != to.SrcPathBits {
			t.Errorf("back by %+v: %+v", to, wc)
		}
	}
}

// Each port has tables and peers of its own, and a queue pair is at one of them.
func TestTwoPorts(t *testing.T) {
	var n subnet
	a, b := n.newNode(t), n.newNode(t)
	if q := a.Dev.Query(); q.Ports != 2 || q.MaxPKeys != 3 {
		t.Errorf("%d ports, %d P_Keys", q.Ports, q.MaxPKeys)
	}
	for port := 1; port <= 2; port++ {
		p, err := a.Dev.Port(port)
		a.OK(err)
		g, err := a.Dev.GIDs(port)
		a.OK(err)
		if p.LID != a.lid(port) || p.LMC != subnetLMC || p.GIDs != 1 || p.PKeys != 3 ||
			g[0].GID != a.port.Info(port).GIDTable[0].GID {
			t.Errorf("port %d: %+v, %v", port, p, g)
		}
	}
	ah := func(to *node, port int) verbs.AHAttr { return verbs.AHAttr{DLID: to.lid(port)} }
	for port := 1; port <= 2; port++ { // to both ports of the peer at once
		qa, qb := a.newQP(verbs.RC), b.newQP(verbs.RC)
		a.connect(qa, qb, ah(b, port), 2, 0)
		b.connect(qb, qa, ah(a, 2), port, 0)
		if s := a.writes(qa, b); s != verbs.StatusSuccess {
			t.Errorf("from port 2 to port %d: %v", port, s)
		}
	}
	qa, qb := a.newQP(verbs.RC), b.newQP(verbs.RC)
	a.connect(qa, qb, ah(b, 1), 1, 0)
	b.connect(qb, qa, ah(a, 1), 2, 0)
	a.hasty(qa)
	if s := a.writes(qa, b); s != verbs.StatusRetryExceeded {
		t.Errorf("to a queue pair of the other port: %v", s)
	}

	qa, qb = a.newQP(verbs.UD), b.newQP(verbs.UD)
	a.datagrams(qa, 1)
	b.datagrams(qb, 2)
	b.OK(qb.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{b.MR.SGE(0, 100)}}))
	send := func(to verbs.AHAttr) verbs.Status {
		t.Helper()
		h, err := a.PD.CreateAH(to)
		a.OK(err)
		a.OK(qa.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, AH: h, RemoteQPN: qb.Num(),
			RemoteQKey: subnetQKey}))
		return a.completion().Status
	}
	before := b.counter("dropped_wrong_source_address")
	if s := send(ah(b, 1)); s != verbs.StatusSuccess {
		t.Error(s)
	}
	b.Eventually(func() bool { return b.counter("dropped_wrong_source_address") > before },
		"a datagram for another port's queue pair is dropped")
	if s := send(verbs.AHAttr{DLID: b.lid(2), Port: 2}); s != verbs.StatusLocalQPOperationError {
		t.Errorf("an address handle of another port: %v", s)
	}
}

// Management agents are at one port, and hear by which path a datagram came.
func TestAgentsOfPorts(t *testing.T) {
	var n subnet
	a, b := n.newNode(t), n.newNode(t)
	spec := umad.Spec{Class: 0x30, Version: 1, Methods: []wire.Method{wire.MethodGet}}
	var agents [3]*umad.Agent
	for port := 1; port <= 2; port++ {
		g, err := umad.Open(b.Dev, port, ib.QP1, spec)
		b.OK(err)
		agents[port] = g
	}
	asker, err := umad.Open(a.Dev, 2, ib.QP1, umad.Spec{Class: 0x30, Version: 1})
	a.OK(err)
	request := make([]byte, umad.Len)
	request[0], request[1], request[2], request[3] = 1, 0x30, 1, 1
	for port := 1; port <= 2; port++ {
		a.OK(asker.Send(umad.Path{AH: verbs.AHAttr{DLID: b.lid(port) | 1, SL: 4, SrcPathBits: 3}, PKey: 0x8001},
			request))
		got := make([]byte, umad.Len)
		_, from, err := agents[port].Recv(t.Context(), got)
		b.OK(err)
		want := verbs.AHAttr{DLID: a.lid(2) | 3, SL: 4, SrcPathBits: 1, Port: port}
		if from.AH != want || from.PKey != 0x8001 {
			t.Errorf("port %d: from %+v, want %+v", port, from, want)
		}
		got[3] |= 0x80
		b.OK(agents[port].Send(from, got))
		_, from, err = asker.Recv(t.Context(), got)
		a.OK(err)
		if from.AH != (verbs.AHAttr{DLID: b.lid(port) | 1, SL: 4, SrcPathBits: 3, Port: 2}) {
			t.Errorf("the answer is from %+v", from)
		}
	}
	for _, to := range []umad.Path{{AH: verbs.AHAttr{DLID: b.lid(1), Port: 1}},
		{AH: verbs.AHAttr{DLID: b.lid(1)}, PKey: 0x8002}} {
		if err := asker.Send(to, request); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%+v: %v", to, err)
		}
	}
	a.port.change(2, func(p *softdev.PortInfo) { p.PKeyTable[2] = 0x8002 }, verbs.EventPKeyChange)
	before := b.counter("dropped_pkey_mismatch")
	a.OK(asker.Send(umad.Path{AH: verbs.AHAttr{DLID: b.lid(1)}, PKey: 0x8002}, request))
	b.Eventually(func() bool { return b.counter("dropped_pkey_mismatch") > before },
		"a datagram of another partition is dropped")
}

// A queue pair is in the partition that stands in its row of the port's table, whatever stood there when it
// was connected (IBTA 10.9.2).
func TestPartitionsChange(t *testing.T) {
	var n subnet
	a, b := n.newNode(t), n.newNode(t)
	const row = 2
	join := func(s *node, key verbs.PKey) {
		s.port.change(1, func(p *softdev.PortInfo) { p.PKeyTable[row] = key }, verbs.EventPKeyChange)
	}
	connect := func() (qa, qb *verbs.QP) {
		qa, qb = a.newQP(verbs.RC), b.newQP(verbs.RC)
		a.connect(qa, qb, verbs.AHAttr{DLID: b.lid(1)}, 1, row)
		b.connect(qb, qa, verbs.AHAttr{DLID: a.lid(1)}, 1, row)
		return qa, qb
	}
	fails := func(what string) {
		t.Helper()
		before := b.counter("dropped_pkey_mismatch")
		qa, _ := connect()
		a.hasty(qa)
		if s := a.writes(qa, b); s != verbs.StatusRetryExceeded {
			t.Errorf("%s: %v", what, s)
		}
		b.Eventually(func() bool { return b.counter("dropped_pkey_mismatch") > before }, what+" is counted")
	}
	fails("an empty row")
	join(a, 0x8005)
	fails("a partition of one side")
	qa, _ := connect()
	join(b, 0x0005) // a limited member, beside a full one
	if s := a.writes(qa, b); s != verbs.StatusSuccess {
		t.Errorf("both are in the partition: %v", s)
	}
	if keys, err := b.Dev.PKeys(1); err != nil || keys[row] != 0x0005 {
		t.Errorf("%04x, %v", keys, err)
	}
	join(a, 0x8006)
	join(b, 0x8006)
	if s := a.writes(qa, b); s != verbs.StatusSuccess {
		t.Errorf("both have gone to another partition: %v", s)
	}
	join(b, 0)
	a.hasty(qa)
	if s := a.writes(qa, b); s != verbs.StatusRetryExceeded {
		t.Errorf("the peer is in no partition any more: %v", s)
	}
	if keys, err := b.Dev.PKeys(2); err != nil || keys[row] != 0 {
		t.Errorf("port 2 has %04x, %v", keys, err)
	}
}

// Each event of a port reaches the program with the number of the port, after the change that it reports.
func TestPortEvents(t *testing.T) {
	var n subnet
	a := n.newNode(t)
	for _, c := range []struct {
		event  verbs.EventType
		change func(*softdev.PortInfo)
		seen   func(p verbs.PortAttr) string
		want   string
	}{
		{verbs.EventPortError, func(p *softdev.PortInfo) { p.State = verbs.PortDown },
			func(p verbs.PortAttr) string { return p.State.String() }, "PORT_DOWN"},
		{verbs.EventPortActive, func(p *softdev.PortInfo) { p.State = verbs.PortActive },
			func(p verbs.PortAttr) string { return p.State.String() }, "PORT_ACTIVE"},
		{verbs.EventLIDChange, func(p *softdev.PortInfo) { p.LID = 0x40 },
			func(p verbs.PortAttr) string { return fmt.Sprint(p.LID) }, "64"},
		{verbs.EventSMChange, func(p *softdev.PortInfo) { p.SMLID = 7 },
			func(p verbs.PortAttr) string { return fmt.Sprint(p.SMLID) }, "7"},
		{verbs.EventClientReregister, func(*softdev.PortInfo) {}, func(verbs.PortAttr) string { return "" }, ""},
		{verbs.EventPKeyChange, func(p *softdev.PortInfo) { p.PKeyTable[1] = 0x8123 }, func(verbs.PortAttr) string {
			k, _ := a.Dev.PKeys(2)
			return fmt.Sprintf("%04x", k[1])
		}, "8123"},
		{verbs.EventGIDChange, func(p *softdev.PortInfo) { p.GIDTable[0].GID = verbs.GID{15: 9} },
			func(verbs.PortAttr) string {
				g, _ := a.Dev.GIDs(2)
				return g[0].GID.String()
			}, verbs.GID{15: 9}.String()},
	} {
		a.port.change(2, c.change, c.event)
		e, err := a.Dev.Event(t.Context())
		a.OK(err)
		if e.Type != c.event || e.Port != 2 {
			t.Errorf("%v of port %d, want %v", e.Type, e.Port, c.event)
		}
		p, err := a.Dev.Port(2)
		a.OK(err)
		if got := c.seen(p); got != c.want {
			t.Errorf("after %v: %s, want %s", c.event, got, c.want)
		}
	}
	// A smaller path MTU has no event, and bounds the path MTU of queue pairs that are connected from now on.
	a.port.change(1, func(p *softdev.PortInfo) { p.ActiveMTU = verbs.MTU512 })
	qp := a.newQP(verbs.RC)
	a.OK(qp.Modify(verbs.QPAttr{State: verbs.StateInit, Port: 1},
		verbs.MaskState|verbs.MaskPort|verbs.MaskPKeyIndex|verbs.MaskAccess))
	err := qp.Modify(verbs.QPAttr{State: verbs.StateRTR, PathMTU: verbs.MTU1024, AH: verbs.AHAttr{DLID: 9}},
		verbs.MaskState|verbs.MaskAH|verbs.MaskPathMTU|verbs.MaskDestQPN|verbs.MaskRQPSN|verbs.MaskMaxDestRdAtomic|
			verbs.MaskMinRNRTimer)
	if !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a path MTU beyond the port's: %v", err)
	}
}

// A port that goes down is an event of the device, not of its queue pairs (IBTA 11.6.3.3): requests that wait for an
// acknowledgement are retransmitted until their retries run out, or the port is back, and other packets are lost and
// counted. Queue pairs of the other port go on.
func TestPortDown(t *testing.T) {
	var n subnet
	a, b := n.newNode(t), n.newNode(t)
	var qa, qb [3]*verbs.QP
	for i := range qa {
		port := min(i+1, 2) // the last two are at port 2
		qa[i], qb[i] = a.newQP(verbs.RC), b.newQP(verbs.RC)
		a.connect(qa[i], qb[i], verbs.AHAttr{DLID: b.lid(port)}, port, 0)
		b.connect(qb[i], qa[i], verbs.AHAttr{DLID: a.lid(port)}, port, 0)
	}
	down := func(p *softdev.PortInfo) { p.State = verbs.PortDown }
	up := func(p *softdev.PortInfo) { p.State = verbs.PortActive }
	a.hasty(qa[0])
	a.port.change(1, down, verbs.EventPortError)
	for i := range 2 {
		a.OK(qa[0].PostSend(&verbs.SendWR{ID: uint64(i), Op: verbs.OpWrite, Flags: verbs.Signaled,
			SGL: []verbs.SGE{a.MR.SGE(0, 3000)}, Remote: b.MR.Remote()}))
	}
	for i, want := range []verbs.Status{verbs.StatusRetryExceeded, verbs.StatusWRFlushError} {
		if wc := a.completion(); wc.Status != want || wc.ID != uint64(i) {
			t.Errorf("completion %d: %v of %d, want %v", i, wc.Status, wc.ID, want)
		}
	}
	if got := qa[0].Query(); got.State != verbs.StateError {
		t.Errorf("the queue pair is in %v", got.State)
	}
	// devices publish their counters later
	a.Eventually(func() bool { return a.counter("send_err") > 0 }, "what was lost is counted")
	if s := a.writes(qa[1], b); s != verbs.StatusSuccess {
		t.Errorf("by the other port: %v", s)
	}

	lost := a.counter("send_err")
	ud := a.newQP(verbs.UD)
	a.datagrams(ud, 1)
	ah, err := a.PD.CreateAH(verbs.AHAttr{DLID: b.lid(1)})
	a.OK(err)
	a.OK(ud.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, AH: ah, RemoteQPN: 5}))
	// a datagram ends when it has left the queue pair (IBTA 9.8.3)
	if wc := a.completion(); wc.Status != verbs.StatusSuccess {
		t.Errorf("a datagram: %v", wc.Status)
	}
	a.Eventually(func() bool { return a.counter("send_err") > lost }, "a datagram that was lost is counted")

	// One that never gives up: it goes on when the port is back.
	attr := qa[2].Query()
	a.port.change(2, down, verbs.EventPortError)
	a.OK(qa[2].Modify(verbs.QPAttr{State: verbs.StateSQD}, verbs.MaskState))
	attr.State, attr.Timeout, attr.RetryCount = verbs.StateSQD, 21, 7
	a.OK(qa[2].Modify(attr, verbs.MaskState|verbs.MaskTimeout|verbs.MaskRetryCount))
	a.OK(qa[2].Modify(verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskState))
	a.OK(qa[2].PostSend(&verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.MR.SGE(0, 3000)},
		Remote: b.MR.Remote()}))
	lost = a.counter("send_err")
	a.Eventually(func() bool { return a.counter("send_err") > lost }, "the WRITE is sent again")
	a.port.change(2, up, verbs.EventPortActive)
	if wc := a.completion(); wc.Status != verbs.StatusSuccess {
		t.Errorf("when the port is back: %v", wc.Status)
	}
	for _, want := range []struct {
		typ  verbs.EventType
		port int
	}{{verbs.EventPortError, 1}, {verbs.EventPortError, 2}, {verbs.EventPortActive, 2}} {
		e, err := a.Dev.Event(t.Context())
		a.OK(err)
		for e.Type == verbs.EventSQDrained {
			e, err = a.Dev.Event(t.Context())
			a.OK(err)
		}
		if e.Type != want.typ || e.Port != want.port {
			t.Errorf("%v of port %d, want %v of port %d", e.Type, e.Port, want.typ, want.port)
		}
	}
}

// A multicast group is joined port by port.
func TestGroupsOfPorts(t *testing.T) {
	var n subnet
	a, b := n.newNode(t), n.newNode(t)
	group := verbs.GID{0: 0xff, 1: 0x12, 15: 1}
	const mlid = 0xc001
	var qps [2]*verbs.QP
	for i := range qps {
		qps[i] = b.newQP(verbs.UD)
		b.datagrams(qps[i], i+1)
		b.OK(qps[i].PostRecv(&verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{b.MR.SGE(0, 100)}}))
	}
	b.OK(qps[1].AttachMulticast(group, mlid))
	if len(b.port.ports[0].taken) != 0 || len(b.port.ports[1].taken) != 1 {
		t.Error("it joined by the wrong port")
	}
	q := a.newQP(verbs.UD)
	a.datagrams(q, 1)
	ah, err := a.PD.CreateAH(verbs.AHAttr{DLID: mlid, DGID: group})
	a.OK(err)
	a.OK(q.PostSend(&verbs.SendWR{Op: verbs.OpSend, AH: ah, RemoteQPN: ib.QPNMulticast, RemoteQKey: subnetQKey}))
	if wc := b.completion(); wc.ID != 1 || wc.Flags&verbs.WithGRH == 0 {
		t.Errorf("%+v", wc)
	}
	b.OK(qps[1].DetachMulticast(group, mlid))
	if len(b.port.ports[1].taken) != 0 {
		t.Error("the port is still in the group")
	}
}

// A queue pair of a closed device leaves no groups: the port is closed too.
func TestDetachAfterClose(t *testing.T) {
	var n subnet
	s := n.newNode(t)
	q := s.newQP(verbs.UD)
	s.datagrams(q, 1)
	group := verbs.GID{0: 0xff, 1: 0x12, 15: 1}
	s.OK(q.AttachMulticast(group, 0xc001))
	s.OK(s.soft.Close())
	if err := q.DetachMulticast(group, 0xc001); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
	if len(s.port.ports[0].taken) != 1 {
		t.Error("the closed port was asked to leave")
	}
}
