// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"
	"net/netip"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// roce reads the RoCEv2 packets of a UDP datagram, from its header on, of whole bytes. It is one packet, or several of
// one size behind each other, and a last one that may be shorter: where the system leaves segmentation to the card
// (UDP_SEGMENT), or joins received datagrams (UDP_GRO), a capture has the datagram before it, or after.
func (d *Decoder) roce(h *ipPacket, b []byte, whole int, p *Packet) {
	flow := ib.NewPseudoHeader(netip.AddrPortFrom(h.src, p.FromPort), netip.AddrPortFrom(h.dst, p.ToPort), h.df)
	t, n := b[udpLen:], whole-udpLen
	fits := func(t []byte, id uint16) bool {
		if icrcFits(flow.Seed(udpLen+len(t), id), t) {
			return true
		}
		_, how := flow.VerifyFlushOfRxe(t, id)
		return ib.Opcode(t[0]).Info().Class == ib.ClassFlush && how != ib.NotVerified
	}
	size := n
	switch {
	case len(t) < n:
		p.Train = cutTrain(t, n)
	case n >= ib.BTHLen+ib.ICRCLen && !fits(t, h.id):
		size = segment1(t, func(t []byte) bool { return fits(t, h.id) })
	}
	id := h.id // of each, if the system does not count
	for ; len(t) > size; h.id++ {
		d.transport(t[:size], size, p, func(t []byte) bool { return fits(t, h.id) || fits(t, id) })
		t, n, p.Broken = t[size:], n-size, ""
	}
	d.transport(t, n, p, func(t []byte) bool { return fits(t, h.id) || fits(t, id) })
}

// segment1 returns the length of the first packet in t: after it the header of another one has to follow, with the
// same partition, and its ICRC must be right. If there is none it is all of t.
func segment1(t []byte, fits func([]byte) bool) int {
	const least = ib.BTHLen + ib.ICRCLen
	for n := least; n+least <= len(t); n += 4 {
		next := t[n:]
		if binary.BigEndian.Uint16(next[2:]) == binary.BigEndian.Uint16(t[2:]) && next[1]&15 == 0 &&
			ib.Opcode(next[0]).Info().Valid && fits(t[:n]) {
			return n
		}
	}
	return len(t)
}

// cutTrain reports whether the captured part of n bytes is the beginning of more than one packet, by their length.
func cutTrain(t []byte, n int) bool {
	if len(t) < ib.BTHLen {
		return false
	}
	info := ib.Opcode(t[0]).Info()
	payload := n - info.HeaderLen - ib.ICRCLen
	return payload > ib.MaxMTU+3 || info.Payload == ib.PayloadMTU && payload&(payload-1) != 0 ||
		info.Payload == ib.PayloadNone && payload > 0
}
