// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// A linkWatch has a copy of each packet that passed the link, from the peer and from Ramjet,
// independent of both sides' reports.
type linkWatch struct {
	fd    int
	guest netip.Addr
}

// watched is a RoCEv2 packet that passed the link.
type watched struct {
	byGuest bool // from the guest
	ib.Packet
}

// watch begins to look at the link.
func (p pair) watch(t *testing.T) *linkWatch {
	t.Helper()
	const all = 0x0300 // ETH_P_ALL in network order: packets that leave, too
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_DGRAM|syscall.SOCK_NONBLOCK, all)
	must(t, fd, err)
	t.Cleanup(func() { syscall.Close(fd) })
	err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, 512<<20)
	must(t, fd, err)
	guest := guestIPv4
	if p.ipv6 {
		guest = guestIPv6
	}
	return &linkWatch{fd, netip.MustParseAddr(guest)}
}

// packets returns the packets that have passed since the last call, in its order; an error: something is
// missing.
func (w *linkWatch) packets() (list []watched, err error) {
	buf := make([]byte, 1<<17)
	for {
		n, _, err := syscall.Recvfrom(w.fd, buf, 0)
		if err == syscall.EAGAIN {
			break
		}
		if err != nil {
			return nil, err
		}
		from, udp := ipPayload(buf[:n])
		if len(udp) < 8 || binary.BigEndian.Uint16(udp[2:]) != ib.UDPPort {
			continue
		}
		if length := int(binary.BigEndian.Uint16(udp[4:])); length != len(udp) {
			return nil, fmt.Errorf("a datagram of %d bytes was captured as %d", length, len(udp))
		}
		p := watched{byGuest: from == w.guest}
		if len(udp) < 8+ib.ICRCLen || p.Decode(udp[8:len(udp)-ib.ICRCLen]) != nil {
			return nil, fmt.Errorf("a packet of %v that none can decode: % x", from, udp)
		}
		p.Payload = append([]byte(nil), p.Payload...)
		list = append(list, p)
	}
	var stats struct{ packets, drops uint32 }
	size := uint32(unsafe.Sizeof(stats))
	const packetStatistics = 6
	if _, _, errno := syscall.Syscall6(syscall.SYS_GETSOCKOPT, uintptr(w.fd), syscall.SOL_PACKET, packetStatistics,
		uintptr(unsafe.Pointer(&stats)), uintptr(unsafe.Pointer(&size)), 0); errno != 0 {
		return nil, errno
	}
	if stats.drops > 0 {
		return nil, fmt.Errorf("%d packets were not captured", stats.drops)
	}
	return list, nil
}

// ipPayload returns the sender of a packet of IP and its UDP datagram, or none.
func ipPayload(b []byte) (from netip.Addr, udp []byte) {
	switch {
	case len(b) > 20 && b[0]>>4 == 4 && b[9] == syscall.IPPROTO_UDP:
		return netip.AddrFrom4([4]byte(b[12:])), b[20:min(len(b), int(binary.BigEndian.Uint16(b[2:])))]
	case len(b) > 40 && b[0]>>4 == 6 && b[6] == syscall.IPPROTO_UDP:
		return netip.AddrFrom16([16]byte(b[8:])), b[40:min(len(b), 40+int(binary.BigEndian.Uint16(b[4:])))]
	}
	return netip.Addr{}, nil
}

// renumbered reports whether the guest sent two requests of different opcodes with one PSN to a
// queue pair: it has given its requests other PSNs (TestKernelRenumbers).
func renumbered(list []watched, qpn verbs.QPN) bool {
	seen := map[ib.PSN]ib.Opcode{}
	for _, p := range list {
		if !p.byGuest || p.DestQP != ib.QPN(qpn) {
			continue
		}
		if op, ok := seen[p.PSN]; ok && op != p.Opcode {
			return true
		}
		seen[p.PSN] = p.Opcode
	}
	return false
}

var errUnasked = errors.New("nobody asked for it")

// responder checks Ramjet's answers on the link.
type responder struct {
	guest, ramjet verbs.QPN
	mtu           int
	memory        func(addr uint64, n int) []byte // the data that READs have to bring

	asked   map[ib.PSN]bool
	reads   map[ib.PSN]ib.RETH // by the PSN of the request
	highest ib.PSN
}

// wrong returns the first packet of Ramjet in a capture that it should not have sent, and why:
// an answer without a request, other bytes than the memory's, a refusal. No error: no packet that the
// guest got gave it a reason to fail.
func (r *responder) wrong(list []watched) error {
	r.asked, r.reads = map[ib.PSN]bool{}, map[ib.PSN]ib.RETH{}
	for i := range list {
		p := &list[i]
		switch {
		case p.byGuest && p.DestQP == ib.QPN(r.ramjet):
			r.request(p)
		case !p.byGuest && p.DestQP == ib.QPN(r.guest):
			if err := r.response(p); err != nil {
				return fmt.Errorf("packet %d, %v with PSN %d: %w", i, p.Opcode, p.PSN, err)
			}
		}
	}
	return nil
}

func (r *responder) request(p *watched) {
	last := p.PSN
	if p.Opcode.Operation() == ib.OpReadRequest {
		r.reads[p.PSN] = p.RETH
		last = p.PSN.Add(max(1, (int(p.RETH.DMALen)+r.mtu-1)/r.mtu) - 1)
	}
	for psn := p.PSN; !psn.After(last); psn = psn.Next() {
		r.asked[psn] = true
	}
	if len(r.asked) == 1 || last.After(r.highest) {
		r.highest = last
	}
}

func (r *responder) response(p *watched) error {
	if p.Opcode.Operation() == ib.OpAck {
		switch s := p.AETH.Syndrome; {
		case s.IsNAK() && s.Code() == ib.NAKPSNSequenceError:
			if p.PSN.After(r.highest.Next()) {
				return fmt.Errorf("asks for what comes after the last request, %d", r.highest)
			}
		case s.IsNAK():
			return fmt.Errorf("refuses: %v", s.Code())
		case !r.asked[p.PSN]:
			return errUnasked
		}
		return nil
	}
	// The READ that asked for it is the last that begins at or before it.
	for back := range 1 << 12 {
		first := p.PSN.Add(-back)
		reth, ok := r.reads[first]
		if !ok {
			continue
		}
		off := back * r.mtu
		n := min(r.mtu, int(reth.DMALen)-off)
		if n < 0 || len(p.Payload) != n {
			return fmt.Errorf("%d bytes for byte %d of a READ of %d", len(p.Payload), off, reth.DMALen)
		}
		if want := r.memory(reth.VA+uint64(off), n); string(p.Payload) != string(want) {
			return fmt.Errorf("other bytes than the memory's for byte %d of a READ", off)
		}
		return nil
	}
	return errUnasked
}
