// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
)

// model is the set of facts that must be true of a network: each packet comes once, where it was sent to, in the order
// of its flow, and, as long as no cable is pulled, at all.
type model struct {
	f        *fabric
	r        random
	adapters []*Port
	switches []*Node
	cables   []*Cable
	sent     map[uint64]uint64 // by flow
	came     map[uint64]uint64
	lossless bool
}

func (m *model) n(max int) int { return int(m.r.next() % uint64(max)) }

func flowOf(src, dst uint16, sl uint8) uint64 { return uint64(src)<<32 | uint64(dst)<<16 | uint64(sl) }

// newModel builds a random tree of switches with adapters, whose buffers, delays and pacing are random.
func newModel(t testing.TB, seed uint64) *model {
	m := &model{r: random(seed), sent: map[uint64]uint64{}, came: map[uint64]uint64{}, lossless: true}
	m.f = newFabric(t, Config{Seed: seed, Paced: m.n(2) == 0, Buffer: minBuffer + m.n(1000), SendQueue: 1 + m.n(64)})
	parent := []int{-1}
	next := map[*Node]int{}
	port := func(nd *Node) *Port { next[nd]++; return nd.Port(next[nd]) }
	up := []*Port{nil}
	down := []*Port{nil}
	for i := range 1 + m.n(6) {
		sw := m.f.switchNode(uint16(0x100+i), 20, nil)
		m.switches = append(m.switches, sw)
		if i > 0 {
			parent = append(parent, m.n(i))
			u, d := port(sw), port(m.switches[parent[i]])
			up, down = append(up, u), append(down, d)
			m.cables = append(m.cables, m.f.plug(u, d, m.delay()))
		}
	}
	home := []int{}
	for i := range 2 + m.n(8) {
		a := m.f.adapter(uint16(i+1), nil)
		m.adapters = append(m.adapters, a)
		home = append(home, m.n(len(m.switches)))
		m.cables = append(m.cables, m.f.plug(a, port(m.switches[home[i]]), m.delay()))
	}
	for i, a := range m.adapters { // the way to each adapter, from its switch outwards
		at := home[i]
		m.switches[at].State().Tables.Linear[i+1] = uint8(a.peer.num)
		known := map[int]bool{at: true}
		for len(known) < len(m.switches) {
			for s := range m.switches {
				switch {
				case known[s]:
				case s > 0 && known[parent[s]]:
					m.switches[s].State().Tables.Linear[i+1] = uint8(up[s].num)
					known[s] = true
				default:
					for c := range m.switches {
						if c > 0 && parent[c] == s && known[c] {
							m.switches[s].State().Tables.Linear[i+1] = uint8(down[c].num)
							known[s] = true
						}
					}
				}
			}
		}
	}
	m.f.run(m.f.now + ms)
	activate(m.all()...)
	for _, p := range m.all() {
		if m.n(3) == 0 {
			p.state.Lanes.High = []node.ArbEntry{{VL: uint8(m.n(8)), Weight: uint8(1 + m.n(255))}}
			p.state.Lanes.HighLimit = uint8(m.n(20))
		}
	}
	m.f.run(m.f.now + ms)
	return m
}

func (m *model) delay() clock.Time {
	if m.n(2) == 0 {
		return 0
	}
	return clock.Time(m.n(5000))
}

func (m *model) all() []*Port { return append(ports(m.switches...), m.adapters...) }

// step does something at random.
func (m *model) step() {
	f := m.f
	switch k := m.n(100); {
	case k < 50: // send
		from := m.adapters[m.n(len(m.adapters))]
		dst := uint16(m.n(len(m.adapters)) + 1)
		sl := uint8(m.n(4))
		key := flowOf(from.State().Address.LID, dst, sl)
		p := f.packet(from, dst, sl, 16+4*m.n(1020), m.sent[key])
		binary.BigEndian.PutUint64(p.Bytes()[28:], key)
		if f.net.Send(f.now, from, p) {
			m.sent[key]++
		} else {
			f.net.Release(p)
		}
	case k < 70: // take some
		m.take(m.adapters[m.n(len(m.adapters))], 1+m.n(20))
	case k < 95: // let packets move
		f.net.Run(f.now, 1+m.n(30))
	case k < 97: // let time pass
		if next := f.net.Deadline(); next != 0 {
			f.now = max(f.now, next)
		}
	default:
		if !m.lossless && k == 99 {
			m.replug(m.n(len(m.cables)))
		}
	}
	if next := f.net.Deadline(); next != 0 {
		f.now = max(f.now, next)
	}
}

// replug pulls a cable and puts it back.
func (m *model) replug(i int) {
	f := m.f
	a, b := m.cables[i].Ports()
	f.net.Pull(f.now, m.cables[i])
	checkCredits(f.tb, m.all())
	m.cables[i] = f.plug(a, b, m.delay())
	activate(a, b)
}

func (m *model) take(a *Port, max int) {
	f := m.f
	for range max {
		p := f.net.Receive(a)
		if p == nil {
			return
		}
		key, id := binary.BigEndian.Uint64(p.Bytes()[28:]), idOf(p)
		if dst := uint16(key >> 16); dst != a.State().Address.LID {
			f.tb.Fatalf("packet for LID %d came to %d", dst, a.State().Address.LID)
		}
		if id < m.came[key] || m.lossless && id != m.came[key] {
			f.tb.Fatalf("flow %#x: packet %d came after %d", key, id, m.came[key])
		}
		m.came[key] = id + 1
		f.net.Release(p)
	}
}

// TestModel runs random networks by seed.
func TestModel(t *testing.T) {
	for seed := range uint64(150) {
		m := newModel(t, seed)
		m.lossless = seed%3 != 0
		for i := range 5000 {
			m.step()
			if i%100 == 0 {
				checkCredits(t, m.all())
			}
		}
		for range 10_000 {
			m.f.run(m.f.now + ms)
			idle := true
			for _, a := range m.adapters {
				idle = idle && a.arrivals.n == 0
				m.take(a, 1<<30)
			}
			if idle {
				break
			}
		}
		if m.lossless {
			for key, n := range m.sent {
				if m.came[key] != n {
					t.Errorf("flow %#x: %d of %d came", key, m.came[key], n)
				}
			}
		}
		checkIdle(t, m.all())
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestSameSeed: a seed gives the same run again.
func TestSameSeed(t *testing.T) {
	end := func() (sum uint64, now clock.Time) {
		m := newModel(t, 6)
		if err := m.f.net.SetErrorRate(m.f.now, m.cables[0], 1e-6); err != nil {
			t.Fatal(err)
		}
		m.lossless = false
		for range 20_000 {
			m.step()
		}
		for i, p := range m.all() {
			c := &p.State().Counters
			sum += uint64(i+1) * (c.RcvPkts + 3*c.RcvData + 7*c.XmitPkts + 31*c.RcvErrors + 101*c.XmitWait)
		}
		return sum, m.f.now
	}
	sum1, now1 := end()
	sum2, now2 := end()
	if sum1 != sum2 || now1 != now2 {
		t.Errorf("%d at %d, then %d at %d", sum1, now1, sum2, now2)
	}
}

// TestTimers holds the heap against a list.
func TestTimers(t *testing.T) {
	r := random(3)
	var h timers
	all := make([]timer, 50)
	for range 100_000 {
		tm := &all[r.next()%50]
		if r.next()%3 == 0 {
			h.stop(tm)
		} else {
			h.set(tm, clock.Time(1+r.next()%1000))
		}
		first, set := (*timer)(nil), 0
		for i := range all {
			if u := &all[i]; u.when != 0 {
				set++
				if first == nil || u.before(first) {
					first = u
				}
			}
		}
		if len(h.heap) != set || set > 0 && h.heap[0] != first {
			t.Fatalf("%d in the heap, %d set", len(h.heap), set)
		}
	}
}
