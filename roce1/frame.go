// SPDX-License-Identifier: Apache-2.0

package roce1

import (
	"encoding/binary"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// EtherType is the type of frames with InfiniBand packets (annex A16).
const EtherType = 0x8915

const (
	etherLen  = 14 // destination, source, type
	headerLen = etherLen + ib.GRHLen
	leastLen  = ib.BTHLen + ib.ICRCLen
)

// mac is an Ethernet address.
type mac = [6]byte

// A frame:
//
//	+-------------+--------+------+-----+-----+------------------+---------+-----+------+
//	| destination | source | 8915 | GRH | BTH | extended headers | payload | pad | ICRC |
//	+-------------+--------+------+-----+-----+------------------+---------+-----+------+
//
// There is neither LRH nor VCRC: Ethernet has its own addresses and FCS (annex A16.4).
type frame struct {
	dst, src mac
	grh      *[ib.GRHLen]byte
	packet   []byte // from the BTH to the ICRC
}

// decode decodes a frame. It returns false if it is no InfiniBand packet, by its GRH (section 8.3). Bytes behind the
// packet are padding.
func (f *frame) decode(b []byte) bool {
	if len(b) < headerLen+leastLen || binary.BigEndian.Uint16(b[12:]) != EtherType {
		return false
	}
	f.dst, f.src = mac(b), mac(b[6:])
	f.grh = (*[ib.GRHLen]byte)(b[etherLen:])
	n := int(binary.BigEndian.Uint16(f.grh[4:]))
	if f.grh[0]>>4 != 6 || f.grh[6] != ib.GRHNextHeader || n < leastLen || n&3 != 0 || n > len(b)-headerLen {
		return false
	}
	f.packet = b[headerLen : headerLen+n : headerLen+n]
	return true
}

func (f *frame) sgid() verbs.GID { return verbs.GID(f.grh[8:]) }
func (f *frame) dgid() verbs.GID { return verbs.GID(f.grh[24:]) }

// stream is the part of the ICRC over the GRH, which packets of one length between two GIDs share.
type stream struct {
	grh   [ib.GRHLen]byte
	state uint32 // after grh
}

// newStream returns the stream of a GRH.
func newStream(grh [ib.GRHLen]byte) stream { return stream{grh, ib.ICRCGlobal(grh)} }

// seed returns the ICRC's state after the GRH of a packet of n bytes.
func (s *stream) seed(n int) uint32 {
	if int(binary.BigEndian.Uint16(s.grh[4:])) != n {
		binary.BigEndian.PutUint16(s.grh[4:], uint16(n))
		s.state = ib.ICRCGlobal(s.grh)
	}
	return s.state
}

// verify reports whether the ICRC at the end of a packet is right.
func (s *stream) verify(packet []byte) bool {
	n := len(packet) - ib.ICRCLen
	return ib.ICRCHeader(s.seed(len(packet)), packet[:n]) == binary.LittleEndian.Uint32(packet[n:])
}

// linkLocal returns the link-local GID of an Ethernet address, which has its EUI-64 (annex A16.5.1).
func linkLocal(m mac) (g verbs.GID) {
	g[0], g[1] = 0xfe, 0x80
	binary.BigEndian.PutUint64(g[8:], eui64(m))
	return g
}

// eui64 returns the modified EUI-64 of an Ethernet address (RFC 4291 appendix A).
func eui64(m mac) uint64 {
	return binary.BigEndian.Uint64([]byte{m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
}

// macOf returns the Ethernet address that a GID determines: of a multicast group, or of a link-local GID made from
// it.
func macOf(g verbs.GID) (m mac, ok bool) {
	if isGroup(g) {
		copy(m[2:], g[12:]) // as RFC 2464 section 7, for IPv4 groups too
		m[0], m[1] = 0x33, 0x33
		return m, true
	}
	m = mac{g[8] ^ 2, g[9], g[10], g[13], g[14], g[15]}
	return m, g == linkLocal(m)
}

// isGroup reports whether a GID is a multicast GID, or an IPv4 multicast address as a GID.
func isGroup(g verbs.GID) bool { return g[0] == 0xff || g.Addr().IsMulticast() }

// headers is the most that surrounds the payload of a packet in a frame: GRH, BTH, XRCETH, AtomicETH and ICRC.
const headers = ib.GRHLen + ib.BTHLen + 4 + 28 + ib.ICRCLen

// pathMTU returns the largest path MTU on a link whose frames carry mtu bytes.
func pathMTU(mtu int) verbs.MTU {
	m := verbs.MTU256
	for m < verbs.MTU4096 && (m+1).Bytes()+headers <= mtu {
		m++
	}
	return m
}
