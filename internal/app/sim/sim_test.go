// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// wires are links of 100 Gb/s and 1 µs.
var wires = Wires{Rate: 100e9, Delay: Microsecond}

// config is a configuration with a congestion control.
func config(t testing.TB, cc string) Config {
	t.Helper()
	c := DefaultConfig()
	var err error
	if c.Host.Congestion, err = congestion.ParseSimulated(cc); err != nil {
		t.Fatal(err)
	}
	return c
}

// runAll runs a simulation to its end, and holds that all flows have ended well.
func runAll(t testing.TB, c Config, top *Topology, flows []Flow) *Sim {
	t.Helper()
	s, err := New(c, top, flows)
	if err != nil {
		t.Fatal(err)
	}
	if more, err := s.Run(1 << 30); more || err != nil {
		t.Fatal(more, err)
	}
	for _, f := range s.Flows() {
		if f.End == 0 || f.Status != verbs.StatusSuccess {
			t.Fatalf("flow from %d to %d: ended at %v, %v", f.Src, f.Dst, f.End.Duration(), f.Status)
		}
	}
	return s
}

// A flow alone takes its ideal time, with each operation and size, with payload and without.
func TestAlone(t *testing.T) {
	for _, payload := range []bool{false, true} {
		for _, op := range []verbs.SendOp{verbs.OpWrite, verbs.OpSend, verbs.OpRead} {
			for _, size := range []int64{0, 1, 1000, 1024, 1025, 100_001, 5 << 20} {
				c := config(t, "window")
				c.Payload = payload
				s := runAll(t, c, LeafSpine(2, 2, 2, wires),
					[]Flow{{Src: 0, Dst: 3, Size: size, Op: op, Start: Microsecond}})
				f := s.Flows()[0]
				if slow := f.Slowdown(); slow < 0.99 || slow > 1.05 {
					t.Errorf("%v of %d bytes, payload %v: %v, ideal %v: slowdown %.3f", op, size, payload,
						time.Duration((f.End-f.Start)/Nanosecond), f.Ideal.Duration(), slow)
				}
				if payload && s.Compared != size {
					t.Errorf("%v: %d bytes were compared, want %d", op, s.Compared, size)
				}
			}
		}
	}
}

// incast returns flows of n hosts to the last.
func incast(n int, size int64, op verbs.SendOp) []Flow {
	var flows []Flow
	for i := range n {
		flows = append(flows, Flow{Src: int32(i), Dst: int32(n), Size: size, Op: op})
	}
	return flows
}

// Flows that meet at one link share it: with every control, operation and kind of switch all bytes arrive, and the link
// is busy. Without PFC a buffer that is too small drops packets, which are sent again.
func TestIncast(t *testing.T) {
	const senders, size = 8, 1 << 20
	for _, cc := range []string{"window", "dcqcn", "swift,base_target=20", "hpcc"} {
		for _, op := range []verbs.SendOp{verbs.OpWrite, verbs.OpSend, verbs.OpRead} {
			for _, pfc := range []bool{true, false} {
				c := config(t, cc)
				c.Payload, c.Switch.PFC, c.Switch.Buffer = true, pfc, 2<<20
				s := runAll(t, c, Star(senders+1, wires), incast(senders, size, op))
				link := s.hosts[senders].port.peer
				if s.Compared != senders*size || s.Strays > 0 && pfc {
					t.Errorf("%v, %v, PFC %v: %d bytes were compared, want %d; %d strays", cc, op, pfc, s.Compared,
						senders*size, s.Strays)
				}
				if pfc && (link.Stats.Dropped > 0 || s.Counts.Retransmitted > 0) {
					t.Errorf("%v, %v: %d packets dropped, %d sent again, in spite of PFC", cc, op, link.Stats.Dropped,
						s.Counts.Retransmitted)
				}
				if !pfc && cc == "window" && (link.Stats.Dropped == 0 || s.Counts.Retransmitted == 0) {
					t.Errorf("%v, %v: nothing was dropped and sent again, without PFC", cc, op)
				}
				for _, w := range s.switches {
					held := 0
					for _, p := range w.ports {
						held += p.held + p.headroom
					}
					if w.used != 0 && s.Strays == 0 && held != w.used {
						t.Errorf("%v, %v, PFC %v: the switch counts %d bytes, its ports %d", cc, op, pfc, w.used, held)
					}
				}
			}
		}
	}
}

// Errors on links are repaired, and counted.
func TestLoss(t *testing.T) {
	lossy := wires
	lossy.Loss = 0.001
	for _, op := range []verbs.SendOp{verbs.OpWrite, verbs.OpSend, verbs.OpRead} {
		c := config(t, "window")
		c.Payload = true
		s := runAll(t, c, LeafSpine(2, 2, 2, lossy), []Flow{{Src: 0, Dst: 3, Size: 8 << 20, Op: op}})
		var corrupt uint64
		for _, l := range s.Results().Links {
			corrupt += l.Corrupt
		}
		if corrupt == 0 || s.Counts.Retransmitted == 0 || s.Compared != 8<<20 {
			t.Errorf("%v: %d packets were corrupted, %d sent again, %d bytes compared", op, corrupt,
				s.Counts.Retransmitted, s.Compared)
		}
	}
}

// A target with fewer receives than messages has senders wait, but not for ever: each message finds a receive.
func TestFewReceives(t *testing.T) {
	c := config(t, "window")
	c.Host.Receives, c.Message, c.Payload = 1, 8192, true
	s := runAll(t, c, Star(2, wires), []Flow{{Src: 0, Dst: 1, Size: 1 << 20, Op: verbs.OpSend}})
	if s.Compared != 1<<20 {
		t.Errorf("%d bytes were compared", s.Compared)
	}
}

// PFC spreads: a flow that shares only a link between switches with an incast is slowed down, though its own way is
// free. DCQCN gives it back what PFC takes.
func TestVictim(t *testing.T) {
	slow := map[string]float64{}
	for _, cc := range []string{"window", "dcqcn"} {
		c := config(t, cc)
		c.Host.Window = 16 << 20
		c.Switch.Buffer, c.Switch.ECN = 2<<20, ECN{KMin: 20e3, KMax: 200e3, PMax: 0.1}
		// Hosts 0 to 7 are at one switch, 8 to 15 at the other. Seven send to host 8, and host 7 to host 9.
		var flows []Flow
		for i := range int32(7) {
			flows = append(flows, Flow{Src: i, Dst: 8, Size: 8 << 20, Op: verbs.OpWrite})
		}
		flows = append(flows, Flow{Src: 7, Dst: 9, Size: 2 << 20, Op: verbs.OpWrite, Start: Millisecond})
		w := wires
		w.Uplink = 400e9
		s := runAll(t, c, Dumbbell(8, w), flows)
		victim := s.Flows()[7]
		slow[cc] = victim.Slowdown()
		if between := s.switches[0].ports[8]; cc == "window" && between.Stats.Pauses == 0 {
			t.Error("the link between the switches was never paused")
		}
	}
	t.Logf("slowdown of the victim: %.2f with a window, %.2f with DCQCN", slow["window"], slow["dcqcn"])
	if slow["window"] < 2 || slow["dcqcn"] > slow["window"]/1.5 {
		t.Errorf("slowdown of the victim: %v", slow)
	}
}

// A link of 10 Mb/s behind hosts of 1 Gb/s, with a round trip of 16 ms: with parameters for such a path a few flows
// keep it busy, and its queue short. docs/congestion.md measures the same with Linux as the router.
func TestSlowLink(t *testing.T) {
	const dcqcn = "dcqcn,clamp_tgt_rate=0,rpg_max_rate=40,rpg_min_rate=0.1,rpg_ai_rate=0.1,rpg_hai_rate=1,rpg_time_reset=55000,dce_tcp_rtt=55000,min_time_between_cnps=50000"
	for _, cc := range []string{dcqcn, "swift,base_target=40000,fs_range=10000"} {
		for _, n := range []int{1, 2, 4} {
			c := config(t, cc)
			c.Host.Timeout, c.Until = 16, 9*1000*Millisecond
			c.Switch.PFC, c.Switch.Buffer = false, 2_700_000 // an eighth of the free room: 300 KB
			c.Switch.ECN = ECN{KMin: 20_000, KMax: 60_000, PMax: 0.1}
			var flows []Flow
			for range n {
				flows = append(flows, Flow{Dst: 1, Size: 100 << 20, Op: verbs.OpWrite})
			}
			s, err := New(c, Dumbbell(1, Wires{Rate: 1e9, Uplink: 10e6, Delay: 2600 * Microsecond}), flows)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Run(1 << 30); err != nil {
				t.Fatal(err)
			}
			link := s.switches[0].ports[1]
			busy, queue := float64(link.Stats.Busy)/float64(c.Until), link.Stats.area/float64(c.Until)
			t.Logf("%d flows, %.5s: link %.3f, queue %.0f bytes in the mean, %d at most", n, cc, busy, queue,
				link.Stats.MaxQueue)
			if busy < 0.95 || queue > 60_000 {
				t.Errorf("%d flows with %s: the link was busy %.3f of the time, want 0.95; the queue had %.0f bytes in the mean, want 60,000 at most", n, cc, busy, queue)
			}
		}
	}
}

// The same link without marks, and room for less than a send of the window: it fills the queue, yet no queue pair is
// given up.
func TestSlowLinkDrops(t *testing.T) {
	for _, p := range []struct {
		buffer int // nine times the longest queue
		delay  Time
		flows  int
	}{{200_000, 200 * Microsecond, 4}, {250_000, 500 * Microsecond, 2}, {324_000, 500 * Microsecond, 4}} {
		c := config(t, "window")
		c.Until = 30 * 1000 * Millisecond
		c.Switch.PFC, c.Switch.Buffer, c.Switch.ECN = false, p.buffer, ECN{}
		var flows []Flow
		for range p.flows {
			flows = append(flows, Flow{Dst: 1, Size: 100 << 20, Op: verbs.OpWrite})
		}
		s, err := New(c, Dumbbell(1, Wires{Rate: 1e9, Uplink: 10e6, Delay: p.delay}), flows)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Run(1 << 30); err != nil {
			t.Fatal(err)
		}
		if s.switches[0].ports[1].Stats.Dropped == 0 {
			t.Error("nothing was dropped: this is no short queue")
		}
		for i, f := range s.Flows() {
			if f.End != 0 {
				t.Errorf("%+v, flow %d: %v after %v", p, i, f.Status, f.End.Duration())
			}
		}
	}
}

// slowLink runs the window over a link behind hosts of 1 Gb/s. It returns the share of the link that arrives after the
// first second, and the share of packets that were sent again.
func slowLink(t *testing.T, rate float64, rtt Time, queue int, until Time) (goodput, again float64) {
	c := config(t, "window")
	c.Until, c.Message = until, 64<<10
	c.Switch.PFC, c.Switch.Buffer, c.Switch.ECN = false, 9*1150*queue, ECN{} // an eighth of the free room
	s, err := New(c, Dumbbell(1, Wires{Rate: 1e9, Uplink: rate, Delay: rtt / 6}),
		[]Flow{{Dst: 1, Size: 1 << 33, Op: verbs.OpWrite}})
	if err != nil {
		t.Fatal(err)
	}
	arrived := func() (bytes uint64) {
		for r := range s.running {
			bytes += r.other.Counts.RecvBytes
		}
		return bytes
	}
	for s.now < Second {
		if _, err := s.Run(1); err != nil {
			t.Fatal(err)
		}
	}
	start, before := s.now, arrived()
	if _, err := s.Run(1 << 30); err != nil {
		t.Fatal(err)
	}
	n := s.Results().Transport
	const most = 1024. / (1024 + 66 + 16) // payload of a packet's bytes on the link
	return float64(arrived()-before) * 8 / (s.now - start).Seconds() / (rate * most),
		float64(n.Retransmitted) / float64(n.SentPackets)
}

// The window keeps a slow link busy, and sends little again, if a queue holds a few sends. If the path holds far more
// than the queue it does not (decision 5).
func TestSlowLinkGoodput(t *testing.T) {
	for _, rate := range []float64{1e6, 10e6, 100e6} {
		for _, rtt := range []Time{Millisecond, 8 * Millisecond, 16 * Millisecond, 40 * Millisecond} {
			for _, queue := range []int{64, 256} {
				if rate*rtt.Seconds() > float64(queue)*1150*8 {
					continue
				}
				until := 5 * Second
				if rate < 5e6 {
					until = 20 * Second
				}
				least := 0.9
				if rate > 50e6 {
					least = 0.85 // 64 packets leave in 6 ms
				}
				goodput, again := slowLink(t, rate, rtt, queue, until)
				t.Logf("%3.0f Mb/s, %v, %3d packets: goodput %.3f, again %.3f", rate/1e6, rtt.Duration(), queue,
					goodput, again)
				if goodput < least || again > 0.2 {
					t.Errorf("%.0f Mb/s, %v, %d packets: goodput %.3f, want %.2f or more; again %.3f, want 0.2 at most",
						rate/1e6, rtt.Duration(), queue, goodput, least, again)
				}
			}
		}
	}
}

// The same seed leads to the same results, and another to others.
func TestSeed(t *testing.T) {
	of := func(seed uint64) string {
		c := config(t, "dcqcn")
		c.Seed, c.Trace = seed, 100*Microsecond
		r := rand.New(rand.NewPCG(seed, 1))
		load := Load{Op: verbs.OpWrite, Sizes: Distributions[1]}
		s := runAll(t, c, LeafSpine(4, 2, 4, wires), load.Poisson(r, 16, 0.5, 100e9, Millisecond/2))
		text, err := json.Marshal(struct {
			*Results
			Flows []Flow
		}{s.Results(), s.Flows()})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	one := of(1)
	if one != of(1) {
		t.Error("the same seed led to another result")
	}
	if one == of(2) {
		t.Error("another seed led to the same result")
	}
}

// Every host reaches every other in all topologies, by as many paths as there are.
func TestTopologies(t *testing.T) {
	for name, top := range map[string]*Topology{"star": Star(4, wires), "dumbbell": Dumbbell(2, wires),
		"leaf-spine": LeafSpine(3, 2, 2, wires), "fat tree": FatTree(4, wires)} {
		load := Load{Op: verbs.OpWrite, Size: 3000}
		r := rand.New(rand.NewPCG(1, 1))
		s := runAll(t, config(t, "window"), top, load.AllToAll(r, top.Hosts))
		if s.Ended != top.Hosts*(top.Hosts-1) {
			t.Errorf("%s: %d flows ended", name, s.Ended)
		}
	}
	s, err := New(config(t, "window"), FatTree(4, wires), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.hosts) != 16 || len(s.switches) != 20 || len(s.edges) != 8 {
		t.Errorf("a fat tree of 4 ports has %d hosts, %d switches, %d edges", len(s.hosts), len(s.switches),
			len(s.edges))
	}
	if up := s.edges[0].routes[7]; len(up) != 2 {
		t.Errorf("an edge has %d ways to another pod", len(up))
	}
}

// Packets that take different paths arrive out of order, and all bytes do.
func TestSpray(t *testing.T) {
	for _, spray := range []bool{true, false} {
		c := config(t, "window")
		c.Switch.Spray, c.Payload = spray, true
		s := runAll(t, c, LeafSpine(2, 4, 2, wires), []Flow{{Src: 0, Dst: 3, Size: 4 << 20, Op: verbs.OpWrite}})
		used := 0
		for _, p := range s.switches[0].ports[2:] {
			if p.Stats.Packets > 0 {
				used++
			}
		}
		if s.Compared != 4<<20 || spray && used != 4 || !spray && used != 1 {
			t.Errorf("spray %v: %d of 4 paths were used, %d bytes compared", spray, used, s.Compared)
		}
	}
}

// Events happen by time, and events of one time in the order in which they were scheduled.
func TestHeap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var h eventHeap
	var last event
	seq := uint64(0)
	for i := range 20_000 {
		if i < 10_000 || r.IntN(2) == 0 {
			seq++
			h.push(event{at: last.at + Time(r.IntN(50)), seq: seq})
		}
		if i < 10_000 && r.IntN(2) == 0 {
			continue
		}
		h.first()
		e := h.take()
		if e.before(&last) {
			t.Fatalf("%v happened after %v", e, last)
		}
		last = e
	}
}

// Marks are as RED's parameters say, in proportion to the port's rate.
func TestECN(t *testing.T) {
	e := ECN{KMin: 100, KMax: 400, PMax: 0.2, Rate: 25e9}
	for _, c := range []struct {
		queue int
		rate  float64
		want  float64
	}{{100, 25e9, 0}, {250, 25e9, 0.1}, {400, 25e9, 0.2}, {401, 25e9, 1}, {400, 100e9, 0}, {1000, 100e9, 0.1}} {
		if got := e.probability(c.queue, c.rate); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("queue %d at %v b/s: %v, want %v", c.queue, c.rate, got, c.want)
		}
	}
	if e.KMax = 0; e.probability(1e9, 25e9) != 0 {
		t.Error("a switch without ECN marks")
	}
}

// A port may take a multiple of the free buffer, which grows with its rate where the configuration says so.
func TestDynamicThreshold(t *testing.T) {
	for _, c := range []struct {
		alphaRate, rate float64
		want            int
	}{{0, 100e9, 100_000}, {0, 400e9, 100_000}, {100e9, 100e9, 100_000}, {100e9, 400e9, 400_000}} {
		w := &fabricSwitch{config: &SwitchConfig{Alpha: 0.125, AlphaRate: c.alphaRate}, shared: 1e6, used: 200e3}
		if got := w.limit(&port{rate: c.rate}); got != c.want {
			t.Errorf("alpha_rate %g, a port of %g b/s, 800 KB free: %d bytes, want %d", c.alphaRate, c.rate, got,
				c.want)
		}
	}
}

// A topology that cannot be simulated is an error with the reason.
func TestBadTopologies(t *testing.T) {
	for want, top := range map[string]*Topology{
		"there have to be 2": Star(1, wires),
		"has 0 links":        {Hosts: 2, Switches: 1, Links: []Link{{A: 0, B: 2, Rate: 1e9}}},
		"to itself":          {Hosts: 2, Switches: 1, Links: []Link{{A: 2, B: 2, Rate: 1e9}}},
		"connects hosts":     {Hosts: 2, Switches: 1, Links: []Link{{A: 0, B: 1, Rate: 1e9}}},
		"no path":            {Hosts: 2, Switches: 2, Links: []Link{{A: 0, B: 2, Rate: 1e9}, {A: 1, B: 3, Rate: 1e9}}},
		"bits per second":    {Hosts: 2, Switches: 1, Links: []Link{{A: 0, B: 2, Rate: 1}}},
		"ends at node 7":     {Hosts: 2, Switches: 1, Links: []Link{{A: 0, B: 7, Rate: 1e9}}},
		"even hold their hea": {Hosts: 2, Switches: 1,
			Links: []Link{{A: 0, B: 2, Rate: 1e13, Delay: Second}, {A: 1, B: 2, Rate: 1e9}}},
	} {
		if _, err := New(config(t, "window"), top, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// An idle flow's memory on both hosts, and the packets that pass in a second.
func BenchmarkPackets(b *testing.B) {
	c := config(b, "dcqcn")
	s, err := New(c, FatTree(8, wires),
		(&Load{Op: verbs.OpWrite, Size: 1 << 40}).Permutation(rand.New(rand.NewPCG(1, 1)), 128))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.Run(2e6); err != nil { // all queues and rings have their length
		b.Fatal(err)
	}
	before := s.Packets
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Run(1000); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(s.Packets-before)/b.Elapsed().Seconds(), "packets/s")
}

// pairMemory returns how many bytes an idle connected queue pair keeps, of 2 n that connect makes.
func pairMemory(tb testing.TB, connect func(pairs func()) (n int)) float64 {
	s, err := New(config(tb, "dcqcn"), Star(2, wires), nil)
	if err != nil {
		tb.Fatal(err)
	}
	live := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := live()
	n := connect(func() {
		x, y := s.hosts[0].newPair(nil, verbs.RC), s.hosts[1].newPair(nil, verbs.RC)
		if err := s.connect(x, y); err != nil {
			tb.Fatal(err)
		}
	})
	defer runtime.KeepAlive(s)
	return (live() - before) / float64(2*n)
}

// An idle connected queue pair takes less than 2 KiB.
func TestQueuePairMemory(t *testing.T) {
	const most = 2048
	got := pairMemory(t, func(pairs func()) int {
		const n = 4096
		for range n {
			pairs()
		}
		return n
	})
	t.Logf("%.0f bytes", got)
	if got >= most {
		t.Errorf("an idle queue pair takes %.0f bytes, want less than %d", got, most)
	}
}

// BenchmarkQueuePair measures the memory that an idle connected queue pair keeps, as B/QP. The bytes an operation are
// of two queue pairs, with the garbage of connecting them.
func BenchmarkQueuePair(b *testing.B) {
	b.ReportAllocs()
	b.ReportMetric(pairMemory(b, func(pairs func()) int {
		for b.Loop() {
			pairs()
		}
		return b.N
	}), "B/QP")
}
