// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

const ms clock.Time = 1_000_000

// TestIncast: 64 adapters send to one as fast as they can. Nothing is lost, and each gets the same share.
func TestIncast(t *testing.T) {
	f := newFabric(t, Config{Paced: true})
	sw, as := f.star(65, 100)
	all := append(ports(sw), as...)
	target := newSink(as[64])
	var senders []*sender
	for _, a := range as[:64] {
		senders = append(senders, &sender{from: a, dlid: 65, size: 2048})
	}
	start := f.now
	f.drive(start+10*ms, senders, []*sink{target}, all)
	// Nothing more is sent; what is under way must come.
	f.drive(start+200*ms, nil, []*sink{target}, all)
	least, most := uint64(1<<62), uint64(0)
	for _, s := range senders {
		got := target.got(s.from.State().Address.LID, 0)
		if got != s.sent {
			t.Errorf("%d of %d packets of LID %d came", got, s.sent, s.from.State().Address.LID)
		}
		least, most = min(least, got), max(most, got)
	}
	if least*10 < most*9 {
		t.Errorf("shares between %d and %d packets", least, most)
	}
	if d := total(all, func(c *node.Counters) uint64 { return c.XmitDiscards + c.RcvErrors + c.RcvSwitchRelayErrors }); d != 0 {
		t.Errorf("%d packets dropped", d)
	}
	if total(all, func(c *node.Counters) uint64 { return c.XmitWait }) == 0 {
		t.Error("nobody had to wait")
	}
	checkIdle(t, all)
}

// twoSwitches is an incast over a link between two switches, and a victim flow over the same link: 16
// adapters on switch 1 send to LID 17 on switch 2 with SL 0; LID 18 on switch 1 sends to LID 19 on
// switch 2 with the SL given.
func twoSwitches(t *testing.T, victimSL uint8, congested bool) (share float64) {
	f := newFabric(t, Config{Paced: true})
	s1, s2 := f.switchNode(0x101, 18, nil), f.switchNode(0x102, 3, nil)
	f.plug(s1.Port(18), s2.Port(3), 50)
	var as []*Port
	for i := range 19 {
		a := f.adapter(uint16(i+1), nil)
		as = append(as, a)
		lid := i + 1
		switch lid {
		case 17, 19: // on switch 2, ports 1 and 2
			num := (lid - 15) / 2
			f.plug(a, s2.Port(num), 50)
			s1.State().Tables.Linear[lid] = 18
			s2.State().Tables.Linear[lid] = uint8(num)
		default:
			num := min(lid, 17)
			f.plug(a, s1.Port(num), 50)
			s1.State().Tables.Linear[lid] = uint8(num)
			s2.State().Tables.Linear[lid] = 3
		}
	}
	f.run(1000)
	all := append(ports(s1, s2), as...)
	activate(all...)
	f.run(2000)
	var senders []*sender
	for _, a := range as[:16] {
		senders = append(senders, &sender{from: a, dlid: 17, sl: 0, size: 2048})
	}
	victim := &sender{from: as[17], dlid: 19, sl: victimSL, size: 2048}
	sinks := []*sink{newSink(as[18])}
	if !congested {
		sinks = append(sinks, newSink(as[16])) // otherwise LID 17 takes nothing
	}
	start := f.now
	f.drive(start+5*ms, append(senders, victim), sinks, all)
	if d := total(all, func(c *node.Counters) uint64 { return c.XmitDiscards + c.RcvErrors }); d != 0 {
		t.Errorf("%d packets dropped", d)
	}
	rate := float64(sinks[0].bytes*8) / float64(f.now-start) * 1000 // Mb/s
	return rate / float64(s1.Port(18).State().Link.RateMbps())
}

// TestVictim: a flow over a link that an incast has filled keeps its share on a lane of its own, and what
// the incast does not use if its target stands still; on the same lane it gets what is left.
func TestVictim(t *testing.T) {
	for _, c := range []struct {
		name      string
		sl        uint8
		congested bool
		from, to  float64
	}{
		{"own lane", 1, false, 0.48, 0.52},
		{"own lane, target stands still", 1, true, 0.95, 1},
		{"same lane", 0, false, 0, 0.1},
		{"same lane, target stands still", 0, true, 0, 0.01},
	} {
		if got := twoSwitches(t, c.sl, c.congested); got < c.from || got > c.to {
			t.Errorf("%s: %.3f of the link, want %.2f to %.2f", c.name, got, c.from, c.to)
		} else {
			t.Logf("%s: %.3f of the link", c.name, got)
		}
	}
}
