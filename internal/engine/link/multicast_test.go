// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// TestMulticast: over a tree of three switches each member of a group gets each packet once, and no other
// port does.
func TestMulticast(t *testing.T) {
	for _, cfg := range []Config{{}, {Paced: true}} {
		f := newFabric(t, cfg)
		top, left, right := f.switchNode(0x101, 4, nil), f.switchNode(0x102, 5, nil), f.switchNode(0x103, 5, nil)
		f.plug(top.Port(1), left.Port(5), 10)
		f.plug(top.Port(2), right.Port(5), 10)
		var as []*Port
		for i := range 8 {
			a := f.adapter(uint16(i+1), nil)
			as = append(as, a)
			if i < 4 {
				f.plug(a, left.Port(i+1), 10)
			} else {
				f.plug(a, right.Port(i-3), 10)
			}
		}
		all := append(ports(top, left, right), as...)
		f.run(1000)
		activate(all...)
		f.run(2000)
		const group = 0xc005
		// Members are 1, 2, 4 (left 1, 2, 4) and 6, 7 (right 2, 3).
		top.State().Tables.Multicast[5][0] = 1<<1 | 1<<2
		left.State().Tables.Multicast[5][0] = 1<<1 | 1<<2 | 1<<4 | 1<<5
		right.State().Tables.Multicast[5][0] = 1<<2 | 1<<3 | 1<<5
		var sinks []*sink
		for _, a := range as {
			sinks = append(sinks, newSink(a))
		}
		from := []*sender{{from: as[0], dlid: group, size: 2048, max: 300},
			{from: as[5], dlid: group, sl: 1, size: 512, max: 300},
			{from: as[3], dlid: group, sl: 2, size: 512, max: 300}}
		f.drive(f.now+5*ms, from, sinks, all)
		for i, s := range sinks {
			lid := i + 1
			for _, snd := range from {
				src := snd.from.State().Address.LID
				want := uint64(0)
				switch lid {
				case 1, 2, 4, 6, 7:
					want = 300
				}
				if got := s.got(src, snd.sl); got != want {
					t.Errorf("LID %d got %d packets of LID %d, want %d", lid, got, src, want)
				}
			}
		}
		if d := total(all,
			func(c *node.Counters) uint64 { return c.XmitDiscards + c.RcvErrors + c.RcvSwitchRelayErrors }); d != 0 {
			t.Errorf("%d dropped", d)
		}
		checkIdle(t, all)
		if n := left.Port(5).State().Counters; n.MulticastXmit != 600 || n.MulticastRcv != 300 || n.UnicastXmit != 0 {
			t.Errorf("counted between switches: %+v", n)
		}

		// A group without members, and then with the default port.
		f.send(as[0], f.packet(as[0], 0xc009, 3, 64, 0))
		if n := left.Port(1).State().Counters.RcvSwitchRelayErrors; n != 1 {
			t.Errorf("group without members: %d relay errors", n)
		}
		for _, s := range sinks {
			s.take(f, 10) // the sender's own copy
		}
		left.State().Tables.PrimaryMulticast, left.State().Tables.NotPrimaryMulticast = 3, node.NoRoute
		f.send(as[1], f.packet(as[1], 0xc009, 3, 64, 0))
		if n := f.came(as[2]); n != 1 {
			t.Errorf("%d came by the default port", n)
		}
		f.came(as[1])
		f.run(f.now + ms)
		checkIdle(t, all)
	}
}

// TestMulticastManyPorts has members at ports of all words of the table's masks.
func TestMulticastManyPorts(t *testing.T) {
	f := newFabric(t, Config{})
	sw := f.switchNode(0x101, 250, nil)
	var as []*Port
	for i, num := range []int{1, 63, 64, 65, 128, 200, 250} {
		a := f.adapter(uint16(i+1), nil)
		f.plug(a, sw.Port(num), 10)
		as = append(as, a)
		sw.State().Tables.Multicast[5][num/64] |= 1 << (num % 64)
	}
	all := append(ports(sw), as...)
	f.run(1000)
	activate(all...)
	f.run(2000)
	f.send(as[0], f.packet(as[0], 0xc005, 0, 64, 0))
	f.run(f.now + ms)
	for i, a := range as { // the sender has its own copy
		if n := f.came(a); n != 1 {
			t.Errorf("member %d got %d packets", i, n)
		}
	}
	checkIdle(t, all)
}
