// SPDX-License-Identifier: Apache-2.0

package ib

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/wire/crc"
)

// ICRCLen is the length of the invariant CRC at the end of every packet.
const ICRCLen = 4

// UDPPort is the UDP destination port of RoCEv2 (annex A17).
const UDPPort = 4791

// The invariant CRC (section 7.8.1, annex A17) is the CRC-32 of Ethernet over everything that no
// switch or router may change. The fields that they may change are replaced by ones. For RoCEv2 over
// IPv4 that is, with "#" for ones:
//
//	+-------------------------------+
//	|  8 bytes of ones for the LRH  |
//	+-------+-------+---------------+
//	| 4 | 5 |# TOS #| total length  |  IPv4 header
//	+-------+-------+---------------+
//	|      id       | flags, offset |
//	+-------+-------+---------------+
//	|# TTL #|  17   |## checksum ###|
//	+-------+-------+---------------+
//	|        source address         |
//	+-------------------------------+
//	|      destination address      |
//	+---------------+---------------+
//	|  source port  |  dest. port   |  UDP header
//	+---------------+---------------+
//	|    length     |## checksum ###|
//	+---------------+---------------+
//	| BTH, its byte 4 as ones       |
//	| extended headers, payload, pad|
//	+-------------------------------+
//
// Over IPv6 the IP header's traffic class, flow label and hop limit are ones,
// and there is no identification. The CRC is stored least significant byte
// first.
//
// A CRC is affine over GF(2): the CRC of the difference of two equally long messages is, up to the
// constant for that length, the difference of their CRCs. In the fixed number of bytes before the
// BTH, only the two lengths and the identification differ between the packets of a flow. So the
// state after them is that of the flow with these fields zero, XORed with one table entry for each
// of their bytes.
//
// A state is a value that hash/crc32 returns, and takes to continue.

// Lengths of the headers before the BTH, including the eight bytes of ones, and the offsets of the
// fields that differ from packet to packet.
const (
	ipv4Len       = 20
	udpLen        = 8
	ipv4PseudoLen = 8 + ipv4Len + udpLen
	ipv6PseudoLen = 8 + GRHLen + udpLen

	ipv4TotalLenAt   = 8 + 2
	ipv4IDAt         = 8 + 4
	ipv4UDPLenAt     = 8 + ipv4Len + 4
	ipv6PayloadLenAt = 8 + 4
	ipv6UDPLenAt     = 8 + GRHLen + 4
)

const (
	ipv4DontFragment = 0x40 // in byte 6
	protocolUDP      = 17
)

// be16Table is the contribution of a 16-bit field to the state after the pseudo header: row 0 for
// its first byte, row 1 for its second.
type be16Table [2][256]uint32

func (t *be16Table) of(v uint16) uint32 { return t[0][v>>8] ^ t[1][v&0xff] }

// contribution returns the table of a field in a message of n bytes that has
// the field at each of the given offsets.
func contribution(n int, at ...int) *be16Table {
	msg := make([]byte, n)
	zero := crc32.ChecksumIEEE(msg)
	t := new(be16Table)
	for row := range t {
		for v := range t[row] {
			for _, a := range at {
				msg[a+row] = byte(v)
			}
			t[row][v] = crc32.ChecksumIEEE(msg) ^ zero
		}
		for _, a := range at {
			msg[a+row] = 0
		}
	}
	return t
}

// fieldTables are the contributions of the fields that differ, to the state at some number of bytes
// after the pseudo header.
type fieldTables struct {
	ipv4Len, ipv4UDP, ipv4ID *be16Table
	ipv6Len                  *be16Table // the UDP length occurs twice: also as the payload length
}

func newFieldTables(behind int) *fieldTables {
	n4, n6 := ipv4PseudoLen+behind, ipv6PseudoLen+behind
	return &fieldTables{
		ipv4Len: contribution(n4, ipv4TotalLenAt),
		ipv4UDP: contribution(n4, ipv4UDPLenAt),
		ipv4ID:  contribution(n4, ipv4IDAt),
		ipv6Len: contribution(n6, ipv6PayloadLenAt, ipv6UDPLenAt),
	}
}

var (
	fieldsAtBTH    = newFieldTables(0)
	fieldsAfterBTH = newFieldTables(BTHLen)
	// bthWords are the contributions of the six 16-bit words of a BTH to the state after it.
	bthWords = func() (t [BTHLen / 2]*be16Table) {
		for i := range t {
			t[i] = contribution(ipv4PseudoLen+BTHLen, ipv4PseudoLen+2*i)
		}
		return t
	}()
)

// PseudoHeader is the part of the ICRC that one direction between two UDP endpoints has in common. It is constant
// once created, twelve bytes large, and may be shared and copied.
type PseudoHeader struct {
	base  uint32 // state after the pseudo header with lengths and identification zero
	after uint32 // and after a BTH of zeroes behind it, its byte 4 as ones
	ipv6  bool
}

// NewPseudoHeader returns the pseudo header of packets from src to dst, two addresses of one
// family (IPv4-mapped ones count as IPv4). df is the don't-fragment flag of its
// IPv4 packets: the ICRC covers it and a receiving socket does not show it.
// Linux rxe sets it, and so does a UDP socket with IP_MTU_DISCOVER at DO.
func NewPseudoHeader(src, dst netip.AddrPort, df bool) PseudoHeader {
	var b [ipv6PseudoLen]byte
	copy(b[:8], "\xff\xff\xff\xff\xff\xff\xff\xff")
	ip, udp := b[8:8+ipv4Len], b[8+ipv4Len:ipv4PseudoLen]
	s, d := src.Addr().Unmap(), dst.Addr().Unmap()
	v6 := !s.Is4() || !d.Is4()
	if v6 {
		ip, udp = b[8:8+GRHLen], b[8+GRHLen:]
		binary.BigEndian.PutUint32(ip, 0x6fff_ffff)
		ip[6], ip[7] = protocolUDP, 0xff
		s16, d16 := s.As16(), d.As16()
		copy(ip[8:], s16[:])
		copy(ip[24:], d16[:])
	} else {
		ip[0], ip[1] = 0x45, 0xff
		if df {
			ip[6] = ipv4DontFragment
		}
		ip[8], ip[9] = 0xff, protocolUDP
		ip[10], ip[11] = 0xff, 0xff
		s4, d4 := s.As4(), d.As4()
		copy(ip[12:], s4[:])
		copy(ip[16:], d4[:])
	}
	binary.BigEndian.PutUint16(udp, src.Port())
	binary.BigEndian.PutUint16(udp[2:], dst.Port())
	udp[6], udp[7] = 0xff, 0xff
	base := crcIEEE(crcInit, b[:8+len(ip)+len(udp)])
	var bth [BTHLen]byte
	return PseudoHeader{base: base, after: ICRCHeader(base, bth[:]), ipv6: v6}
}

// Seed returns the ICRC's state after the IP and UDP headers of a packet with the given UDP length
// (8 bytes of UDP header, BTH to ICRC included) and IPv4 identification, which IPv6 ignores. The
// segments of one GSO send differ only in id: 0, 1, 2, and so on.
func (f *PseudoHeader) Seed(udpLength int, id uint16) uint32 {
	return f.base ^ f.fields(fieldsAtBTH, udpLength, id)
}

func (f *PseudoHeader) fields(t *fieldTables, udpLength int, id uint16) uint32 {
	n := uint16(udpLength)
	if f.ipv6 {
		return t.ipv6Len.of(n)
	}
	return t.ipv4Len.of(n+ipv4Len) ^ t.ipv4UDP.of(n) ^ t.ipv4ID.of(id)
}

// AfterBTH returns the state after the BTH of such a packet, for [ICRCUpdate] over the rest. It
// is [PseudoHeader.Seed] and [ICRCHeader] in one, without processing the twelve bytes one after the other.
func (f *PseudoHeader) AfterBTH(udpLength int, id uint16, bth []byte) uint32 {
	_ = bth[BTHLen-1]
	w := &bthWords
	return f.after ^ f.fields(fieldsAfterBTH, udpLength, id) ^
		w[0][0][bth[0]] ^ w[0][1][bth[1]] ^ w[1][0][bth[2]] ^ w[1][1][bth[3]] ^
		w[2][1][bth[5]] ^ w[3][0][bth[6]] ^ w[3][1][bth[7]] ^ // byte 4 counts as ones
		w[4][0][bth[8]] ^ w[4][1][bth[9]] ^ w[5][0][bth[10]] ^ w[5][1][bth[11]]
}

// ICRCHeader continues from the seed over a packet's transport headers, which start with the BTH,
// or over a contiguous packet that does. It takes byte 4 of the BTH as ones. It returns the state
// for [ICRCUpdate].
func ICRCHeader(seed uint32, header []byte) uint32 {
	return crc.UpdateIEEE(seed^maskByte4[header[4]], header)
}

// ICRCUpdate continues over the payload or the pad.
func ICRCUpdate(state uint32, data []byte) uint32 {
	return crc.UpdateIEEE(state, data)
}

// ICRCCopy copies src to dst, which has the same length, and continues over the stored bytes, even
// if src changes meanwhile. dst may be src.
func ICRCCopy(state uint32, dst, src []byte) uint32 {
	return crc.CopyIEEE(state, dst, src)
}

// ICRCFinish appends the ICRC, which is the final state, to b.
func ICRCFinish(b []byte, state uint32) []byte {
	return binary.LittleEndian.AppendUint32(b, state)
}

// AppendICRC appends the ICRC of the packet that starts with its BTH at b[start] and fills the rest
// of b.
func AppendICRC(b []byte, start int, seed uint32) []byte {
	return ICRCFinish(b, ICRCHeader(seed, b[start:]))
}

// maskByte4 is, for each value of a message's byte 4, the change of the state before the message
// that makes the state after it as if the byte had been ones. A difference v of byte 4 enters the
// CRC when 32 bits have passed through it, so it is a difference of v·x^-32 before them. So the
// packet does not have to be modified.
var maskByte4 = func() (t [256]uint32) {
	for v := range t {
		t[v] = divX(uint32(v)^0xff, 32)
	}
	return t
}()
