// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Ethertypes.
const (
	typeIPv4   = 0x0800
	typeIPv6   = 0x86dd
	typeRoCEv1 = 0x8915
	typeVLAN   = 0x8100
	typeQinQ   = 0x88a8
	typeQinQ9  = 0x9100 // of old switches
)

// Header lengths of links.
const (
	ethernetLen = 14
	vlanLen     = 4
	sllLen      = 16
	sll2Len     = 20
	erfLen      = 16
	nullLen     = 4
)

// outgoing is the packet type of a Linux cooked capture that this host sent.
const outgoing = 4

// Types of ERF records.
const (
	erfEthernet    = 2
	erfInfiniBand  = 21
	erfMore        = 0x80 // an extension header follows
	erfExtension   = 8
	erfEthernetPad = 2
)

// Decode hands over the packets that a frame completes.
func (d *Decoder) Decode(f *Frame, to func(*Packet)) {
	d.Counts.Frames++
	d.Counts.Links[f.Link]++
	if len(f.Data) < f.Length {
		d.Counts.Truncated++
	}
	p := &d.packet
	*p = Packet{Frame: f.Num, At: f.At, Direction: f.Direction, Comment: f.Comment, Wire: f.Length}
	d.to = to
	before := d.Counts.Packets
	d.link(f, p)
	d.to = nil
	if d.Counts.Packets == before {
		d.Counts.Other++
	}
}

// emit hands over a packet. Its frame's bytes on the wire count for the first packet of the frame.
func (d *Decoder) emit(p *Packet) {
	d.Counts.Packets++
	d.to(p)
	p.Wire = 0
}

// link takes off the link's header. Missing is how many bytes at the end were not captured.
func (d *Decoder) link(f *Frame, p *Packet) {
	b, missing := f.Data, f.Length-len(f.Data)
	switch f.Link {
	case LinkEthernet:
		if len(b) >= ethernetLen {
			d.ethertype(binary.BigEndian.Uint16(b[12:]), b[ethernetLen:], missing, p)
		}
	case LinkSLL:
		if len(b) >= sllLen {
			cooked(p, uint8(b[1]))
			d.ethertype(binary.BigEndian.Uint16(b[14:]), b[sllLen:], missing, p)
		}
	case LinkSLL2:
		if len(b) >= sll2Len {
			cooked(p, b[10])
			d.ethertype(binary.BigEndian.Uint16(b), b[sll2Len:], missing, p)
		}
	case LinkRaw, LinkRawBSD, LinkRawOpenBSD, LinkIPv4, LinkIPv6:
		d.ip(b, missing, p)
	case LinkNull, LinkLoop:
		if len(b) >= nullLen {
			d.ip(b[nullLen:], missing, p)
		}
	case LinkERF:
		d.erf(b, p)
	case LinkInfiniBand:
		d.infiniband(b, p)
	default:
		d.Counts.Unread++
	}
}

// cooked takes the direction from a Linux cooked capture.
func cooked(p *Packet, typ uint8) {
	p.Direction = Inbound
	if typ == outgoing {
		p.Direction = Outbound
	}
}

// ethertype goes on after a link's header.
func (d *Decoder) ethertype(typ uint16, b []byte, missing int, p *Packet) {
	for tags := 0; tags < 4 && (typ == typeVLAN || typ == typeQinQ || typ == typeQinQ9) && len(b) >= vlanLen; tags++ {
		typ, b = binary.BigEndian.Uint16(b[2:]), b[vlanLen:]
	}
	switch typ {
	case typeIPv4, typeIPv6:
		d.ip(b, missing, p)
	case typeRoCEv1:
		var grh ib.GRH
		if !grh.Decode(b) || grh.NxtHdr != ib.GRHNextHeader {
			return
		}
		p.Fabric = RoCEv1
		p.From, p.To = Host{Addr: grh.SGID.Addr()}, Host{Addr: grh.DGID.Addr()}
		whole := int(grh.PayLen)
		seed := ib.ICRCGlobal([ib.GRHLen]byte(b))
		b = b[ib.GRHLen:]
		d.transport(b[:min(len(b), whole)], whole, p, func(t []byte) bool { return icrcFits(seed, t) })
	}
}

// erf reads a record of the ERF format.
func (d *Decoder) erf(b []byte, p *Packet) {
	if len(b) < erfLen {
		return
	}
	typ, length := b[8], int(binary.BigEndian.Uint16(b[14:]))
	b = b[erfLen:]
	for more := typ&erfMore != 0; more; {
		if len(b) < erfExtension {
			return
		}
		more = b[0]&erfMore != 0
		b = b[erfExtension:]
	}
	switch typ &^ erfMore {
	case erfInfiniBand:
		d.infiniband(b[:min(len(b), length)], p)
	case erfEthernet:
		if len(b) < erfEthernetPad+ethernetLen || length < ethernetLen {
			return
		}
		b = b[erfEthernetPad:]
		b = b[:min(len(b), length)]
		d.ethertype(binary.BigEndian.Uint16(b[12:]), b[ethernetLen:], max(length-len(b), 0), p)
	}
}

// infiniband reads a packet from its LRH on. A VCRC may follow it, or not.
func (d *Decoder) infiniband(b []byte, p *Packet) {
	var lrh ib.LRH
	if !lrh.Decode(b) || lrh.LNH != ib.LNHLocal && lrh.LNH != ib.LNHGlobal {
		return
	}
	p.Fabric = InfiniBand
	p.From, p.To = Host{LID: lrh.SLID}, Host{LID: lrh.DLID}
	whole := int(lrh.PktLen) * 4
	if len(b) > whole {
		b = b[:whole]
	}
	packet := b
	headers := ib.LRHLen
	if lrh.LNH == ib.LNHGlobal {
		headers += ib.GRHLen
	}
	if len(b) < headers || whole < headers {
		return
	}
	d.transport(b[headers:], whole-headers, p, func(t []byte) bool {
		sum, ok := ib.LocalICRC(packet[:len(packet)-ib.ICRCLen])
		return !ok || sum == binary.LittleEndian.Uint32(t[len(t)-ib.ICRCLen:])
	})
}

// icrcFits reports whether a packet from its BTH to its ICRC has the ICRC that continues the seed.
func icrcFits(seed uint32, t []byte) bool {
	end := len(t) - ib.ICRCLen
	return string(ib.ICRCFinish(nil, ib.ICRCHeader(seed, t[:end]))) == string(t[end:])
}

// Protocols of IP, and headers of IPv6 that come before them.
const (
	ipHopByHop    = 0
	ipTCP         = 6
	ipUDP         = 17
	ipRouting     = 43
	ipFragment    = 44
	ipDestination = 60

	ipv4Len = 20
	ipv6Len = 40
	udpLen  = 8
)

// ipPacket holds the fields of an IP header.
type ipPacket struct {
	src, dst netip.Addr
	proto    uint8
	ce, df   bool
	id       uint16
	body     []byte
	whole    int // bytes of the body on the wire
}

// ip reads an IP packet.
func (d *Decoder) ip(b []byte, missing int, p *Packet) {
	var h ipPacket
	ok := false
	switch {
	case len(b) >= ipv4Len && b[0]>>4 == 4:
		ok = d.ipv4(&h, b, missing)
	case len(b) >= ipv6Len && b[0]>>4 == 6:
		ok = d.ipv6(&h, b, missing)
	}
	if !ok {
		return
	}
	p.From, p.To, p.CE = Host{Addr: h.src}, Host{Addr: h.dst}, h.ce
	switch h.proto {
	case ipUDP:
		d.udp(&h, p)
	case ipTCP:
		d.tcp(&h, p)
	}
}

// congestion is the ECN field of a packet that met congestion.
const congestion = 3

func (d *Decoder) ipv4(h *ipPacket, b []byte, missing int) bool {
	header, length := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if length == 0 { // left to the card by segmentation offload
		length = len(b) + missing
	}
	if header < ipv4Len || len(b) < header || length < header {
		return false
	}
	flags := binary.BigEndian.Uint16(b[6:])
	if flags&0x3fff != 0 { // an offset, or more fragments
		d.Counts.Fragments++
		return false
	}
	*h = ipPacket{src: netip.AddrFrom4([4]byte(b[12:])), dst: netip.AddrFrom4([4]byte(b[16:])), proto: b[9],
		ce: b[1]&3 == congestion, df: flags&0x4000 != 0, id: binary.BigEndian.Uint16(b[4:])}
	h.body, h.whole = b[header:min(length, len(b))], length-header
	return true
}

func (d *Decoder) ipv6(h *ipPacket, b []byte, missing int) bool {
	length := int(binary.BigEndian.Uint16(b[4:]))
	if length == 0 {
		length = len(b) + missing - ipv6Len
	}
	*h = ipPacket{src: netip.AddrFrom16([16]byte(b[8:])), dst: netip.AddrFrom16([16]byte(b[24:])), proto: b[6],
		ce: b[1]>>4&3 == congestion}
	body := b[ipv6Len:]
	body = body[:min(length, len(body))]
	for range 8 {
		switch h.proto {
		case ipHopByHop, ipRouting, ipDestination:
			if len(body) < 8 || len(body) < 8+int(body[1])*8 {
				return false
			}
			n := 8 + int(body[1])*8
			h.proto = body[0]
			body, length = body[n:], length-n
		case ipFragment:
			d.Counts.Fragments++
			return false
		default:
			h.body, h.whole = body, length
			return true
		}
	}
	return false
}

// udp reads a datagram: RoCEv2 by its port.
func (d *Decoder) udp(h *ipPacket, p *Packet) {
	if len(h.body) < udpLen || binary.BigEndian.Uint16(h.body[2:]) != ib.UDPPort {
		return
	}
	p.Fabric = RoCEv2
	p.FromPort, p.ToPort = binary.BigEndian.Uint16(h.body), ib.UDPPort
	whole := int(binary.BigEndian.Uint16(h.body[4:]))
	if whole == 0 || whole > h.whole {
		whole = h.whole
	}
	if whole < udpLen {
		return
	}
	b := h.body[:min(whole, len(h.body))]
	d.roce(h, b, whole, p)
}
