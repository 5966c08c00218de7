// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
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

// UDP describes one UDP datagram: the fields of its IP header that a socket chooses or learns, and
// the recording's notes about it.
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

// udpHeaderLen is the length of a UDP header (RFC 768).
const udpHeaderLen = 8

// WriteUDP records a UDP datagram whose payload is the concatenation of the parts: for RoCEv2 the
// BTH up to and including the ICRC. Headers come from h. The IPv4 header checksum and, over IPv6,
// the UDP checksum are computed. The caller may reuse the parts on return.
//
// A packet that finds the backlog full is dropped. That is not an error; [Writer.Dropped] counts
// it. An error says that h or the payload cannot be recorded, that the Writer is closed
// (fs.ErrClosed), or that the io.Writer failed earlier.
func (w *Writer) WriteUDP(h *UDP, payload ...[]byte) error {
	ip, err := newIPPacket(h.Src.Addr(), h.Dst.Addr(), udpHeaderLen, payload)
	if err != nil {
		return err
	}
	ip.protocol, ip.tos, ip.ttl, ip.id, ip.dontFragment = protocolUDP, h.TOS, h.TTL, h.ID, h.DontFragment
	return w.write(ofIP, h.At, h.Direction, h.Comment, ip.size(), func(b []byte) []byte {
		return h.append(ip.append(b), &ip, payload)
	})
}

// append appends the datagram behind its IP header.
func (h *UDP) append(b []byte, ip *ipPacket, payload [][]byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, h.Src.Port())
	b = binary.BigEndian.AppendUint16(b, h.Dst.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(ip.length))
	// Over IPv4 the checksum may be omitted, and RoCEv2 senders do so. The ICRC masks it.
	b = append(b, 0, 0)
	for _, p := range payload {
		b = append(b, p...)
	}
	if ip.src.Is6() {
		c := ip.checksum(b[start:])
		if c == 0 { // 0 would mean that there is none
			c = 0xffff
		}
		binary.BigEndian.PutUint16(b[start+6:], c)
	}
	return b
}
