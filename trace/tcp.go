// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// TCPFlags are the control bits of a TCP header (RFC 9293 section 3.1).
type TCPFlags uint8

// Control bits of a TCP header.
const (
	FIN TCPFlags = 1 << 0
	SYN TCPFlags = 1 << 1
	RST TCPFlags = 1 << 2
	PSH TCPFlags = 1 << 3
	ACK TCPFlags = 1 << 4
)

// TCP describes one TCP segment. A program that has a socket never sees segments. It synthesizes
// them from the bytes that it wrote and read, as [Stream] does.
type TCP struct {
	At        time.Time // between 1970 and 2262
	Src, Dst  netip.AddrPort
	Seq, Ack  uint32 // sequence numbers of the first byte, and of the next one expected
	Flags     TCPFlags
	Direction Direction // 0: unknown
	Comment   string    // shown beside the packet, at most 65,535 bytes; may be empty
}

const (
	tcpHeaderLen = 20
	tcpWindow    = 0xffff
	// tcpOptions are the options of a SYN: the largest segment size (RFC 9293 section 3.7.1), and
	// the largest window scale, 14 (RFC 7323 section 2.3), so that readers do not find the window
	// full.
	tcpOptions = "\x02\x04\xff\xff" + "\x01\x03\x03\x0e"
	segTTL     = 64
	// maxSegment is how many bytes of a stream fit in an IP packet of either family.
	maxSegment = maxLengthWord - ipv4HeaderLen - tcpHeaderLen
)

// WriteTCP records a TCP segment whose payload is the concatenation of the parts. It computes the
// checksums. A SYN announces window scaling, and the window is always the largest. For the rest see
// [Writer.WriteUDP].
func (w *Writer) WriteTCP(h *TCP, payload ...[]byte) error {
	ip, err := newIPPacket(h.Src.Addr(), h.Dst.Addr(), h.headerLen(), payload)
	if err != nil {
		return err
	}
	ip.protocol, ip.ttl, ip.dontFragment = protocolTCP, segTTL, true
	return w.write(ofIP, h.At, h.Direction, h.Comment, ip.size(), func(b []byte) []byte {
		return h.append(ip.append(b), &ip, payload)
	})
}

// headerLen is the length of the header with its options.
func (h *TCP) headerLen() int {
	if h.Flags&SYN != 0 {
		return tcpHeaderLen + len(tcpOptions)
	}
	return tcpHeaderLen
}

// append appends the segment behind its IP header (RFC 9293 section 3.1).
func (h *TCP) append(b []byte, ip *ipPacket, payload [][]byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, h.Src.Port())
	b = binary.BigEndian.AppendUint16(b, h.Dst.Port())
	b = binary.BigEndian.AppendUint32(b, h.Seq)
	b = binary.BigEndian.AppendUint32(b, h.Ack)
	b = append(b, uint8(h.headerLen()/4)<<4, uint8(h.Flags))
	b = binary.BigEndian.AppendUint16(b, tcpWindow)
	b = append(b, 0, 0, 0, 0) // checksum, urgent pointer
	if h.Flags&SYN != 0 {
		b = append(b, tcpOptions...)
	}
	for _, p := range payload {
		b = append(b, p...)
	}
	binary.BigEndian.PutUint16(b[start+16:], ip.checksum(b[start:]))
	return b
}
