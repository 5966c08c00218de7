// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// The tests of this file prove faults of rxe as a requester when packets get lost or overtake
// each other, with a responder that is a script of packets: no engine takes part.
// TestLoss leaves room for these faults and for no others. Where one of these tests fails,
// rxe has been mended, and TestLoss can ask for more.

// responderScript is a queue pair's peer that sends the test's packets.
type responderScript struct {
	t    *testing.T
	conn *net.UDPConn
	flow ib.PseudoHeader
	to   netip.AddrPort
	qp   *guestQueue
}

const scriptQPN, scriptMTU = 0x123, 1024

// newResponderScript connects a queue pair of the guest with the script, over IPv6: there
// is no identification that the ICRC would need.
func newResponderScript(t *testing.T) (*guest, *responderScript) {
	g := dialGuest(t, true)
	from, to := netip.AddrPortFrom(netip.MustParseAddr(hostIPv6), ib.UDPPort),
		netip.AddrPortFrom(netip.MustParseAddr(guestIPv6), ib.UDPPort)
	conn, err := net.ListenUDP("udp6", net.UDPAddrFromAddrPort(from))
	must(t, conn, err)
	t.Cleanup(func() { conn.Close() })
	raw, err := conn.SyscallConn()
	must(t, raw, err)
	const noCheck6 = 102 // UDP_NO_CHECK6_RX: rxe sends no UDP checksum
	raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_UDP, noCheck6, 1) })
	must(t, raw, err)
	qp := g.queue(queueInit{typ: verbs.RC}).(*guestQueue)
	qp.connect(verbs.Endpoint{QPN: scriptQPN, PSN: 1, GID: mustGID(t, hostIPv6)},
		verbs.ConnectOptions{MTU: verbs.MTU1024, Timeout: 18})
	return g, &responderScript{t, conn, ib.NewPseudoHeader(from, to, true), to, qp}
}

// send sends a response whose PSN lies n after the guest's first request.
func (s *responderScript) send(op ib.Operation, n, payload int, syndrome ib.Syndrome) {
	s.t.Helper()
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.TransportRC.Join(op), PKey: ib.DefaultPKey, DestQP: s.qp.QPN,
		PSN: s.qp.PSN.Add(n)}}
	p.AETH = ib.AETH{Syndrome: syndrome}
	for i := range payload {
		p.Payload = append(p.Payload, byte(n)+byte(i)|1)
	}
	b := p.Append(nil)
	b = ib.AppendICRC(b, 0, s.flow.Seed(8+len(b)+ib.ICRCLen, 0))
	if _, err := s.conn.WriteToUDPAddrPort(b, s.to); err != nil {
		s.t.Fatal(err)
	}
}

// until returns the first request that f is looking for.
func (s *responderScript) until(f func(p *ib.Packet) bool) {
	s.t.Helper()
	buf := make([]byte, 9000)
	s.conn.SetReadDeadline(time.Now().Add(waitTimeout))
	for {
		n, err := s.conn.Read(buf)
		if err != nil {
			s.t.Fatal("the request did not come: ", err)
		}
		var p ib.Packet
		if p.Decode(buf[:n-ib.ICRCLen]) == nil && p.DestQP == scriptQPN && f(&p) {
			return
		}
	}
}

var good = ib.Acknowledge(ib.CreditsUnlimited)

// readBehindSend posts a SEND, whose PSN is 0 from the first, and a READ of three packets
// behind it, and waits until both have come.
func (s *responderScript) readBehindSend(into region) {
	s.t.Helper()
	s.qp.send(
		work{SendWR: verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled}},
		work{SendWR: verbs.SendWR{ID: 2, Op: verbs.OpRead, Flags: verbs.Signaled,
			SGL: []verbs.SGE{into.sge(0, 3*scriptMTU)}}})
	s.until(func(p *ib.Packet) bool { return p.Opcode.Operation() == ib.OpReadRequest })
}

// TestKernelLateAck has the acknowledgement of a SEND arrive behind the first response to
// the READ that follows. rxe then refuses the second response, completes the READ as a
// success although two thirds of it are missing, and leaves the queue pair in error.
func TestKernelLateAck(t *testing.T) {
	g, s := newResponderScript(t)
	into := g.region(3*scriptMTU, verbs.LocalWrite)
	s.readBehindSend(into)
	s.send(ib.OpReadResponseFirst, 1, scriptMTU, good)
	s.send(ib.OpAck, 0, 0, good)
	s.send(ib.OpReadResponseMiddle, 2, scriptMTU, good)
	s.send(ib.OpReadResponseLast, 3, scriptMTU, good)
	wcs := s.qp.wait(2)
	want(t, wcs[0], 1, verbs.WCSend)
	wantStatus(t, wcs[1], 2, verbs.StatusSuccess)
	b := into.bytes(0, 3*scriptMTU)
	if b[0] == 0 || b[scriptMTU] != 0 || s.qp.state() != verbs.StateError {
		t.Errorf("the READ got %x… and then %x…, state %v", b[:4], b[scriptMTU:][:4], s.qp.state())
	}
}

// TestKernelAckForRead acknowledges the last PSN of a READ whose last response was lost.
// rxe completes the READ as a success without it.
func TestKernelAckForRead(t *testing.T) {
	g, s := newResponderScript(t)
	into := g.region(3*scriptMTU, verbs.LocalWrite)
	s.readBehindSend(into)
	s.send(ib.OpReadResponseFirst, 1, scriptMTU, good)
	s.send(ib.OpReadResponseMiddle, 2, scriptMTU, good)
	s.send(ib.OpAck, 3, 0, good)
	wcs := s.qp.wait(2)
	want(t, wcs[0], 1, verbs.WCSend)
	wantStatus(t, wcs[1], 2, verbs.StatusSuccess)
	if b := into.bytes(2*scriptMTU, 4); b[0] != 0 {
		t.Errorf("the READ got %x… in the end", b)
	}
}

// TestKernelRenumbers has the acknowledgement of a whole SEND arrive while rxe is sending
// it again. rxe notes the PSN and does not complete the SEND; when it sends again the next
// time, an empty SEND takes the PSN behind, and all later requests move by one.
func TestKernelRenumbers(t *testing.T) {
	g, s := newResponderScript(t)
	const packets = 100
	from := g.region(packets*scriptMTU, verbs.LocalWrite)
	s.qp.send(
		work{SendWR: verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled,
			SGL: []verbs.SGE{from.sge(0, packets*scriptMTU)}}},
		work{SendWR: verbs.SendWR{ID: 2, Op: verbs.OpSendImm, Flags: verbs.Signaled, Inline: []byte{1}}})
	s.until(func(p *ib.Packet) bool { return p.Opcode.Info().Imm })
	s.send(ib.OpAck, 1, 0, ib.NAK(ib.NAKPSNSequenceError))
	s.send(ib.OpAck, packets-1, 0, good)
	s.until(func(p *ib.Packet) bool {
		return p.Opcode.Operation() == ib.OpSendOnly && p.PSN == s.qp.PSN.Add(packets) && len(p.Payload) == 0
	})
}
