// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var datagramTests = []test{
	{name: "UD/Send", run: testDatagram, needs: []Ability{Datagrams}},
	{name: "UD/GRH", run: testGRH, needs: []Ability{Datagrams, IPHeaders}},
	{name: "UD/HopLimit", run: testHopLimit, needs: []Ability{Datagrams, IPHeaders, MarkedSends}},
	{name: "UD/Reply", run: testReply, needs: []Ability{Datagrams}},
	{name: "UD/QKey", run: testQKey, needs: []Ability{Datagrams}},
	{name: "UD/TooLong", run: testDatagramTooLong, needs: []Ability{Datagrams}},
	{name: "UD/ReceiveTooSmall", run: testDatagramRecvSmall, needs: []Ability{Datagrams}},
	{name: "UD/ReceiveTooSmall/SRQ", run: testDatagramRecvSmallSRQ, needs: []Ability{Datagrams, SharedRecvs}},
	{name: "UD/Dropped", run: testDatagramDropped, needs: []Ability{Datagrams}},
	{name: "UD/AH", run: testAH, needs: []Ability{Datagrams}},
	{name: "UD/Multicast", run: testMulticast, needs: []Ability{Datagrams, Multicast}},
	{name: "UD/MulticastToSelf", run: testMulticastToSelf, needs: []Ability{Datagrams, Multicast}},
	{name: "UD/MulticastRefused", run: testMulticastRefused, needs: []Ability{Datagrams}},
}

const (
	grhLen = 40
	qkey   = verbs.QKey(0x11111111)
)

// datagramPair makes two ends with UD queue pairs, and an address handle to the second.
func datagramPair(t *T) (a, b *end, ah *verbs.AH) {
	t.Helper()
	da, db := t.devices()
	a, b = t.newEnd(da, setup{}), t.newEnd(db, setup{})
	for _, e := range []*end{a, b} {
		e.addQP(verbs.QPInit{Type: verbs.UD})
		t.ok(e.qp.StartUD(qkey))
	}
	return a, b, value(a.pd.CreateAH(way(b.ep)))(t)
}

// datagram is a SEND of n bytes to a queue pair.
func (e *end) datagram(ah *verbs.AH, to *end, n int) verbs.SendWR {
	return verbs.SendWR{Op: verbs.OpSend, SGL: e.sgl(0, n), AH: ah, RemoteQPN: to.qp.Num(), RemoteQKey: qkey}
}

func testDatagram(t *T) {
	a, b, ah := datagramPair(t)
	mtu := value(a.dev.Port(1))(t).ActiveMTU.Bytes()
	for i, n := range []int{0, 1, 2, 3, 4, 255, 1024, mtu - 1, mtu} {
		for _, op := range []verbs.SendOp{verbs.OpSend, verbs.OpSendImm} {
			a.fill(0, n, i)
			b.recv(uint64(i), 0, grhLen+n)
			wr := a.datagram(ah, b, n)
			wr.Op, wr.Imm = op, 0x0a0b0c0d
			a.do(wr)
			wc := b.received(verbs.StatusSuccess)
			if wc.ID != uint64(i) || wc.ByteLen != uint32(grhLen+n) || wc.SrcQPN != a.qp.Num() ||
				wc.QPN != b.qp.Num() ||
				wc.Flags&verbs.WithGRH == 0 || wc.Op != verbs.WCRecv {
				t.Fatalf("receive completion %+v, want %d bytes of QP %#x", wc, grhLen+n, a.qp.Num())
			}
			if imm := op == verbs.OpSendImm; (wc.Flags&verbs.WithImm != 0) != imm || imm && wc.Imm != 0x0a0b0c0d {
				t.Errorf("%v: flags %v and immediate %#x", op, wc.Flags, wc.Imm)
			}
			b.holds(grhLen, n, i)
		}
	}
}

func testGRH(t *T) {
	a, b, ah := datagramPair(t)
	b.mr.Do(func(p []byte) { pattern(p, 9) }) // nothing of it may be left
	b.recv(1, 0, 1000)
	a.do(a.datagram(ah, b, 101))
	b.received(verbs.StatusSuccess)
	grh := make([]byte, grhLen)
	b.mr.Do(func(p []byte) { copy(grh, p) })
	src, dst := a.ep.GID, b.ep.GID
	const transport = 12 + 8 + 101 + 3 + 4 // BTH, DETH, payload, pad, ICRC
	if !src.Addr().Is4() || !a.ipHeaders() {
		if grh[0]>>4 != 6 || !bytes.Equal(grh[8:24], src[:]) || !bytes.Equal(grh[24:40], dst[:]) {
			t.Errorf("GRH % x, want IPv6 from %v to %v", grh, src, dst)
		}
		return
	}
	ip := grh[20:]
	if !bytes.Equal(ip[12:16], src[12:]) || !bytes.Equal(ip[16:20], dst[12:]) || ip[0] != 0x45 || ip[9] != 17 ||
		ip[8] == 0 {
		t.Errorf("IPv4 header % x, want UDP from %v to %v", ip, src, dst)
	}
	if n := binary.BigEndian.Uint16(ip[2:]); n != 20+8+transport {
		t.Errorf("total length %d, want %d", n, 20+8+transport)
	}
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	if sum = sum>>16 + sum&0xffff; sum>>16+sum&0xffff != 0xffff {
		t.Errorf("the header's checksum is wrong: % x", ip)
	}
}

// ipHeaders reports whether an IP header takes the place of a GRH.
func (e *end) ipHeaders() bool {
	return value(e.dev.GIDs(1))(e.t)[0].Type == verbs.GIDRoCEv2
}

// testHopLimit sends with the hop limit and the traffic class of an address vector.
func testHopLimit(t *T) {
	a, b, _ := datagramPair(t)
	for _, want := range []verbs.AHAttr{{HopLimit: 7, TrafficClass: 0x28}, {HopLimit: 255}, {TrafficClass: 0xb8}, {}} {
		want.DGID, want.DLID = b.ep.GID, b.ep.LID
		ah := value(a.pd.CreateAH(want))(t)
		b.recv(1, 0, 1000)
		a.do(a.datagram(ah, b, 10))
		b.received(verbs.StatusSuccess)
		grh := make([]byte, grhLen)
		b.mr.Do(func(p []byte) { copy(grh, p) })
		hops, class := grh[20+8], grh[20+1]
		if !want.DGID.Addr().Is4() || !a.ipHeaders() {
			hops, class = grh[7], grh[0]<<4|grh[1]>>4
		}
		// a path within a subnet needs none
		if want.HopLimit != 0 && hops != want.HopLimit || want.HopLimit == 0 && hops < 32 && b.ep.LID == 0 {
			t.Errorf("hop limit %d of %+v", hops, want)
		}
		if class != want.TrafficClass {
			t.Errorf("traffic class %#x of %+v", class, want)
		}
		t.ok(ah.Close())
	}
}

// testReply answers a datagram by the address in its completion.
func testReply(t *T) {
	a, b, ah := datagramPair(t)
	a.recv(1, 0, 1000)
	b.recv(1, 0, 1000)
	a.do(a.datagram(ah, b, 10))
	wc := b.received(verbs.StatusSuccess)
	grh := make([]byte, grhLen)
	b.mr.Do(func(p []byte) { copy(grh, p) })
	back := value(b.pd.AHFromWC(1, &wc, grh))(t)
	b.fill(0, 20, 4)
	b.do(verbs.SendWR{Op: verbs.OpSend, SGL: b.sgl(0, 20), AH: back, RemoteQPN: wc.SrcQPN, RemoteQKey: qkey})
	if wc := a.received(verbs.StatusSuccess); wc.SrcQPN != b.qp.Num() {
		t.Errorf("answer of QP %#x, want %#x", wc.SrcQPN, b.qp.Num())
	}
	a.holds(grhLen, 20, 4)
	_, err := b.pd.AHFromWC(1, &verbs.WC{}, grh)
	t.fails(err, verbs.ErrInvalid)
	_, err = b.pd.AHFromWC(1, &wc, grh[:39])
	t.fails(err, verbs.ErrInvalid)
	_, err = b.pd.AHFromWC(b.dev.Query().Ports+1, &wc, grh)
	t.fails(err, verbs.ErrInvalid)
}

func testQKey(t *T) {
	a, b, ah := datagramPair(t)
	b.recv(1, 0, 1000)
	wr := a.datagram(ah, b, 8)
	wr.RemoteQKey++
	a.do(wr)
	t.none(b.rcq)
	// The top bit stands for the queue pair's own key (IBTA 10.2.5).
	t.ok(a.qp.Modify(verbs.QPAttr{QKey: 0x22}, verbs.MaskQKey))
	t.ok(b.qp.Modify(verbs.QPAttr{QKey: 0x22}, verbs.MaskQKey))
	wr.RemoteQKey = 0x80000000
	a.do(wr)
	b.received(verbs.StatusSuccess)
}

func testDatagramTooLong(t *T) {
	a, b, ah := datagramPair(t)
	n := value(a.dev.Port(1))(t).ActiveMTU.Bytes() + 1
	a.post(a.datagram(ah, b, n))
	a.sent(verbs.StatusLocalLengthError)
	a.state(verbs.StateSQE)
	t.ok(a.qp.Modify(verbs.QPAttr{State: verbs.StateRTS}, verbs.MaskState))
	b.recv(1, 0, 100)
	a.do(a.datagram(ah, b, 10))
	b.received(verbs.StatusSuccess)
}

// testDatagramRecvSmall sends datagrams that are longer than the receive: they are dropped, and the
// receive is there for the next one.
func testDatagramRecvSmall(t *T) {
	a, b, ah := datagramPair(t)
	b.recv(1, 0, grhLen+9)
	a.dropsTooLong(b, ah)
}

func testDatagramRecvSmallSRQ(t *T) {
	a, b, ah := datagramPair(t)
	srq := value(b.pd.CreateSRQ(verbs.SRQInit{MaxWR: 4, MaxSGE: 1}))(t)
	b.addQP(verbs.QPInit{Type: verbs.UD, SRQ: srq})
	t.ok(b.qp.StartUD(qkey))
	t.ok(srq.PostRecv(&verbs.RecvWR{ID: 1, SGL: b.sgl(0, grhLen+9)}))
	a.dropsTooLong(b, ah)
}

// dropsTooLong sends datagrams that do not fit the only receive of b, and a datagram that does.
func (a *end) dropsTooLong(b *end, ah *verbs.AH) {
	t := a.t
	t.Helper()
	for range 3 {
		a.do(a.datagram(ah, b, 10))
	}
	a.fill(0, 9, 7)
	a.do(a.datagram(ah, b, 9))
	if wc := b.received(verbs.StatusSuccess); wc.ID != 1 || wc.ByteLen != grhLen+9 {
		t.Errorf("receive completion %+v", wc)
	}
	b.holds(grhLen, 9, 7)
	b.state(verbs.StateRTS)
}

// testDatagramDropped sends to a queue pair that does not exist, and to a queue pair without a receive.
func testDatagramDropped(t *T) {
	a, b, ah := datagramPair(t)
	wr := a.datagram(ah, b, 8)
	wr.RemoteQPN ^= 0x800000
	a.do(wr)
	a.do(a.datagram(ah, b, 8))
	// Another queue pair's receive says that it came, and went.
	c := *b
	c.rcq = value(b.dev.CreateCQ(16, nil))(t)
	c.addQP(verbs.QPInit{Type: verbs.UD})
	t.ok(c.qp.StartUD(qkey))
	c.recv(1, 0, 100)
	a.do(a.datagram(ah, &c, 8))
	c.received(verbs.StatusSuccess)
	b.recv(1, 0, 100)
	t.none(b.rcq)
	a.do(a.datagram(ah, b, 8))
	b.received(verbs.StatusSuccess)
}

func testAH(t *T) {
	a, b, ah := datagramPair(t)
	for _, bad := range []verbs.AHAttr{{}, {DGID: b.ep.GID, DLID: b.ep.LID, SGIDIndex: 99},
		{DGID: b.ep.GID, DLID: b.ep.LID, Port: 9}} {
		_, err := a.pd.CreateAH(bad)
		t.fails(err, verbs.ErrInvalid)
	}
	wr := a.datagram(nil, b, 8)
	t.fails(a.qp.PostSend(&wr), verbs.ErrInvalid, "AH")
	t.ok(ah.Close())
	t.ok(ah.Close())
}

func testMulticast(t *T) {
	a, b, _ := datagramPair(t)
	c := *b
	c.rcq = value(b.dev.CreateCQ(16, nil))(t)
	c.addQP(verbs.QPInit{Type: verbs.UD})
	t.ok(c.qp.StartUD(qkey))
	group := t.f.Group()
	to := verbs.AHAttr{DGID: group}
	both := []*end{b, &c}
	for i, e := range both {
		lid := t.joins(e, group)
		to.DLID = lid
		t.ok(e.qp.AttachMulticast(group, lid))
		e.recv(1, i*1000, 100)
	}
	t.joins(a, group) // a port that is no member may not send (IBTA 15.2.5.17)
	ah := value(a.pd.CreateAH(to))(t)
	a.fill(0, 30, 1)
	wr := a.datagram(ah, b, 30)
	wr.RemoteQPN = 0xffffff
	a.do(wr)
	for i, e := range both {
		wc := e.received(verbs.StatusSuccess)
		if wc.SrcQPN != a.qp.Num() || wc.ByteLen != grhLen+30 {
			t.Errorf("receive completion %+v", wc)
		}
		e.holds(i*1000+grhLen, 30, 1)
	}
	t.fails(b.qp.Close(), verbs.ErrBusy)
	t.ok(b.qp.DetachMulticast(group, to.DLID))
	for i, e := range both {
		e.recv(2, i*1000, 100)
	}
	a.do(wr)
	c.received(verbs.StatusSuccess)
	t.none(b.rcq)
	t.ok(c.qp.DetachMulticast(group, to.DLID))
	t.ok(b.qp.Close())
	t.ok(c.qp.Close())
}

// A group's members on the sender's own device hear it too, and so does the sender, unless it
// was created not to.
func testMulticastToSelf(t *T) {
	a, _, _ := datagramPair(t)
	deaf, other := *a, *a
	group := t.f.Group()
	to := verbs.AHAttr{DGID: group}
	for e, block := range map[*end]bool{&deaf: true, &other: false} {
		e.rcq = value(e.dev.CreateCQ(16, nil))(t)
		e.addQP(verbs.QPInit{Type: verbs.UD, BlockSelfMulticast: block})
		t.ok(e.qp.StartUD(qkey))
		lid := t.joins(e, group)
		to.DLID = lid
		t.ok(e.qp.AttachMulticast(group, lid))
	}
	ah := value(a.pd.CreateAH(to))(t)
	a.fill(0, 30, 1)
	send := func(e *end) {
		wr := e.datagram(ah, e, 30)
		wr.RemoteQPN = 0xffffff
		e.do(wr)
	}
	deaf.recv(1, 1000, 100)
	other.recv(1, 2000, 100)
	send(&deaf)
	other.received(verbs.StatusSuccess)
	t.none(deaf.rcq)
	other.recv(2, 2000, 100)
	send(&other)
	other.received(verbs.StatusSuccess)
	deaf.received(verbs.StatusSuccess)
	for _, e := range []*end{&deaf, &other} {
		t.ok(e.qp.DetachMulticast(group, to.DLID))
		t.ok(e.qp.Close())
	}
}

func testMulticastRefused(t *T) {
	a, _, _ := datagramPair(t)
	t.fails(a.qp.AttachMulticast(a.ep.GID, 0), verbs.ErrInvalid)
	t.fails(a.qp.DetachMulticast(t.f.Group(), 0), verbs.ErrInvalid)
	a.addQP(verbs.QPInit{})
	t.fails(a.qp.AttachMulticast(t.f.Group(), 0), verbs.ErrInvalid)
}
