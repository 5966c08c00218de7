// SPDX-License-Identifier: Apache-2.0

package mad

import (
	"encoding/binary"
	"net/netip"
)

// PortSpace is a space of port numbers of the RDMA IP CM service. Its low byte is the IP protocol
// number in a service ID (annex A11.2.2).
type PortSpace uint16

// The port spaces that librdmacm names.
const (
	PortSpaceIPoIB PortSpace = 0x0002
	PortSpaceTCP   PortSpace = 0x0106 // RC
	PortSpaceUDP   PortSpace = 0x0111 // UD
	PortSpaceIB    PortSpace = 0x013f
)

// IPService returns the service ID of a port (annex A11.2.2):
//
//	 63                                    24 23            16 15                0
//	+----------------------------------------+----------------+-------------------+
//	|             00 00 00 00 01             |  IP protocol   |       Port        |
//	+----------------------------------------+----------------+-------------------+
//
// The byte above the protocol is that of the port space: 1 for all but IPoIB.
func IPService(ps PortSpace, port uint16) ServiceID {
	return ServiceID(ps)<<16 | ServiceID(port)
}

// IPServiceMask has the bits of a service ID that name the port space. A listener with this mask
// gets all ports of the space.
const IPServiceMask ServiceID = 0xffff_ffff_ffff_0000

// PortSpace returns the port space of a service ID. The bits above the low 32 are ignored.
func (s ServiceID) PortSpace() PortSpace { return PortSpace(s >> 16) }

// Port returns the port of a service ID of the RDMA IP CM service.
func (s ServiceID) Port() uint16 { return uint16(s) }

// IPAddressLen is how many bytes of the private data of a REQ or a SIDRREQ an [IPAddress] takes.
// The program's data comes after it.
const IPAddressLen = 36

// IPAddress is the header of the RDMA IP CM service in front of the private data of a REQ and of a
// SIDRREQ: the address and port of the requester, and the address requested (annex A11.2.3).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+-------+-------+-------------------------------+
//	| Major | Minor | IPVer |  Resv |          Source port          |
//	+---------------+-------+-------+-------------------------------+
//	|              Source address (16 bytes; IPv4: the last 4)      |
//	+---------------------------------------------------------------+
//	|            Destination address (16 bytes; IPv4: the last 4)   |
//	+---------------------------------------------------------------+
type IPAddress struct {
	Version   uint8 // major and minor: 0
	IPVersion uint8 // 4 bits: 4 or 6
	Resv1     uint8 // 4 bits
	SrcPort   uint16
	Src, Dst  [16]byte
}

// NewIPAddress returns the header of a request from src to dst. Both are addresses of one family.
// An IPv4-mapped IPv6 address counts as IPv4.
func NewIPAddress(src netip.AddrPort, dst netip.Addr) IPAddress {
	h := IPAddress{IPVersion: 6, SrcPort: src.Port(), Src: src.Addr().As16(), Dst: dst.As16()}
	if dst.Unmap().Is4() {
		h.IPVersion = 4
		clear(h.Src[:12])
		clear(h.Dst[:12])
	}
	return h
}

// Valid reports whether the header is of a version that this package knows.
func (h *IPAddress) Valid() bool {
	return h.Version == 0 && (h.IPVersion == 4 || h.IPVersion == 6)
}

// SrcAddr returns the address and the port of the requester, or an invalid AddrPort if the header
// is not valid.
func (h *IPAddress) SrcAddr() netip.AddrPort { return netip.AddrPortFrom(h.addr(h.Src), h.SrcPort) }

// DstAddr returns the requested address, or the zero Addr if the header is not valid.
func (h *IPAddress) DstAddr() netip.Addr { return h.addr(h.Dst) }

func (h *IPAddress) addr(a [16]byte) netip.Addr {
	switch {
	case !h.Valid():
		return netip.Addr{}
	case h.IPVersion == 4:
		return netip.AddrFrom4([4]byte(a[12:]))
	}
	return netip.AddrFrom16(a)
}

// Decode reads the header at the start of b. It returns false if b is too short.
func (h *IPAddress) Decode(b []byte) bool {
	if len(b) < IPAddressLen {
		return false
	}
	h.Version = b[0]
	h.IPVersion, h.Resv1 = b[1]>>4, b[1]&15
	h.SrcPort = binary.BigEndian.Uint16(b[2:])
	h.Src = [16]byte(b[4:])
	h.Dst = [16]byte(b[20:])
	return true
}

// Append appends the header to b.
func (h *IPAddress) Append(b []byte) []byte {
	b = append(b, h.Version, h.IPVersion<<4|h.Resv1&15)
	b = binary.BigEndian.AppendUint16(b, h.SrcPort)
	b = append(b, h.Src[:]...)
	return append(b, h.Dst[:]...)
}
