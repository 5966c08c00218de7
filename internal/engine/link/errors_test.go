// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// TestErrorRate: bits change on a cable. Packets with such bits are dropped and counted, credits come back,
// and packets that arrive are right.
func TestErrorRate(t *testing.T) {
	for _, cfg := range []Config{{Seed: 1}, {Seed: 2, Paced: true}} {
		for _, delay := range []clock.Time{0, 500} {
			f := newFabric(t, cfg)
			a, b := f.adapter(1, nil), f.adapter(2, nil)
			c := f.plug(a, b, delay)
			f.run(1000)
			activate(a, b)
			f.run(2000)
			if err := f.net.SetErrorRate(f.now, c, 1e-5); err != nil {
				t.Fatal(err)
			}
			sent, good, last := uint64(0), uint64(0), int64(-1)
			push := func() {
				for sent < 20_000 {
					p := f.packet(a, 2, uint8(sent%3), 1024, sent)
					if !f.net.Send(f.now, a, p) {
						f.net.Release(p)
						return
					}
					sent++
				}
			}
			take := func() {
				for p := f.net.Receive(b); p != nil; p = f.net.Receive(b) {
					if !p.icrcValid() {
						t.Fatal("a changed packet came")
					}
					last = max(last, int64(idOf(p)))
					good++
					f.net.Release(p)
				}
			}
			for range 5000 {
				push()
				f.run(f.now + 100_000)
				take()
			}
			errs := b.State().Counters.RcvErrors
			// 8 × 1050 bits at 1e-5 hit one packet in twelve; flow-control packets are hit, too.
			if sent != 20_000 || good+errs < sent || good > sent*95/100 || good < sent*88/100 {
				t.Errorf("delay %d: %d of %d came, %d errors", delay, good, sent, errs)
			}
			if s := b.State().Counters.SymbolErrors; s != errs {
				t.Errorf("%d symbol errors, %d receive errors", s, errs)
			}
			if err := f.net.SetErrorRate(f.now, c, 0); err != nil {
				t.Fatal(err)
			}
			f.run(f.now + 50*ms)
			take()
			f.run(f.now + 50*ms)
			checkIdle(t, []*Port{a, b})
		}
	}
	f := newFabric(t, Config{})
	a, b := f.adapter(1, nil), f.adapter(2, nil)
	for _, rate := range []float64{-1, 0.5, nan()} {
		if err := f.net.SetErrorRate(0, f.plugged(a, b), rate); err == nil {
			t.Errorf("rate %g: no error", rate)
		}
	}
}

// TestErrorsOfOneCopy: copies of a multicast packet on other cables do not have the bits that one cable changes.
func TestErrorsOfOneCopy(t *testing.T) {
	f := newFabric(t, Config{Seed: 3})
	sw, as := f.star(3, 0)
	sw.State().Tables.Multicast[0][0] = 1<<2 | 1<<3
	if err := f.net.SetErrorRate(f.now, as[1].cable, 1e-3); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		p := f.packet(as[0], 0xc000, 0, 256, uint64(i))
		p.fillICRC()
		f.send(as[0], p)
		f.came(as[0])
		f.came(as[1])
		q := f.net.Receive(as[2])
		if q == nil || !q.icrcValid() || idOf(q) != uint64(i) {
			t.Fatalf("packet %d did not come, or was changed", i)
		}
		f.net.Release(q)
		f.run(f.now + ms)
	}
	if n := as[1].State().Counters.RcvErrors; n < 500 {
		t.Errorf("%d packets changed on the way to the other", n)
	}
}

// TestErrorsSpareOwnCopy: the sender's own copy of a multicast packet does not have the bits that its cable changes.
func TestErrorsSpareOwnCopy(t *testing.T) {
	f := newFabric(t, Config{Seed: 3})
	sw, as := f.star(2, 0)
	sw.State().Tables.Multicast[0][0] = 1 << 2
	if err := f.net.SetErrorRate(f.now, as[0].cable, 1e-3); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		p := f.packet(as[0], 0xc000, 0, 256, uint64(i))
		p.fillICRC()
		f.send(as[0], p)
		f.came(as[1])
		q := f.net.Receive(as[0])
		if q == nil || !q.icrcValid() || idOf(q) != uint64(i) {
			t.Fatalf("packet %d did not come back, or was changed", i)
		}
		f.net.Release(q)
		f.run(f.now + ms)
	}
	if n := sw.Port(1).State().Counters.RcvErrors; n < 50 {
		t.Errorf("%d packets changed on the way", n)
	}
}

func nan() float64 { z := 0.0; return z / z }

func (f *fabric) plugged(a, b *Port) *Cable {
	if a.cable == nil {
		return f.plug(a, b, 0)
	}
	return a.cable
}

// pipe carries frames between two networks, and loses, repeats and reorders some.
type pipe struct {
	f      [2]*fabric
	port   [2]*Port
	random random
	faults uint64 // of 1000 frames how many have each of the faults
	held   [2][]byte
	credit int // flow-control packets
	frames int
}

// pump moves the frames of the two sides.
func (p *pipe) pump() (moved bool) {
	for side := range 2 {
		for range 1000 {
			frame, ok := p.f[side].net.NextFrame(p.f[side].now, p.port[side], nil)
			if !ok {
				break
			}
			moved = true
			p.frames++
			if len(frame) == ib.FlowControlLen {
				p.credit++
			}
			p.put(1-side, frame)
		}
		if h := p.held[1-side]; h != nil && !moved {
			p.held[1-side] = nil
			p.deliver(1-side, h)
		}
	}
	return moved
}

func (p *pipe) put(to int, frame []byte) {
	switch draw := p.random.next() % 1000; {
	case draw < p.faults: // lost
	case draw < 2*p.faults: // repeated
		p.deliver(to, frame)
		p.deliver(to, frame)
	case draw < 3*p.faults && p.held[to] == nil: // later
		p.held[to] = frame
	case draw < 4*p.faults: // changed
		frame[p.random.next()%uint64(len(frame))] ^= 1 << (p.random.next() % 8)
		p.deliver(to, frame)
	default:
		p.deliver(to, frame)
		if h := p.held[to]; h != nil && draw%4 == 0 {
			p.held[to] = nil
			p.deliver(to, h)
		}
	}
}

func (p *pipe) deliver(to int, frame []byte) { p.f[to].net.HandleFrame(p.f[to].now, p.port[to], frame) }

// remote is an adapter on a switch in each of two networks, and a pipe between the switches.
func remote(t testing.TB, faults uint64) (p *pipe, a, b *Port) {
	p = &pipe{random: 7, faults: faults}
	var as [2]*Port
	for i := range 2 {
		f := newFabric(t, Config{Seed: uint64(i)})
		p.f[i] = f
		sw := f.switchNode(uint16(0x101+i), 2, nil)
		as[i] = f.adapter(uint16(i+1), nil)
		f.plug(as[i], sw.Port(1), 0)
		p.port[i] = sw.Port(2)
		if err := f.net.RemoteUp(0, p.port[i], node.Width4x, node.EDR|node.FDR); err != nil {
			t.Fatal(err)
		}
		sw.State().Tables.Linear[i+1], sw.State().Tables.Linear[2-i] = 1, 2
	}
	for range 10 {
		p.step(ms)
	}
	for i := range 2 {
		activate(append(ports(p.port[i].node), as[i])...)
	}
	for range 10 {
		p.step(ms)
	}
	return p, as[0], as[1]
}

// step lets time pass on both sides, and everything move that can.
func (p *pipe) step(d clock.Time) {
	for i := range 2 {
		p.f[i].run(p.f[i].now + d)
	}
	for p.pump() {
		for i := range 2 {
			p.f[i].run(p.f[i].now)
		}
	}
}

// TestRemote: over a cable between two networks everything comes, in order, and the receiver holds the
// sender back.
func TestRemote(t *testing.T) {
	p, a, b := remote(t, 0)
	s := &sender{from: a, dlid: 2, size: 4096, max: 10_000}
	for range 20 {
		s.push(p.f[0])
		p.step(1000)
	}
	if s.sent < 30 || s.sent > 150 {
		t.Errorf("%d packets sent to who takes none", s.sent)
	}
	got := newSink(b)
	for range 1000 {
		s.push(p.f[0])
		p.step(1000)
		got.take(p.f[1], 1<<30)
		checkCredits(t, append(ports(p.port[0].node, p.port[1].node), a, b))
	}
	if got.got(1, 0) != 10_000 {
		t.Fatalf("%d came", got.got(1, 0))
	}
	if c := b.State().Counters; c.RcvErrors != 0 || p.port[1].State().Counters.RcvErrors != 0 {
		t.Errorf("errors: %+v", c)
	}
	idle := p.credit
	for range 1000 {
		p.step(ms)
	}
	if n := p.credit - idle; n < 16 || n > 600 {
		t.Errorf("%d flow-control packets in a second without traffic", n)
	}
	// A cable that is pulled at one end ends for both.
	for i := range 2 {
		p.f[i].net.RemoteDown(p.f[i].now, p.port[i])
		if p.port[i].State().Link.Logical != node.Down {
			t.Errorf("after RemoteDown: %v", p.port[i].State().Link.Logical)
		}
	}
	s.max++
	s.push(p.f[0])
	p.step(ms)
	if p.f[1].came(b) != 0 || p.port[0].State().Counters.XmitDiscards == 0 {
		t.Error("a packet came without a cable, or was not counted")
	}
}

// TestRemoteFaults: frames that are lost, repeated, reordered or changed cost packets, but no credits for
// long, and memory stays bounded.
func TestRemoteFaults(t *testing.T) {
	p, a, b := remote(t, 20)
	seen, sent := 0, 0
	for range 3000 {
		for sent < 100_000 {
			q := p.f[0].packet(a, 2, uint8(sent%4), 2048, uint64(sent))
			if !p.f[0].net.Send(p.f[0].now, a, q) {
				p.f[0].net.Release(q)
				break
			}
			sent++
		}
		p.step(100_000)
		for q := p.f[1].net.Receive(b); q != nil; q = p.f[1].net.Receive(b) {
			if !q.icrcValid() {
				t.Fatal("a changed packet came")
			}
			seen++
			p.f[1].net.Release(q)
		}
		for vl := range uint8(managementLane) {
			if in := &p.port[1].in[vl]; in.used > in.size {
				t.Fatalf("lane %d: %d blocks in a buffer of %d", vl, in.used, in.size)
			}
		}
	}
	c := p.port[1].State().Counters
	if sent < 100_000 || seen < sent*90/100 {
		t.Errorf("%d of %d came: %+v", seen, sent, c)
	}
	if c.RcvErrors == 0 {
		t.Error("no changed frame was counted")
	}
	// Without faults everything comes again, and all credits are there.
	p.faults = 0
	for range 50 {
		p.step(10 * ms)
	}
	p.f[1].came(b)
	for range 50 {
		p.step(10 * ms)
	}
	for vl := range uint8(8) {
		out, in := &p.port[0].out[vl], &p.port[1].in[vl]
		if in.used != 0 || in.abr != out.fctbs || (out.fccl-out.fctbs)&creditMask != in.size {
			t.Errorf("lane %d: %d blocks held, %d sent, %d counted, limit %d", vl, in.used, out.fctbs, in.abr, out.fccl)
		}
	}
	s, got := &sender{from: a, dlid: 2, size: 2048, max: 1000}, newSink(b)
	for range 500 {
		s.push(p.f[0])
		p.step(1000)
		got.take(p.f[1], 1<<30)
	}
	if got.got(1, 0) != 1000 {
		t.Errorf("%d of 1000 came afterwards", got.got(1, 0))
	}
}

// TestRemoteLoopback: an adapter whose cable leads elsewhere can send to itself.
func TestRemoteLoopback(t *testing.T) {
	f := newFabric(t, Config{})
	a := f.adapter(1, nil)
	if err := f.net.RemoteUp(0, a, node.Width4x, node.EDR); err != nil {
		t.Fatal(err)
	}
	activate(a)
	f.send(a, f.packet(a, 1, 0, 64, 5))
	if f.came(a) != 1 {
		t.Error("it did not come")
	}
}

// TestRemoteRemoved: a node that is removed sends nothing into its cable to another process, and takes nothing from
// there.
func TestRemoteRemoved(t *testing.T) {
	p, a, _ := remote(t, 0)
	f, q := p.f[0], p.port[0]
	f.send(a, f.packet(a, 2, 0, 64, 0))
	if q.Queued(0) == 0 {
		t.Fatal("nothing waits for the cable")
	}
	f.net.Remove(f.now, q.Node())
	if q.State().Link.Logical != node.Down {
		t.Errorf("the port is in %v", q.State().Link.Logical)
	}
	if frame, ok := f.net.NextFrame(f.now, q, nil); ok {
		t.Errorf("it sends %d bytes", len(frame))
	}
	if f.net.Deadline() != 0 {
		f.run(f.now + 10*ms)
	}
	if due := f.net.Deadline(); due != 0 {
		t.Errorf("something of it is due at %d, now is %d", due, f.now)
	}
}

// TestRemotePace: a cable to another process is as fast as the process takes frames, independent of the cables here.
// Flow control packets are repeated on it at the time that was configured.
func TestRemotePace(t *testing.T) {
	for _, paced := range []bool{false, true} {
		f := newFabric(t, Config{Paced: paced, Refresh: 100 * ms})
		q := f.switchNode(0x101, 1, nil).Port(1)
		if err := f.net.RemoteUp(f.now, q, node.Width4x, node.EDR); err != nil {
			t.Fatal(err)
		}
		drain := func() (n int) {
			f.run(f.now)
			for {
				if _, ok := f.net.NextFrame(f.now, q, nil); !ok {
					return n
				}
				n++
			}
		}
		drain()
		f.run(f.now + 99*ms)
		if n := drain(); n != 0 {
			t.Errorf("paced %v: %d frames before the time", paced, n)
		}
		f.run(f.now + 2*ms)
		if drain() == 0 {
			t.Errorf("paced %v: no frames at the time", paced)
		}
	}
}

// watcher is an agent that notes when the link reports that the other end was silent for too long.
type watcher struct {
	fakeAgent
	expired clock.Time
}

func (w *watcher) PhysicalError(clock.Time, int)                         {}
func (w *watcher) BufferOverrun(clock.Time, int)                         {}
func (w *watcher) KeyViolated(clock.Time, int, mad.Trap, mad.KeyDetails) {}
func (w *watcher) WatchdogExpired(now clock.Time, port int)              { w.expired = now }

// TestWatchdogTime: the agent hears when the watchdog expired, however long nothing has happened before that.
func TestWatchdogTime(t *testing.T) {
	f := newFabric(t, Config{})
	w := &watcher{}
	a := f.adapter(1, w)
	f.net.WatchdogExpired(5*ms, a)
	if w.expired != 5*ms {
		t.Errorf("it expired at %d, the agent hears %d", int64(5*ms), w.expired)
	}
}
