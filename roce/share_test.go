// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// FuzzForwarded decodes what does not come from another device.
func FuzzForwarded(f *testing.F) {
	for _, from := range []string{"127.0.0.1:4791", "[fd00::1]:1"} {
		a := netip.MustParseAddrPort(from)
		b := appendForwarded(nil, &forwarded{from: a, to: a.Addr(), id: 7, tos: 8, ttl: 9, frame: make([]byte, 20)})
		f.Add(b)
		f.Add(b[:len(b)-5])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m forwarded
		if m.decode(b) && (!bytes.Equal(appendForwarded(nil, &m), b) || len(m.frame) < ib.BTHLen+ib.ICRCLen) {
			t.Errorf("%x is not what it was decoded to: %+v", b, m)
		}
	})
}

// threeSlots is a group whose devices are in slots 0 to 2; number 1 is asked.
type threeSlots struct{ group }

func (threeSlots) Slot() int { return 1 }

func (threeSlots) Server(class uint8) int {
	if mad.Class(class) == mad.ClassPerf {
		return 2
	}
	return 0
}

func (threeSlots) Lives(slot int) bool              { return slot < 3 }
func (threeSlots) Owner(service uint64) (int, bool) { return int(service), service < 5 }

// TestAgentOf asks for the device that each message of the connection manager is for.
func TestAgentOf(t *testing.T) {
	const own, any, dead = 1, 0, 4
	for _, c := range []struct {
		attr mad.Attribute
		slot uint32 // of what the message names
		want int
	}{
		{mad.AttrREQ, 2, 2}, {mad.AttrREQ, 0, 0}, {mad.AttrREQ, dead, any}, {mad.AttrREQ, 7, any},
		{mad.AttrSIDRREQ, 2, 2}, {mad.AttrSIDRREQ, 7, any},
		{mad.AttrREP, 2, 2}, {mad.AttrRTU, 0, 0}, {mad.AttrREJ, 2, 2}, {mad.AttrMRA, 2, 2}, {mad.AttrDREQ, 2, 2}, {mad.AttrDREP, 0, 0},
		{mad.AttrLAP, 2, 2}, {mad.AttrAPR, 2, 2}, {mad.AttrRTU, dead, any}, {mad.AttrSIDRREP, 2, 2},
	} {
		h := mad.CMHeader(c.attr, 1)
		b := append(h.Append(nil), make([]byte, mad.DataLen)...)
		data := b[mad.HeaderLen:]
		switch c.attr {
		case mad.AttrREQ, mad.AttrSIDRREQ:
			binary.BigEndian.PutUint64(data[8:], uint64(c.slot))
		case mad.AttrSIDRREP:
			binary.BigEndian.PutUint32(data, c.slot<<28|77)
		default:
			binary.BigEndian.PutUint32(data[4:], c.slot<<28|77)
		}
		p := &ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: ib.QP1}, DETH: ib.DETH{QKey: ib.QKeyGSI}, Payload: b}
		if got := agentOf(threeSlots{}, p); got != c.want {
			t.Errorf("%v of slot %d: for device %d, want %d", c.attr, c.slot, got, c.want)
		}
		for _, spoil := range []func(*ib.Packet){
			func(p *ib.Packet) { p.DestQP = ib.QP0 },
			func(p *ib.Packet) { p.DETH.QKey++ },
			func(p *ib.Packet) { p.Payload = p.Payload[:verbs.MADLen-4] },
		} {
			q := *p
			if spoil(&q); agentOf(threeSlots{}, &q) != own {
				t.Errorf("%v that is none was for another", c.attr)
			}
		}
	}
}

// TestAgentOfOthers asks for the device that datagrams of other classes are for, and all answers.
func TestAgentOfOthers(t *testing.T) {
	const own, any, dead = 1, 0, 4
	for _, c := range []struct {
		class  mad.Class
		method mad.Method
		slot   uint64 // of the transaction
		want   int
	}{
		{mad.ClassPerf, mad.MethodGet, 0, 2}, {mad.ClassPerf, mad.MethodGet, dead, 2}, {0x33, mad.MethodGet, 2, any}, {mad.ClassPerf, mad.MethodSend, 1, 2},
		{mad.ClassPerf, mad.MethodGetResp, 0, 0}, {0x33, mad.MethodReportResp, 2, 2}, {0x33, mad.MethodTrapRepress, 2, 2},
		{mad.ClassPerf, mad.MethodGetResp, dead, own}, {mad.ClassCM, mad.MethodGetResp, 2, 2},
	} {
		h := mad.Header{BaseVersion: mad.BaseVersion, Class: c.class, ClassVersion: 1, Method: c.method, TID: c.slot<<60 | 5}
		p := &ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: ib.QP1}, DETH: ib.DETH{QKey: ib.QKeyGSI},
			Payload: append(h.Append(nil), make([]byte, mad.DataLen)...)}
		if got := agentOf(threeSlots{}, p); got != c.want {
			t.Errorf("class %#x, method %#x of slot %d: for device %d, want %d", c.class, c.method, c.slot, got, c.want)
		}
	}
}

// FuzzAgentOf asks whom what anybody may send is for: always one of those that live.
func FuzzAgentOf(f *testing.F) {
	h := mad.CMHeader(mad.AttrREQ, 1)
	f.Add(append(h.Append(nil), make([]byte, mad.DataLen)...))
	h.Method = mad.MethodGetResp
	f.Add(append(h.Append(nil), make([]byte, mad.DataLen)...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p := &ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: ib.QP1}, DETH: ib.DETH{QKey: ib.QKeyGSI}, Payload: b}
		if slot := agentOf(threeSlots{}, p); !(threeSlots{}).Lives(slot) {
			t.Errorf("%x is for device %d", b, slot)
		}
	})
}

// TestForwardedInTurns holds that what others forwarded is delivered in order, and not all at once.
func TestForwardedInTurns(t *testing.T) {
	from := netip.MustParseAddrPort("127.0.0.1:4791")
	var p port
	const n = 3*forwardedAtOnce + 7
	var want, got []ib.PSN
	for i := range n {
		pkt := ib.Packet{BTH: ib.BTH{Opcode: ib.RCAck, PSN: ib.PSN(i)}}
		frame := append(pkt.AppendHeader(nil), make([]byte, ib.ICRCLen)...)
		p.inbox = append(p.inbox, appendForwarded(nil, &forwarded{from: from, to: from.Addr(), frame: frame}))
		want = append(want, ib.PSN(i))
	}
	p.pending.Store(true)
	var c ibta.Counters
	for p.pending.Load() {
		before := len(got)
		count := p.takeForwarded(&c, func(pkt *ib.Packet, _ *ibta.Arrival) { got = append(got, pkt.PSN) })
		if count != len(got)-before || count > forwardedAtOnce {
			t.Fatalf("%d delivered at once, %d reported", len(got)-before, count)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d packets delivered, want %d in order", len(got), n)
	}
}
