// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// recorder is a congestion control that notes its calls, and returns the test's verdicts.
type recorder struct {
	calls  []string
	window int
	next   clock.Time
}

func (r *recorder) note(format string, a ...any) {
	r.calls = append(r.calls, fmt.Sprintf(format, a...))
}

func (r *recorder) Sent(_ clock.Time, n int)     { r.note("sent %d", n) }
func (r *recorder) Arrived(_ clock.Time, n int)  { r.note("arrived %d", n) }
func (r *recorder) RoundTrip(_, took clock.Time) { r.note("round trip %d", took) }
func (r *recorder) Lost(clock.Time)              { r.note("lost") }
func (r *recorder) Silent(clock.Time)            { r.note("silent") }
func (r *recorder) Notified(clock.Time)          { r.note("notified") }
func (r *recorder) Marked(clock.Time)            { r.note("marked") }
func (r *recorder) State() congestion.State      { return congestion.State{Rate: 1000, Alpha: 0.5} }
func (r *recorder) Allows(clock.Time) congestion.Verdict {
	return congestion.Verdict{Window: r.window, Burst: congestion.AnyBurst, Next: r.next}
}

func (r *recorder) wants(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(r.calls, want) {
		t.Fatalf("the congestion control was told %q, want %q", r.calls, want)
	}
	r.calls = nil
}

// recorded starts a script with a recorder that allows a window.
func recorded(t *testing.T, window int) (*script, *recorder) {
	t.Helper()
	r := &recorder{window: window}
	return start(t, verbs.RC, func(o *options) { o.control = r }), r
}

// overhead is the number of bytes that a packet counts beyond its payload.
var overhead = limits(0).Overhead

// Congestion control gets the sends, acknowledgements, losses and silence of a queue pair.
func TestCongestionCalls(t *testing.T) {
	s, r := recorded(t, 1<<20)
	s.post(s.wr(verbs.OpWrite, 1, 2*mtu))
	both := fmt.Sprintf("sent %d", 2*(mtu+overhead))
	r.wants(t, both)
	s.now += 5000
	s.ack(sendPSN + 1)
	r.wants(t, "round trip 5000", fmt.Sprintf("arrived %d", 2*(mtu+overhead)))

	s.post(s.wr(verbs.OpWrite, 2, 2*mtu))
	r.calls = nil
	s.nak(sendPSN+2, ib.NAK(ib.NAKPSNSequenceError))
	r.wants(t, "lost", both) // and sends it again
	s.now += 5000
	s.nak(sendPSN+2, ib.NAK(ib.NAKPSNSequenceError))
	r.wants(t, both) // once of all that was in flight
	s.pass(10 * time.Millisecond)
	first := fmt.Sprint(mtu + overhead)
	r.wants(t, "silent", "sent "+first)
	s.ack(sendPSN + 3)
	r.wants(t, "arrived "+first) // the other packet no longer counts as in flight

	s.post(s.wr(verbs.OpRead, 3, 2*mtu))
	r.wants(t, fmt.Sprintf("sent %d", overhead))
	s.now += 100
	s.in(s.packet(ib.OpReadResponseFirst, sendPSN+4, mtu))
	r.wants(t, "round trip 100", fmt.Sprintf("arrived %d", mtu))
	s.in(s.packet(ib.OpReadResponseLast, sendPSN+5, mtu))
	if got := r.calls; !slices.Contains(got, fmt.Sprintf("arrived %d", mtu)) ||
		!slices.Contains(got, fmt.Sprintf("arrived %d", overhead)) {
		t.Errorf("at the last response it was told %q", got)
	}
}

// Where nothing is in flight one send may leave, however small the window is.
func TestNoWindow(t *testing.T) {
	s, _ := recorded(t, 0)
	s.post(s.wr(verbs.OpWrite, 1, mtu), s.wr(verbs.OpWrite, 2, mtu))
	s.want(ib.OpWriteOnly, sendPSN)
	if len(s.out) != 0 {
		t.Fatalf("%d packets more with a window of nothing", len(s.out))
	}
	s.ack(sendPSN)
	s.want(ib.OpWriteOnly, sendPSN+1)
}

// A work request that is posted too early for the congestion control waits until the verdict's time, which is the
// queue pair's deadline.
func TestPaced(t *testing.T) {
	s, r := recorded(t, 1<<20)
	r.next = s.now + 1000
	s.post(s.wr(verbs.OpWrite, 1, mtu)) // as far as anybody knows it may leave
	s.want(ib.OpWriteOnly, sendPSN)
	s.post(s.wr(verbs.OpWrite, 2, mtu))
	s.silence()
	if got := s.q.Deadline(); got != r.next {
		t.Fatalf("the deadline is %d, want %d", got, r.next)
	}
	r.next += 500
	s.ack(sendPSN) // it changes its mind
	s.wantWC(1, verbs.StatusSuccess)
	s.silence()
	if got := s.q.Deadline(); got != r.next {
		t.Fatalf("the deadline is %d, want %d", got, r.next)
	}
	s.pass(1499)
	s.silence()
	s.pass(1)
	s.want(ib.OpWriteOnly, sendPSN+1)
	s.ack(sendPSN + 1)
	s.wantWC(2, verbs.StatusSuccess)
	s.idle()
}

// A queue pair that ends does not wait any more.
func TestPacedEnd(t *testing.T) {
	s, r := recorded(t, 1<<20)
	r.next = s.now + 1000
	s.post(s.wr(verbs.OpWrite, 1, mtu))
	s.post(s.wr(verbs.OpWrite, 2, mtu))
	if !s.flow.Waiting() || s.q.Deadline() != r.next {
		t.Fatalf("waiting %v, until %d", s.flow.Waiting(), s.q.Deadline())
	}
	s.state(verbs.StateError)
	if s.flow.Waiting() || s.q.Deadline() != 0 {
		t.Errorf("a queue pair in ERR waits, with a deadline at %d", s.q.Deadline())
	}
}

// marked gives the engine a packet that has met congestion.
func (s *script) marked(p *ib.Packet) {
	s.Helper()
	if r := s.q.HandlePacket(s.now, p, arrival); r == ibta.Taken {
		s.q.Marked(s.now, p)
	}
	s.drain()
}

// cnps takes the congestion notifications out of the packets that were sent, and checks them (IBTA annex A17.9.3).
func (s *script) cnps() (n int) {
	s.Helper()
	s.out = slices.DeleteFunc(s.out, func(p ib.Packet) bool {
		if p.Opcode != ib.CNP {
			return false
		}
		n++
		if p.DestQP != peerQPN || p.PKey != ib.DefaultPKey || p.PSN != 0 || p.AckReq || p.SolicitedEvent || p.FECN ||
			!p.BECN ||
			!slices.Equal(p.Payload, make([]byte, 16)) {
			s.Errorf("CNP %+v", p)
		}
		return true
	})
	return n
}

// The sender of packets that met congestion gets a notification, every 50 µs at most.
func TestNotify(t *testing.T) {
	s := start(t, verbs.RC)
	s.receives(mtu, 1, 2, 3, 4)
	for i, want := range []int{1, 0, 0, 1} {
		p := s.packet(ib.OpSendOnly, recvPSN+ib.PSN(i), mtu)
		s.marked(p)
		if got := s.cnps(); got != want {
			t.Errorf("packet %d is answered with %d CNPs, want %d", i, got, want)
		}
		s.wantAETH(p.PSN, ib.Acknowledge(ib.CreditsUnlimited))
		s.now += clock.Time(20 * time.Microsecond)
	}
	if c := s.host.lane.Counters; c.Marked != 4 || c.CNPSent != 2 {
		t.Errorf("%d marked packets and %d notifications", c.Marked, c.CNPSent)
	}
}

// There are no notifications for datagrams and unreliable connections, which nothing slows down.
func TestNotifyNobody(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.UC, verbs.UD} {
		s := start(t, typ)
		s.receives(mtu+40, 1)
		s.marked(s.packet(ib.OpSendOnly, recvPSN, 4))
		s.inWant(ibta.DropTransport, s.cnp())
		if n := s.cnps(); n != 0 {
			t.Errorf("%v: %d CNPs", typ, n)
		}
	}
}

// cnp makes a congestion notification of the peer.
func (s *script) cnp() *ib.Packet {
	return &ib.Packet{BTH: ib.BTH{Opcode: ib.CNP, PKey: ib.DefaultPKey, DestQP: s.q.Num, BECN: true},
		Payload: make([]byte, 16)}
}

// A CNP goes to the congestion control, and so does congestion that responses to READs met.
func TestNotified(t *testing.T) {
	s, r := recorded(t, 1<<20)
	s.inWant(ibta.Taken, s.cnp())
	r.wants(t, "notified")
	p := s.cnp()
	p.PKey = 0x1234
	s.inWant(ibta.DropPKey, p)
	r.wants(t)
	s.post(s.wr(verbs.OpRead, 1, mtu))
	s.want(ib.OpReadRequest, sendPSN)
	r.calls = nil
	s.marked(s.packet(ib.OpReadResponseOnly, sendPSN, mtu))
	if !slices.Contains(r.calls, "marked") || s.cnps() != 1 {
		t.Errorf("calls: %q", r.calls)
	}
	s.marked(s.packet(ib.OpAck, sendPSN+7, 0)) // to nothing that was sent
	if got := s.host.lane.Counters; got.CNPReceived != 1 || got.Marked != 1 {
		t.Errorf("%d notifications, %d marked packets", got.CNPReceived, got.Marked)
	}
	early := start(t, verbs.RC, func(o *options) { o.last = verbs.StateRTR })
	early.inWant(ibta.DropGhost, early.cnp())
}

// paced is a congestion control with a constant rate.
type paced struct {
	congestion.Window
	next clock.Time
}

// pacedByte is the time of a byte: 800 Mb/s.
const pacedByte = clock.Time(10)

func (p *paced) Sent(now clock.Time, n int) { p.next = max(now, p.next) + clock.Time(n)*pacedByte }
func (p *paced) Allows(clock.Time) congestion.Verdict {
	return congestion.Verdict{Window: 1 << 20, Burst: congestion.AnyBurst, Next: p.next}
}
func newPaced() congestion.Controller { return &paced{} }

// play has a crowd send until a time. Acknowledgements take rtt. Only they and deadlines let queue pairs send. step is
// called each time that time has passed.
func (c *crowd) play(until, rtt clock.Time, step func(now clock.Time)) {
	c.Helper()
	now := clock.Time(1)
	acks := clock.Time(0) // when the requested acknowledgements arrive; zero: there are none
	for now < until {
		for {
			if len(c.ready) == 0 {
				q := c.flow.Next(now)
				if q == nil {
					break
				}
				c.ready = append(c.ready, q.Owner.(*qp))
			}
			q := c.ready[0]
			c.ready = c.ready[1:]
			if q.NextPackets(now, c.batch) {
				for i := range c.batch.Len() {
					c.note(q, c.batch.Packet(i))
				}
				c.ready = append(c.ready, q)
			}
		}
		if len(c.asked) > 0 && acks == 0 {
			acks = now + rtt
		}
		next := acks
		for _, q := range c.qps {
			if due := q.Deadline(); due != 0 && (next == 0 || due < next) {
				next = due
			}
		}
		if next == 0 {
			c.Fatalf("nothing moves any more at %v", time.Duration(now))
		}
		now = max(now, next)
		step(now)
		for acks != 0 && acks <= now && len(c.asked) > 0 {
			c.ackAt(now)
		}
		if len(c.asked) == 0 {
			acks = 0
		}
		for _, q := range c.qps {
			if due := q.Deadline(); due != 0 && due <= now {
				q.HandleTimeout(now)
				c.ready = append(c.ready, q)
			}
		}
	}
}

// leave ends a queue pair of the crowd.
func (c *crowd) leave(q *qp) {
	q.Destroy()
	is := func(o *qp) bool { return o == q }
	c.qps, c.ready = slices.DeleteFunc(c.qps, is), slices.DeleteFunc(c.ready, is)
	c.asked = slices.DeleteFunc(c.asked, func(p ib.Packet) bool { return p.DestQP == q.Num })
}

// Many queue pairs share the rate that their congestion control allows: as much leaves as may, each gets
// its share, and nothing but their deadlines and acknowledgements moves them.
func TestPacedCrowd(t *testing.T) {
	const (
		n    = 10
		took = clock.Time(100 * time.Millisecond)
		rtt  = clock.Time(2 * time.Microsecond)
	)
	for _, op := range []verbs.SendOp{verbs.OpSend, verbs.OpWrite} {
		c := newCrowdUnder(t, newPaced, n, 1<<20, 2, op)
		c.play(took, rtt, func(clock.Time) {})
		total, least := 0, c.bytes[c.qps[0]]
		for _, q := range c.qps {
			total, least = total+c.bytes[q], min(least, c.bytes[q])
		}
		most := int(took / pacedByte)
		if total > most+1<<17 || total < most*9/10 {
			t.Errorf("%v: %d bytes, the rate allows %d with headers", op, total, most)
		}
		if least < total/n*3/4 {
			t.Errorf("%v: one queue pair sent %d bytes, the average is %d", op, least, total/n)
		}
		if d := c.host.lane.Counters; d.Rewinds != 0 || d.Timeouts != 0 {
			t.Errorf("%v: %d times back, %d timeouts", op, d.Rewinds, d.Timeouts)
		}
	}
}

// When the queue pair ends that has the timer for all that wait, another one takes it over. The others go on at
// the rate that is allowed, whether an acknowledgement or their time comes first.
func TestPacedCrowdMemberLeaves(t *testing.T) {
	const n, took = 10, clock.Time(20 * time.Millisecond)
	for _, rtt := range []clock.Time{clock.Time(2 * time.Microsecond), clock.Time(100 * time.Microsecond),
		clock.Time(2 * time.Millisecond)} {
		c := newCrowdUnder(t, newPaced, n, 1<<20, 4, verbs.OpWrite)
		left := 0
		c.play(took, rtt, func(now clock.Time) {
			if now < clock.Time(left+1)*clock.Time(2*time.Millisecond) || len(c.qps) < 3 {
				return
			}
			for _, q := range slices.Clone(c.qps) {
				// no retransmission is due so soon
				if due := q.Deadline(); due != 0 && due < now+clock.Time(time.Millisecond) {
					c.leave(q)
					left++
					return
				}
			}
		})
		total := 0
		for _, bytes := range c.bytes {
			total += bytes
		}
		if most := int(took / pacedByte); left < 5 || total > most+1<<18 || total < most*8/10 {
			t.Errorf("round trip %v: %d left, %d bytes were sent, the rate allows %d with headers", time.Duration(rtt),
				left, total, most)
		}
		if d := c.host.lane.Counters; d.Rewinds != 0 || d.Timeouts != 0 {
			t.Errorf("round trip %v: %d times back, %d timeouts", time.Duration(rtt), d.Rewinds, d.Timeouts)
		}
	}
}

// Where a queue pair ends, no other one of its flow sends before its time, and the next one in line has a deadline
// for that.
func TestPacedEndOfAnother(t *testing.T) {
	const now = clock.Time(1000)
	r := &recorder{window: 1 << 20}
	c := newCrowdUnder(t, func() congestion.Controller { return r }, 3, 1<<20, 1, verbs.OpWrite)
	drain := func() (sent int) {
		for _, q := range c.qps {
			for q.NextPackets(now, c.batch) {
				sent++
			}
		}
		for q := c.flow.Next(now); q != nil; q = c.flow.Next(now) {
			for q.NextPackets(now, c.batch) {
				sent++
			}
		}
		return sent
	}
	r.next = now + 500
	drain()
	if !c.flow.Waiting() {
		t.Fatal("nobody waits")
	}
	for len(c.qps) > 1 {
		i := slices.IndexFunc(c.qps, func(q *qp) bool { return q.Deadline() == r.next })
		if i < 0 {
			t.Fatalf("none of %d queue pairs has a deadline for the next send", len(c.qps))
		}
		c.leave(c.qps[i])
		if n := drain(); n != 0 {
			t.Fatalf("%d sends before their time", n)
		}
	}
	if due := c.qps[0].Deadline(); due != r.next {
		t.Errorf("the last one's deadline is %d, want %d", due, r.next)
	}
}

// A queue pair that waits for its time, and then for room, has no deadline for the time that has come: it would be
// called over and over.
func TestPacedAndFull(t *testing.T) {
	s, r := recorded(t, 0)
	r.next = s.now + 1000
	s.post(s.wr(verbs.OpWrite, 1, mtu))
	s.want(ib.OpWriteOnly, sendPSN)
	s.post(s.wr(verbs.OpWrite, 2, mtu))
	s.silence()
	s.now = r.next
	s.q.HandleTimeout(s.now)
	s.drain()
	s.silence()
	if due := s.q.Deadline(); due <= s.now {
		t.Errorf("at %d its deadline is %d", s.now, due)
	}
	s.ack(sendPSN)
	s.want(ib.OpWriteOnly, sendPSN+1)
}

// READs whose responses would not fit the window wait for earlier READs.
func TestReadsFitWindow(t *testing.T) {
	const length = 40 << 10
	s, _ := recorded(t, 64<<10)
	s.mr = s.register(length, everything)
	s.post(s.wr(verbs.OpRead, 1, length), s.wr(verbs.OpRead, 2, length))
	s.want(ib.OpReadRequest, sendPSN)
	s.silence()
	for i := range length / mtu {
		op := ib.OpReadResponseMiddle
		switch i {
		case 0:
			op = ib.OpReadResponseFirst
		case length/mtu - 1:
			op = ib.OpReadResponseLast
		}
		s.in(s.packet(op, sendPSN.Add(i), mtu))
	}
	s.wantWC(1, verbs.StatusSuccess)
	s.want(ib.OpReadRequest, sendPSN.Add(length/mtu))
	s.silence()
}
