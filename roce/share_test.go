// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// FuzzForwarded decodes bytes that do not come from another device.
func FuzzForwarded(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
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

func (threeSlots) Slot() int              { return 1 }
func (threeSlots) IsActive(slot int) bool { return slot < 3 }

// TestAgentOf holds that a response is for the device that has asked, and that a datagram for no agent is for the
// device that received it.
func TestAgentOf(t *testing.T) {
	const own, dead = 1, 4
	response := func(slot uint64) ib.Packet {
		h := mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassPerf, ClassVersion: 1, Method: mad.MethodGetResp,
			TID: slot<<60 | 5}
		return ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: ib.QP1},
			DETH:    ib.DETH{QKey: ib.QKeyGSI},
			Payload: append(h.Append(nil), make([]byte, mad.DataLen)...)}
	}
	for _, c := range []struct{ slot, want int }{{0, 0}, {own, own}, {2, 2}, {dead, own}} {
		p := response(uint64(c.slot))
		if got := agentOf(threeSlots{}, &p); got != c.want {
			t.Errorf("a response to device %d: for %d, want %d", c.slot, got, c.want)
		}
	}
	for what, spoil := range map[string]func(*ib.Packet){
		"for queue pair 0":    func(p *ib.Packet) { p.DestQP = ib.QP0 },
		"with another Q_Key":  func(p *ib.Packet) { p.DETH.QKey++ },
		"that is too short":   func(p *ib.Packet) { p.Payload = p.Payload[:umad.Len-4] },
		"that is no datagram": func(p *ib.Packet) { p.Opcode = ib.RCSendOnly },
	} {
		p := response(2)
		if spoil(&p); agentOf(threeSlots{}, &p) != own {
			t.Errorf("a response %s was for another device", what)
		}
	}
}

// TestForwardedInTurns holds that packets that others forwarded are delivered in order, and not all at once.
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
