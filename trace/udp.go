// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Direction says which way a packet went: the direction bits of a packet's
// flags (draft-ietf-opsawg-pcapng section 4.3.1).
type Direction uint8

// Directions of a packet, seen from the recording host.
const (
	Inbound  Direction = 1
	Outbound Direction = 2
)

// UDP describes one UDP datagram: the fields of its IP header that a socket
// chooses or learns, and what the recording says about it.
type UDP struct {
	At       time.Time // when it was sent or received; between 1970 and 2262
	Src, Dst netip.AddrPort

	// ID and DontFragment are fields of the IPv4 header (RFC 791 section 3.1)
	// that the ICRC covers; IPv6 has neither.
	ID           uint16
	DontFragment bool

	TTL uint8 // IPv4 time to live, IPv6 hop limit
	TOS uint8 // IPv4 type of service, IPv6 traffic class

	Direction Direction // 0: unknown
	Comment   string    // shown beside the packet, at most 65,535 bytes; may be empty
}

// Lengths of headers and their length fields' limit, in bytes (RFC 791
// section 3.1, RFC 8200 section 3, RFC 768).
const (
	ipv4HeaderLen = 20
	ipv6HeaderLen = 40
	udpHeaderLen  = 8
	maxLengthWord = 0xffff
)

const (
	protocolUDP      = 17
	ipv4DontFragment = 0x4000
)

var (
	errAddresses = errors.New("trace: source and destination are not addresses of one family")
	errPayload   = errors.New("trace: payload is longer than a UDP datagram can be")
	errComment   = fmt.Errorf("trace: comment is longer than %d bytes", maxOptionLen)
)

// datagram is a UDP datagram whose lengths have been checked.
type datagram struct {
	src, dst   netip.Addr
	payloadLen int
}

// newDatagram checks what h and the payload ask for. IPv4-mapped addresses are
// IPv4: that is what is on the wire.
func newDatagram(h *UDP, payload [][]byte) (datagram, error) {
	d := datagram{src: h.Src.Addr().Unmap(), dst: h.Dst.Addr().Unmap()}
	if !d.src.IsValid() || d.src.BitLen() != d.dst.BitLen() {
		return d, errAddresses
	}
	for _, p := range payload {
		d.payloadLen += len(p)
	}
	limit := maxLengthWord - udpHeaderLen
	if d.src.Is4() {
		limit -= ipv4HeaderLen
	}
	if d.payloadLen > limit {
		return d, errPayload
	}
	if len(h.Comment) > maxOptionLen {
		return d, errComment
	}
	return d, nil
}

// size is the datagram's length with its headers.
func (d datagram) size() int {
	if d.src.Is4() {
		return ipv4HeaderLen + udpHeaderLen + d.payloadLen
	}
	return ipv6HeaderLen + udpHeaderLen + d.payloadLen
}

// append appends the datagram with its headers.
func (d datagram) append(b []byte, h *UDP, payload [][]byte) []byte {
	if d.src.Is4() {
		b = d.appendIPv4(b, h)
	} else {
		b = d.appendIPv6(b, h)
	}
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, h.Src.Port())
	b = binary.BigEndian.AppendUint16(b, h.Dst.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(udpHeaderLen+d.payloadLen))
	// Over IPv4 the checksum may be left out and RoCEv2 senders do so; the
	// ICRC masks it.
	b = append(b, 0, 0)
	for _, p := range payload {
		b = append(b, p...)
	}
	if d.src.Is6() {
		binary.BigEndian.PutUint16(b[start+6:], d.checksum(b[start:]))
	}
	return b
}

// appendIPv4 appends an IPv4 header without options (RFC 791 section 3.1).
func (d datagram) appendIPv4(b []byte, h *UDP) []byte {
	start := len(b)
	fragment := uint16(0)
	if h.DontFragment {
		fragment = ipv4DontFragment
	}
	src, dst := d.src.As4(), d.dst.As4()
	b = append(b, 4<<4|ipv4HeaderLen/4, h.TOS)
	b = binary.BigEndian.AppendUint16(b, uint16(d.size()))
	b = binary.BigEndian.AppendUint16(b, h.ID)
	b = binary.BigEndian.AppendUint16(b, fragment)
	b = append(b, h.TTL, protocolUDP, 0, 0)
	b = append(b, src[:]...)
	b = append(b, dst[:]...)
	binary.BigEndian.PutUint16(b[start+10:], ^fold(sum(0, b[start:])))
	return b
}

// appendIPv6 appends an IPv6 header with flow label 0, which the ICRC masks
// (RFC 8200 section 3).
func (d datagram) appendIPv6(b []byte, h *UDP) []byte {
	src, dst := d.src.As16(), d.dst.As16()
	b = binary.BigEndian.AppendUint32(b, 6<<28|uint32(h.TOS)<<20)
	b = binary.BigEndian.AppendUint16(b, uint16(udpHeaderLen+d.payloadLen))
	b = append(b, protocolUDP, h.TTL)
	b = append(b, src[:]...)
	return append(b, dst[:]...)
}

// checksum is the UDP checksum over IPv6 of a UDP header, with 0 for its
// checksum, and payload (RFC 8200 section 8.1).
func (d datagram) checksum(udp []byte) uint16 {
	src, dst := d.src.As16(), d.dst.As16()
	s := sum(sum(0, src[:]), dst[:]) + uint64(len(udp)) + protocolUDP
	c := ^fold(sum(s, udp))
	if c == 0 { // 0 would say that there is none
		c = 0xffff
	}
	return c
}

// sum adds b to s in 32-bit words; 64 bits hold the carries of 2^32 of them. It
// is the Internet checksum before folding (RFC 1071), and b's end counts as
// padded with zeros.
func sum(s uint64, b []byte) uint64 {
	for ; len(b) >= 8; b = b[8:] {
		v := binary.BigEndian.Uint64(b)
		s += v>>32 + v&0xffffffff
	}
	var tail [8]byte
	copy(tail[:], b)
	v := binary.BigEndian.Uint64(tail[:])
	return s + v>>32 + v&0xffffffff
}

// fold adds the carries back until 16 bits are left.
func fold(s uint64) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}
