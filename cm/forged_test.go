// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// stranger is a bare UDP socket of an address of its own that sends management datagrams to a
// device.
type stranger struct {
	t    *testing.T
	sock *net.UDPConn
	addr netip.Addr
	to   netip.AddrPort
	flow ib.PseudoHeader
	psn  ib.PSN
	tid  uint64
}

// newStranger returns a stranger at port 4791, where it receives the answers, or at any other.
func newStranger(t *testing.T, to netip.Addr, port uint16) *stranger {
	t.Helper()
	for {
		addr := loopback.Next()
		sock, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, port)))
		if err != nil {
			continue
		}
		t.Cleanup(func() { sock.Close() })
		dst := netip.AddrPortFrom(to, ib.UDPPort)
		return &stranger{t: t, sock: sock, addr: addr, to: dst, tid: 1 << 33,
			flow: ib.NewPseudoHeader(sock.LocalAddr().(*net.UDPAddr).AddrPort(), dst, true)}
	}
}

// says sends a datagram.
func (s *stranger) says(a mad.Attribute, tid uint64, m interface{ Append([]byte) []byte }) {
	s.t.Helper()
	h := mad.CMHeader(a, tid)
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: ib.QP1, PSN: s.psn},
		DETH: ib.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QP1}, Payload: m.Append(h.Append(nil))}
	s.psn = s.psn.Next()
	b := p.Append(nil)
	_, err := s.sock.WriteToUDPAddrPort(ib.AppendICRC(b, 0, s.flow.Seed(8+len(b)+ib.ICRCLen, 0)), s.to)
	ok(s.t, err)
}

// hears waits for a message.
func (s *stranger) hears(want mad.Attribute, m interface{ Decode([]byte) bool }) {
	s.t.Helper()
	s.sock.SetReadDeadline(time.Now().Add(patience))
	var b [2048]byte
	n, err := s.sock.Read(b[:])
	ok(s.t, err)
	var p ib.Packet
	ok(s.t, p.Decode(b[:n-ib.ICRCLen]))
	var h mad.Header
	if !h.Decode(p.Payload) || h.Attribute != want || !m.Decode(p.Payload[mad.HeaderLen:]) {
		s.t.Fatalf("%v, want %v", h.Attribute, want)
	}
}

// request is a REQ for an RC connection.
func request(from netip.Addr, to netip.AddrPort) *mad.REQ {
	h := mad.NewIPAddress(netip.AddrPortFrom(from, 40000), to.Addr())
	m := &mad.REQ{LocalCommID: 0x77, ServiceID: mad.IPService(mad.PortSpaceTCP, to.Port()), LocalCAGUID: 5,
		LocalQPN: 0x22, RemoteTimeout: 20, LocalTimeout: 20, MaxCMRetries: 15, PathMTU: uint8(verbs.MTU1024),
		RetryCount: 7, RNRRetryCount: 7,
		PKey:    ib.DefaultPKey,
		Primary: mad.Path{LocalGID: ib.GIDFromAddr(from), RemoteGID: ib.GIDFromAddr(to.Addr()), AckTimeout: 16}}
	h.Append(m.Private[:0])
	return m
}

// A peer that names an address other than the datagram's source is rejected, and the program gets no
// event: the peer is not taken for another host, and no other host is sent the answer.
func TestImpostor(t *testing.T) {
	dev, victim := open(t), loopback.Next()
	l := listen(t, dev)
	s := newStranger(t, l.Addr().Addr(), ib.UDPPort)
	for name, change := range map[string]func(m *mad.REQ){
		"all of it": func(m *mad.REQ) { *m = *request(victim, l.Addr()) },
		"the GID":   func(m *mad.REQ) { m.Primary.LocalGID = ib.GIDFromAddr(victim) },
		"the header": func(m *mad.REQ) {
			p := request(victim, l.Addr()).Private
			m.Private = p
		},
	} {
		m := request(s.addr, l.Addr())
		change(m)
		s.tid++
		s.says(mad.AttrREQ, s.tid, m)
		var rej mad.REJ
		if s.hears(mad.AttrREJ, &rej); rej.Reason != mad.RejPrimaryGID || rej.Message != mad.MessageREQ {
			t.Errorf("another names %s: REJ %+v", name, rej)
		}
	}
	s.says(mad.AttrREQ, s.tid+1, request(s.addr, l.Addr()))
	r, err := l.Next(within(t))
	ok(t, err)
	if r.PeerAddr() != netip.AddrPortFrom(s.addr, 40000) {
		t.Errorf("a request of %v, want one of %v", r.PeerAddr(), s.addr)
	}
	ok(t, r.Reject(nil))
}

// Nor does a datagram service get a request that names another host.
func TestImpostorOfService(t *testing.T) {
	server := listening(t, open(t), cm.UDP)
	at := server.id.LocalAddr()
	s := newStranger(t, at.Addr(), ib.UDPPort)
	ask := func(from netip.Addr) {
		h := mad.NewIPAddress(netip.AddrPortFrom(from, 40000), at.Addr())
		m := &mad.SIDRREQ{RequestID: 5, PKey: ib.DefaultPKey, ServiceID: mad.IPService(mad.PortSpaceUDP, at.Port())}
		h.Append(m.Private[:0])
		s.tid++
		s.says(mad.AttrSIDRREQ, s.tid, m)
	}
	ask(loopback.Next())
	var rep mad.SIDRREP
	if s.hears(mad.AttrSIDRREP, &rep); rep.Status != mad.SIDRReject {
		t.Errorf("SIDR_REP %+v", rep)
	}
	ask(s.addr)
	e := server.event(cm.ConnectRequest)
	if e.ID.PeerAddr().Addr() != s.addr {
		t.Errorf("a request of %v, want one of %v", e.ID.PeerAddr(), s.addr)
	}
	ok(t, e.ID.Close())
}

// While 3,000 forged requests, of one address or of many, hold a listener's places, an honest peer
// finds one: it is enough that it asks again.
func TestForgedRequests(t *testing.T) {
	t.Parallel()
	const n = 3000
	for name, addresses := range map[string]int{"one address": 1, "many addresses": 150} {
		t.Run(name, func(t *testing.T) {
			dev := open(t)
			l := listen(t, dev)
			in := accept(t, l)
			var from []*stranger
			for range addresses {
				from = append(from, newStranger(t, l.Addr().Addr(), 0))
			}
			received := func() uint64 { return loopback.Counter(t, dev, "rcvd_pkts") }
			before := received()
			for i := range n {
				s := from[i%len(from)]
				m := request(s.addr, l.Addr())
				m.LocalCommID, m.LocalQPN = mad.CommID(i+1), ib.QPN(i+1)
				s.tid++
				s.says(mad.AttrREQ, s.tid, m)
				if i%64 == 63 { // so few at a time that none is lost
					eventually(t, func() bool { return received() >= before+uint64(i) }, "the requests arrive")
				}
			}
			// On a busy machine the listener takes longer than Dial's own time to drop the forged requests.
			c, err := cm.Dial(within(t), open(t), l.Addr().String(), cm.WithTimeout(patience))
			ok(t, err)
			defer c.Close()
			s := <-in
			ok(t, s.err)
			defer s.c.Close()
			if s.c.PeerAddr() != c.LocalAddr() {
				t.Errorf("%v was accepted", s.c.PeerAddr())
			}
		})
	}
}

// Requests that are withdrawn before a program looks at them take no memory until it does.
func TestWithdrawnRequests(t *testing.T) {
	t.Parallel()
	l := listen(t, open(t))
	s := newStranger(t, l.Addr().Addr(), ib.UDPPort)
	rej := mad.REJ{Message: mad.MessageOther, Reason: mad.RejTimeout, ARILen: 8}
	binary.BigEndian.PutUint64(rej.ARI[:], 5)
	for range 300 {
		m := request(s.addr, l.Addr())
		s.tid++
		s.says(mad.AttrREQ, s.tid, m)
		rej.LocalCommID = m.LocalCommID
		eventually(t, func() bool { return l.QueuedEvents() == 1 }, "the request arrives")
		s.says(mad.AttrREJ, s.tid, &rej)
		eventually(t, func() bool { return l.QueuedEvents() == 0 && l.ID().Requests() == 0 }, "nothing is left of it")
	}
	s.says(mad.AttrREQ, s.tid+1, request(s.addr, l.Addr()))
	r, err := l.Next(within(t))
	ok(t, err)
	ok(t, r.Reject(nil))
}

// The acknowledgement timeout that a peer asks for has a bound, as it says when our queue pair
// notices that the peer is gone; our own does not.
func TestPeerAckTimeout(t *testing.T) {
	for _, c := range []struct{ asked, own, want uint8 }{{12, 0, 12}, {31, 0, cm.MaxPeerAckTimeout}, {31, 14, 14},
		{12, 30, 30}, {0, 0, cm.DefaultAckTimeout}} {
		var dial, take []cm.Option
		if c.asked != 0 {
			dial = append(dial, cm.WithAckTimeout(c.asked))
		}
		if c.own != 0 {
			take = append(take, cm.WithAckTimeout(c.own))
		}
		l := listen(t, open(t), take...)
		in := accept(t, l)
		client, err := cm.Dial(within(t), open(t), l.Addr().String(), dial...)
		ok(t, err)
		defer client.Close()
		s := <-in
		ok(t, s.err)
		defer s.c.Close()
		mine := client.QP().Query()
		theirs := s.c.QP().Query()
		if want := max(c.asked, cm.DefaultAckTimeout); c.asked == 0 && mine.Timeout != want ||
			c.asked != 0 && mine.Timeout != c.asked {
			t.Errorf("%+v: the client's queue pair has %d", c, mine.Timeout)
		}
		if theirs.Timeout != c.want {
			t.Errorf("%+v: the server's queue pair has %d", c, theirs.Timeout)
		}
	}
}
