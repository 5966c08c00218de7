// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// Lengths of headers and their length fields' limit, in bytes (RFC 791
// section 3.1, RFC 8200 section 3).
const (
	ipv4HeaderLen = 20
	ipv6HeaderLen = 40
	maxLengthWord = 0xffff
)

const (
	protocolTCP      = 6
	protocolUDP      = 17
	ipv4DontFragment = 0x4000
)

var (
	errAddresses = errors.New("trace: source and destination are not addresses of one family")
	errPacket    = errors.New("trace: packet is no InfiniBand packet from LRH to VCRC: it is too short or too long")
	errFrame     = errors.New("trace: frame is longer than an Ethernet frame can be")
	errPayload   = errors.New("trace: payload is longer than an IP packet can be")
)

// ipPacket is the IP header of a packet, whose lengths have been checked.
type ipPacket struct {
	src, dst     netip.Addr
	protocol     uint8
	tos, ttl     uint8
	id           uint16
	dontFragment bool
	length       int // bytes behind the header
}

// newIPPacket returns the IP header between two hosts for a transport header of headerLen bytes and a payload.
// IPv4-mapped addresses are IPv4, as on the wire.
func newIPPacket(src, dst netip.Addr, headerLen int, payload [][]byte) (ipPacket, error) {
	p := ipPacket{src: src.Unmap(), dst: dst.Unmap(), length: headerLen}
	if !p.src.IsValid() || p.src.BitLen() != p.dst.BitLen() {
		return p, errAddresses
	}
	for _, part := range payload {
		p.length += len(part)
	}
	limit := maxLengthWord
	if p.src.Is4() {
		limit -= ipv4HeaderLen
	}
	if p.length > limit {
		return p, errPayload
	}
	return p, nil
}

// size is the packet's length with its header.
func (p *ipPacket) size() int {
	if p.src.Is4() {
		return ipv4HeaderLen + p.length
	}
	return ipv6HeaderLen + p.length
}

// append appends the header.
func (p *ipPacket) append(b []byte) []byte {
	if p.src.Is4() {
		return p.appendIPv4(b)
	}
	return p.appendIPv6(b)
}

// appendIPv4 appends an IPv4 header without options (RFC 791 section 3.1).
func (p *ipPacket) appendIPv4(b []byte) []byte {
	start := len(b)
	fragment := uint16(0)
	if p.dontFragment {
		fragment = ipv4DontFragment
	}
	src, dst := p.src.As4(), p.dst.As4()
	b = append(b, 4<<4|ipv4HeaderLen/4, p.tos)
	b = binary.BigEndian.AppendUint16(b, uint16(p.size()))
	b = binary.BigEndian.AppendUint16(b, p.id)
	b = binary.BigEndian.AppendUint16(b, fragment)
	b = append(b, p.ttl, p.protocol, 0, 0)
	b = append(b, src[:]...)
	b = append(b, dst[:]...)
	binary.BigEndian.PutUint16(b[start+10:], ^fold(sum(0, b[start:])))
	return b
}

// appendIPv6 appends an IPv6 header with flow label 0, which the ICRC masks
// (RFC 8200 section 3).
func (p *ipPacket) appendIPv6(b []byte) []byte {
	src, dst := p.src.As16(), p.dst.As16()
	b = binary.BigEndian.AppendUint32(b, 6<<28|uint32(p.tos)<<20)
	b = binary.BigEndian.AppendUint16(b, uint16(p.length))
	b = append(b, p.protocol, p.ttl)
	b = append(b, src[:]...)
	return append(b, dst[:]...)
}

// checksum is that of a transport header, whose checksum field is 0, and its payload. The
// pseudo-header before it has the addresses, the length and the protocol (RFC 9293 section 3.1, RFC
// 8200 section 8.1). In 32-bit words its sum is the same for both families.
func (p *ipPacket) checksum(transport []byte) uint16 {
	s := uint64(len(transport)) + uint64(p.protocol)
	if p.src.Is4() {
		src, dst := p.src.As4(), p.dst.As4()
		s = sum(sum(s, src[:]), dst[:])
	} else {
		src, dst := p.src.As16(), p.dst.As16()
		s = sum(sum(s, src[:]), dst[:])
	}
	return ^fold(sum(s, transport))
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
