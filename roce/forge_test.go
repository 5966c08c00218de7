// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// forger is a peer that is a bare UDP socket and sends packets that no peer should.
type forger struct {
	t      *testing.T
	dev    *verbs.Device
	addr   netip.AddrPort // the device's
	sock   *net.UDPConn
	pseudo ib.PseudoHeader
	mr     *verbs.MR
	cq     *verbs.CQ
	qp     *verbs.QP
	psn    ib.PSN // next that the queue pair expects
}

const forgedQPN = 0x1234

// newForger opens a device with a queue pair that is connected to the forger.
func newForger(t *testing.T) *forger {
	t.Helper()
	dev, addr := open(t, nil)
	f := &forger{t: t, dev: dev, addr: netip.AddrPortFrom(addr, ib.UDPPort)}
	f.sock, f.pseudo = f.socket()
	pd, err := dev.AllocPD()
	f.ok(err)
	const access = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
	f.mr, err = pd.RegMR(make([]byte, 4096), access)
	f.ok(err)
	f.cq, err = dev.CreateCQ(64, nil)
	f.ok(err)
	f.qp, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: f.cq, RecvCQ: f.cq})
	f.ok(err)
	local, err := f.qp.Endpoint(0)
	f.ok(err)
	peer := f.sock.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
	f.ok(f.qp.Connect(local, verbs.Endpoint{QPN: forgedQPN, PSN: 0xfffffe, GID: ib.GIDFromAddr(peer),
		MTU: verbs.MTU1024}, nil))
	f.psn = 0xfffffe
	return f
}

// socket opens a socket of an address of its own, and returns the pseudo header of packets to the device.
func (f *forger) socket() (*net.UDPConn, ib.PseudoHeader) {
	f.t.Helper()
	for {
		from := netip.AddrPortFrom(loopback.Next(), ib.UDPPort)
		sock, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(from))
		if err != nil {
			continue
		}
		f.t.Cleanup(func() { sock.Close() })
		return sock, ib.NewPseudoHeader(from, f.addr, true)
	}
}

func (f *forger) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// write is a WRITE of 8 bytes to the region, in sequence.
func (f *forger) write() *ib.Packet {
	return &ib.Packet{
		BTH: ib.BTH{Opcode: ib.TransportRC.Join(ib.OpWriteOnly), PKey: ib.DefaultPKey, DestQP: f.qp.Num(),
			PSN: f.psn, AckReq: true},
		RETH:    ib.RETH{VA: f.mr.Addr(), RKey: f.mr.RKey(), DMALen: 8},
		Payload: []byte("forged!!"),
	}
}

// frame is a packet with its ICRC; a socket's lone sends have identification 0.
func frame(p *ib.Packet, pseudo ib.PseudoHeader) []byte {
	b := p.Append(nil)
	return ib.AppendICRC(b, 0, pseudo.Seed(8+len(b)+ib.ICRCLen, 0))
}

func (f *forger) send(b []byte) {
	f.t.Helper()
	_, err := f.sock.WriteToUDPAddrPort(b, f.addr)
	f.ok(err)
}

func (f *forger) counter(name string) uint64 {
	f.t.Helper()
	return loopback.Counter(f.t, f.dev, name)
}

// counts waits until a counter has grown by n.
func (f *forger) counts(name string, before, n uint64) {
	f.t.Helper()
	for end := time.Now().Add(2 * time.Minute); f.counter(name) != before+n; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			f.t.Fatalf("%s is %d, want %d", name, f.counter(name), before+n)
		}
	}
}

// holds checks the beginning of the region.
func (f *forger) holds(want string) {
	f.t.Helper()
	f.mr.Do(func(b []byte) {
		if !bytes.HasPrefix(b, []byte(want)) {
			f.t.Errorf("region begins with %q, want %q", b[:len(want)], want)
		}
	})
}

// alive makes sure that a good WRITE still arrives, is acknowledged, and arrives once.
func (f *forger) alive() {
	f.t.Helper()
	f.mr.Do(func(b []byte) { clear(b[:8]) })
	f.send(frame(f.write(), f.pseudo))
	var b [2048]byte
	f.sock.SetReadDeadline(time.Now().Add(2 * time.Minute))
	for {
		n, err := f.sock.Read(b[:])
		f.ok(err)
		var ack ib.Packet
		f.ok(ack.Decode(b[:n-ib.ICRCLen]))
		if ack.Opcode.Info().Class == ib.ClassAck && ack.AETH.Syndrome.IsACK() && ack.PSN == f.psn {
			break
		}
	}
	f.psn = f.psn.Next()
	f.holds("forged!!")
}

func TestForgedFrames(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	f.alive()
	f.mr.Do(func(b []byte) { copy(b, "untouched") })
	other, otherFlow := f.socket()
	for _, c := range []struct {
		name    string
		counter string
		change  func(*ib.Packet)
	}{
		{"unknown QP", "dropped_no_such_qp", func(p *ib.Packet) { p.DestQP ^= 0x800000 }},
		{"QP 0", "dropped_no_such_qp", func(p *ib.Packet) { p.DestQP = 0 }},
		{"QP 1", "dropped_no_such_qp", func(p *ib.Packet) { p.DestQP = 1 }},
		{"P_Key", "dropped_pkey_mismatch", func(p *ib.Packet) { p.PKey = 0x1234 }},
		{"UC's opcode", "dropped_wrong_transport",
			func(p *ib.Packet) { p.Opcode = ib.TransportUC.Join(ib.OpWriteOnly) }},
		{"duplicate", "dropped_duplicate", func(p *ib.Packet) { p.PSN = p.PSN.Add(-1) }},
		{"far ahead", "dropped_out_of_sequence", func(p *ib.Packet) { p.PSN = p.PSN.Add(5000) }},
		{"far behind", "dropped_duplicate", func(p *ib.Packet) { p.PSN = p.PSN.Add(-1 << 22) }},
		{"answer to nothing", "dropped_unexpected_response",
			func(p *ib.Packet) { p.Opcode = ib.TransportRC.Join(ib.OpAck); p.Payload = nil }},
		{"data for nothing", "dropped_unexpected_response",
			func(p *ib.Packet) { p.Opcode = ib.TransportRC.Join(ib.OpReadResponseOnly) }},
		{"NAK of nothing", "dropped_unexpected_response", func(p *ib.Packet) {
			p.Opcode, p.Payload, p.AETH.Syndrome = ib.TransportRC.Join(ib.OpAck), nil, ib.NAK(ib.NAKRemoteAccessError)
		}},
		{"reserved opcode", "dropped_malformed", func(p *ib.Packet) { p.Opcode = 0x1f }},
	} {
		before := f.counter(c.counter)
		p := f.write()
		c.change(p)
		b := p.AppendHeader(nil)
		if p.Opcode == 0x1f {
			b = binary.BigEndian.AppendUint32(f.write().AppendHeader(nil), 0)
			b[0] = 0x1f
		} else {
			b = append(b, p.Payload...)
		}
		f.send(ib.AppendICRC(b, 0, f.pseudo.Seed(8+len(b)+ib.ICRCLen, 0)))
		f.counts(c.counter, before, 1)
		f.holds("untouched")
	}
	before := f.counter("dropped_wrong_source_address")
	_, err := other.WriteToUDPAddrPort(frame(f.write(), otherFlow), f.addr)
	f.ok(err)
	f.counts("dropped_wrong_source_address", before, 1)
	f.holds("untouched")
	if s := f.qp.State(); s != verbs.StateRTS {
		t.Errorf("queue pair in %v", s)
	}
	f.alive()
}

// TestCorruptFrames flips every bit of a frame and cuts it at every length.
func TestCorruptFrames(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	f.alive()
	f.mr.Do(func(b []byte) { copy(b, "untouched") })
	good := frame(f.write(), f.pseudo)
	recv, icrc := f.counter("rcvd_pkts"), f.counter("dropped_icrc_error")
	var n uint64
	for bit := range 8 * len(good) {
		if masked(bit) {
			continue
		}
		bad := bytes.Clone(good)
		bad[bit/8] ^= 0x80 >> (bit % 8)
		f.send(bad)
		n++
		if n%32 == 0 {
			f.counts("dropped_icrc_error", icrc, n) // so few at a time that none is lost
		}
	}
	f.counts("dropped_icrc_error", icrc, n)
	for length := range len(good) {
		f.send(good[:length])
	}
	f.send(nil)
	f.alive() // after all of these
	if got := f.counter("rcvd_pkts"); got != recv+1 {
		t.Errorf("%d packets taken for good, want 1", got-recv)
	}
	if s := f.qp.State(); s != verbs.StateRTS {
		t.Errorf("queue pair in %v", s)
	}
}

// masked reports whether the ICRC does not cover a bit: FECN, BECN and the reserved bits
// beside them (IBTA A17.3).
func masked(bit int) bool { return bit/8 == 4 }

// TestReplay sends a connection's frames again and again: nothing runs twice.
func TestReplay(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	add := f.write()
	add.Opcode, add.Payload = ib.TransportRC.Join(ib.OpFetchAdd), nil
	add.AtomicETH = ib.AtomicETH{VA: f.mr.Addr() + 16, RKey: f.mr.RKey(), Swap: 1}
	f.psn = f.psn.Next()
	write := f.write()
	write.RETH.VA += 8
	before := f.counter("duplicate_request")
	f.send(frame(add, f.pseudo))
	f.send(frame(write, f.pseudo))
	f.psn = f.psn.Next()
	f.alive()
	f.mr.Do(func(b []byte) { copy(b[8:], "ours now") })
	for range 20 {
		f.send(frame(add, f.pseudo))
		f.send(frame(write, f.pseudo))
	}
	f.counts("duplicate_request", before, 40)
	f.alive()
	f.mr.Do(func(b []byte) {
		if v := binary.NativeEndian.Uint64(b[16:]); v != 1 {
			t.Errorf("the word is %d, want 1: the atomic ran again", v)
		}
		if string(b[8:16]) != "ours now" {
			t.Errorf("the WRITE ran again: %q", b[8:16])
		}
	})
}

// TestNoise sends datagrams of all lengths that are no packets, and headers of all opcodes
// that mean nothing to the queue pair, with a right ICRC.
func TestNoise(t *testing.T) {
	t.Parallel()
	f := newForger(t)
	sent := 0
	few := func() { // at a time, so that the socket's buffer has room for them
		if sent++; sent%64 == 0 {
			f.alive()
		}
	}
	for n := range 200 {
		f.send(bytes.Repeat([]byte{byte(n)}, n))
		few()
	}
	for op := range 256 {
		if ib.Opcode(op).Transport() == ib.TransportRC && ib.Opcode(op).Info().Class != 0 {
			continue // packets that mean something to the queue pair have their own tests
		}
		b := f.write().Append(nil)
		b[0] = byte(op)
		f.send(ib.AppendICRC(b, 0, f.pseudo.Seed(8+len(b)+ib.ICRCLen, 0)))
		few()
	}
	f.alive()
}

// TestForgedRequests sends requests that are in sequence and not allowed: each is answered
// with a NAK, and costs its own queue pair alone.
func TestForgedRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nak    ib.NAKCode
		change func(*ib.Packet)
	}{
		"middle of nothing": {ib.NAKInvalidRequest, func(p *ib.Packet) {
			p.Opcode, p.Payload = ib.TransportRC.Join(ib.OpWriteMiddle), make([]byte, 1024)
		}},
		"last of nothing": {ib.NAKInvalidRequest,
			func(p *ib.Packet) { p.Opcode = ib.TransportRC.Join(ib.OpSendLast) }},
		"short first": {ib.NAKInvalidRequest,
			func(p *ib.Packet) { p.Opcode = ib.TransportRC.Join(ib.OpWriteFirst) }},
		"longer than said":  {ib.NAKInvalidRequest, func(p *ib.Packet) { p.RETH.DMALen = 4 }},
		"shorter than said": {ib.NAKInvalidRequest, func(p *ib.Packet) { p.RETH.DMALen = 800 }},
		"beyond the path MTU": {ib.NAKInvalidRequest,
			func(p *ib.Packet) { p.RETH.DMALen, p.Payload = 1028, make([]byte, 1028) }},
		"wrong key":     {ib.NAKRemoteAccessError, func(p *ib.Packet) { p.RETH.RKey ^= 0x10000 }},
		"out of bounds": {ib.NAKRemoteAccessError, func(p *ib.Packet) { p.RETH.VA += 4089 }},
		"huge":          {ib.NAKInvalidRequest, func(p *ib.Packet) { p.RETH.DMALen = 1<<32 - 1 }},
		"huge READ": {ib.NAKInvalidRequest, func(p *ib.Packet) {
			p.Opcode, p.Payload, p.RETH.DMALen = ib.TransportRC.Join(ib.OpReadRequest), nil, 1<<32-1
		}},
	} {
		f := newForger(t)
		p := f.write()
		c.change(p)
		b := append(p.AppendHeader(nil), p.Payload...)
		f.send(ib.AppendICRC(b, 0, f.pseudo.Seed(8+len(b)+ib.ICRCLen, 0)))
		f.sock.SetReadDeadline(time.Now().Add(2 * time.Minute))
		var answer [2048]byte
		n, err := f.sock.Read(answer[:])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var nak ib.Packet
		f.ok(nak.Decode(answer[:n-ib.ICRCLen]))
		if s := nak.AETH.Syndrome; nak.Opcode.Info().Class != ib.ClassAck || !s.IsNAK() || s.Code() != c.nak ||
			nak.DestQP != forgedQPN {
			t.Errorf("%s: answered with %v %v, want NAK %v", name, nak.Opcode, s, c.nak)
		}
		if s := f.qp.State(); s != verbs.StateError {
			t.Errorf("%s: queue pair in %v", name, s)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		if ev, err := f.dev.Event(ctx); err != nil || ev.QP != f.qp {
			t.Errorf("%s: event %+v, %v", name, ev, err)
		}
		cancel()
		f.holds("\x00\x00\x00\x00\x00\x00\x00\x00")
	}
}
