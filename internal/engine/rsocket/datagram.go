// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"encoding/binary"
	"net/netip"
)

// MaxDatagram is the size of the buffers in which librdmacm receives datagrams, in bytes,
// headers included.
const MaxDatagram = 2048

// Sizes of the datagram headers, in bytes.
const (
	HeaderSize4    = 8
	HeaderSize6    = 24
	UDPHeaderSize4 = 16
	UDPHeaderSize6 = 28
)

// Header precedes the data of a datagram between two UD queue pairs (struct ds_header): the
// sender's address and UDP port.
//
//	 0        1        2        3
//	+--------+--------+--------+--------+
//	| version| length |      port       |
//	+--------+--------+--------+--------+
//	| IPv4 address; or flow information |
//	| and IPv6 address                  |
//	+--------+--------+--------+--------+
type Header struct{ From netip.AddrPort }

// Append appends the encoding to b.
func (h Header) Append(b []byte) []byte {
	a := h.From.Addr()
	version, length := byte(4), byte(HeaderSize4)
	if a.Is6() {
		version, length = 6, HeaderSize6
	}
	b = append(b, version, length)
	b = binary.BigEndian.AppendUint16(b, h.From.Port())
	if a.Is6() {
		b = append(b, 0, 0, 0, 0)
	}
	return append(b, a.AsSlice()...)
}

// Decode reads a header and returns its length, or 0 if there is none.
func (h *Header) Decode(b []byte) int {
	if len(b) < HeaderSize4 {
		return 0
	}
	port := binary.BigEndian.Uint16(b[2:])
	switch {
	case b[0] == 4 && b[1] == HeaderSize4:
		h.From = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port)
	case b[0] == 6 && b[1] == HeaderSize6 && len(b) >= HeaderSize6:
		h.From = netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), port)
	default:
		return 0
	}
	return int(b[1])
}

// UDPOp is the purpose of a UDPHeader.
type UDPOp uint8

const (
	UDPData UDPOp = 0 // data follows; the answer is UDPCtrl
	UDPCtrl UDPOp = 7 // only the queue pair number matters
)

// udpTag marks the datagrams of rsockets.
const udpTag = 0x55555555

// UDPHeader starts each datagram over the UDP sockets (struct ds_udp_header), which are used as
// long as the sender does not know the other's queue pair.
//
//	 0        1        2        3
//	+--------+--------+--------+--------+
//	|            0x55555555             |
//	+--------+--------+--------+--------+
//	| version|   op   | length |    0   |
//	+--------+--------+--------+--------+
//	|         queue pair number         |
//	+--------+--------+--------+--------+
//	| IPv4 or IPv6 address of the sender|
//	+--------+--------+--------+--------+
type UDPHeader struct {
	Op   UDPOp
	QPN  uint32 // the sender's
	Addr netip.Addr
}

// Append appends the encoding to b.
func (h UDPHeader) Append(b []byte) []byte {
	version, length := byte(4), byte(UDPHeaderSize4)
	if h.Addr.Is6() {
		version, length = 6, UDPHeaderSize6
	}
	b = binary.BigEndian.AppendUint32(b, udpTag)
	b = append(b, version, byte(h.Op), length, 0)
	b = binary.BigEndian.AppendUint32(b, h.QPN&0xffffff)
	return append(b, h.Addr.AsSlice()...)
}

// Decode reads a header and returns its length, or 0 if there is none.
func (h *UDPHeader) Decode(b []byte) int {
	if len(b) < UDPHeaderSize4 || binary.BigEndian.Uint32(b) != udpTag {
		return 0
	}
	switch {
	case b[4] == 4 && b[6] == UDPHeaderSize4:
		h.Addr = netip.AddrFrom4([4]byte(b[12:16]))
	case b[4] == 6 && b[6] == UDPHeaderSize6 && len(b) >= UDPHeaderSize6:
		h.Addr = netip.AddrFrom16([16]byte(b[12:28]))
	default:
		return 0
	}
	h.Op, h.QPN = UDPOp(b[5]), binary.BigEndian.Uint32(b[8:])&0xffffff
	return int(b[6])
}
