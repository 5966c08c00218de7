// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"encoding/csv"
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
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
	// Nothing more is sent; packets in flight must come.
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
	if d := total(all,
		func(c *node.Counters) uint64 { return c.XmitDiscards + c.RcvErrors + c.RcvSwitchRelayErrors }); d != 0 {
		t.Errorf("%d packets dropped", d)
	}
	if total(all, func(c *node.Counters) uint64 { return c.XmitWait }) == 0 {
		t.Error("nobody had to wait")
	}
	checkIdle(t, all)
}

// crowd is an incast over a link between two switches, and a victim: a flow over the same link.
type crowd struct {
	senders int   // on switch 1, to one adapter on switch 2, with SL 0
	sl      uint8 // of the victim, between two other adapters
	still   bool  // the target of the incast takes nothing
	spec    node.Spec
	size    int        // bytes of payload
	length  clock.Time // of the incast
}

// outcome is the result of a crowd.
type outcome struct {
	victim  float64 // the victim's share of the link's data rate, headers included
	incast  float64
	sent    uint64 // packets of all senders, which all have come unless the target stands still
	dropped uint64
}

// run runs the crowd in virtual time.
func (c crowd) run(t *testing.T) (o outcome) {
	f := newFabric(t, Config{Paced: true})
	f.spec = c.spec
	trunk := c.senders + 2
	s1, s2 := f.switchNode(0x101, trunk, nil), f.switchNode(0x102, 3, nil)
	f.plug(s1.Port(trunk), s2.Port(3), 50)
	var as []*Port
	attach := func(sw *Node, num int) *Port {
		a := f.adapter(uint16(len(as)+1), nil)
		as = append(as, a)
		f.plug(a, sw.Port(num), 50)
		s1.State().Tables.Linear[len(as)], s2.State().Tables.Linear[len(as)] = uint8(trunk), 3
		sw.State().Tables.Linear[len(as)] = uint8(num)
		return a
	}
	var senders []*sender
	target, dest := attach(s2, 1), attach(s2, 2)
	for i := range c.senders {
		senders = append(senders, &sender{from: attach(s1, i+1), dlid: 1, size: c.size})
	}
	victim := &sender{from: attach(s1, c.senders+1), dlid: 2, sl: c.sl, size: c.size}
	f.run(1000)
	all := append(ports(s1, s2), as...)
	activate(all...)
	f.run(2000)
	came, taken := newSink(dest), newSink(target)
	sinks := []*sink{came}
	if !c.still {
		sinks = append(sinks, taken)
	}
	senders = append(senders, victim)
	start := f.now
	f.drive(start+c.length, senders, sinks, all)
	share := func(s *sink) float64 {
		return float64(s.bytes*8) / float64(c.length) * 1000 / float64(s1.Port(trunk).State().Link.RateMbps())
	}
	o = outcome{victim: share(came), incast: share(taken)}
	if !c.still { // packets in flight must come
		f.drive(f.now+c.length+1000*ms, nil, sinks, all)
		checkIdle(t, all)
	}
	for _, s := range senders {
		o.sent += s.sent
		got := taken.got(s.from.State().Address.LID, s.sl)
		if s == victim {
			got = came.got(s.from.State().Address.LID, s.sl)
		}
		if !c.still && got != s.sent {
			t.Errorf("%d of %d packets of LID %d came", got, s.sent, s.from.State().Address.LID)
		}
	}
	o.dropped = total(all,
		func(c *node.Counters) uint64 { return c.XmitDiscards + c.RcvErrors + c.RcvSwitchRelayErrors })
	return o
}

// crowded are the ways in which an incast meets a victim, and the victim's share of the link then.
var crowded = []struct {
	name     string
	sl       uint8
	still    bool
	from, to float64
}{
	{"own lane", 1, false, 0.48, 0.52},
	{"own lane, target stands still", 1, true, 0.95, 1},
	{"same lane", 0, false, 0, 0.1},
	{"same lane, target stands still", 0, true, 0, 0.01},
}

// TestVictim: a flow over a link that an incast has filled keeps its share on a lane of its own, and gets the
// incast's unused share if its target stands still; on the same lane it gets the rest. With -length, 64
// senders do that for so long in virtual time, over links of 1X SDR.
func TestVictim(t *testing.T) {
	c := crowd{senders: 16, spec: node.DefaultSpec, size: 2048, length: 5 * ms}
	if *length > 0 {
		c = crowd{senders: 64, spec: slow, size: 4096, length: clock.Time(*length)}
	}
	for _, w := range crowded {
		c.sl, c.still = w.sl, w.still
		o := c.run(t)
		if o.victim < w.from || o.victim > w.to {
			t.Errorf("%s: %.3f of the link, want %.2f to %.2f", w.name, o.victim, w.from, w.to)
		}
		if o.dropped != 0 {
			t.Errorf("%s: %d packets dropped", w.name, o.dropped)
		}
		t.Logf("%s: the victim has %.4f of the link, the incast %.4f; %d packets sent, %d dropped", w.name, o.victim,
			o.incast, o.sent, o.dropped)
	}
}

// slow are ports of 1X SDR, 2 Gb/s, over which a minute of virtual time is soon over.
var slow = node.Spec{Width: node.Width1x, Speed: node.SDR, MTU: 5, VLs: 8, PKeys: 32, GUIDs: 8}

var (
	length = flag.Duration("length", 0, "virtual time of TestVictim, such as 1m")
	shares = flag.String("shares", "", "file for what TestVictimShares finds, as CSV")
)

// TestVictimShares writes the victim's shares, by the number of senders: a second of virtual time each.
// Package plots draws them.
func TestVictimShares(t *testing.T) {
	if *shares == "" {
		t.Skip("give -shares FILE")
	}
	rows := [][]string{{"victim", "senders", "share"}}
	for _, w := range crowded {
		if w.sl == 0 && w.still {
			continue // it gets nothing, which the plot's axis does not have
		}
		for n := 1; n <= 64; n *= 2 {
			o := crowd{senders: n, sl: w.sl, still: w.still, spec: slow, size: 4096, length: 1000 * ms}.run(t)
			rows = append(rows, []string{w.name, strconv.Itoa(n), strconv.FormatFloat(o.victim, 'g', -1, 64)})
			t.Logf("%s, %d senders: victim %.4f, incast %.4f", w.name, n, o.victim, o.incast)
		}
	}
	var b bytes.Buffer
	if err := csv.NewWriter(&b).WriteAll(rows); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*shares, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
