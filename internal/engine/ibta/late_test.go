// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// network counts losses as the test says.
type network struct {
	lost    uint64
	unknown bool
	asked   int
}

func (n *network) Losses() (uint64, bool) { return n.lost, !n.unknown }
func (n *network) RefreshLosses()         { n.asked++ }

// onNetwork starts a script whose network counts its losses.
func onNetwork(t *testing.T) (*script, *network) {
	t.Helper()
	s, n := start(t, verbs.RC), &network{}
	s.host.Device.Network = n
	return s, n
}

// wantLate wants that so many acknowledgements were late, and so many timeouts led to a retransmission.
func (s *script) wantLate(late, timeouts uint64) {
	s.Helper()
	if c := s.q.Counts; c.LateAcks != late || c.Timeouts != timeouts {
		s.Errorf("%d late acknowledgements and %d timeouts, want %d and %d", c.LateAcks, c.Timeouts, late, timeouts)
	}
	if c := s.host.lane.Counters; c.LateAcks != late || c.Timeouts != timeouts {
		s.Errorf("the device counts %d late acknowledgements and %d timeouts, want %d and %d", c.LateAcks, c.Timeouts,
			late, timeouts)
	}
}

// Where the network has lost nothing, nothing is retransmitted, for as long as the peer is not given up. A packet that
// is lost then is sent again after the next timeout.
func TestNothingLost(t *testing.T) {
	s, n := onNetwork(t)
	n.lost = 7 // long ago
	s.post(s.wr(verbs.OpWrite, 1, 3*mtu))
	s.out = nil
	s.pass(100 * time.Millisecond)
	s.silence()
	if n.asked == 0 {
		t.Error("nobody asked for a newer number")
	}
	s.ack(102)
	s.wantWC(1, verbs.StatusSuccess)
	s.wantLate(1, 0)
	s.post(s.send(2, 1))
	s.out = nil
	s.pass(2 * time.Second)
	if len(s.out) > 0 {
		t.Errorf("%d packets were sent again", len(s.out))
	}
	s.wantWC(2, verbs.StatusRetryExceeded)
	s.idle()
}

// A loss is found at the timeout after it.
func TestLostOnCountedNetwork(t *testing.T) {
	s, n := onNetwork(t)
	s.post(s.send(1, 1))
	s.out = nil
	s.pass(20 * time.Millisecond)
	s.silence()
	n.lost++
	s.pass(5 * time.Millisecond) // the second timeout is at 24 ms
	s.want(ib.OpSendOnly, 100)
	s.ack(100)
	s.wantWC(1, verbs.StatusSuccess)
	s.wantLate(0, 1)
	s.idle()
}

// A loss while something is in flight counts however much is acknowledged after it.
func TestLostBeforeAck(t *testing.T) {
	s, n := onNetwork(t)
	s.post(s.send(1, 1), s.send(2, 1), s.send(3, 1))
	n.lost++ // the last one
	s.ack(101)
	s.wantWC(1, verbs.StatusSuccess)
	s.wantWC(2, verbs.StatusSuccess)
	s.out = nil
	s.pass(10 * time.Millisecond)
	s.want(ib.OpSendOnly, 102)
	s.ack(102)
	s.wantWC(3, verbs.StatusSuccess)
	s.wantLate(0, 1)
	s.idle()
}

// A network that may lose packets without counting them says nothing.
func TestLossesUnknown(t *testing.T) {
	s, n := onNetwork(t)
	n.unknown = true
	s.post(s.send(1, 1))
	s.out = nil
	s.pass(10 * time.Millisecond)
	s.want(ib.OpSendOnly, 100)
	s.wantLate(0, 1)
}

// Packets that are still on this host are not retransmitted.
func TestHeldHere(t *testing.T) {
	s := start(t, verbs.RC)
	s.host.holds = true
	s.post(s.send(1, 1))
	s.out = nil
	s.pass(50 * time.Millisecond)
	s.silence()
	s.host.holds = false
	s.pass(10 * time.Millisecond) // the fourth timeout is at 56 ms
	s.want(ib.OpSendOnly, 100)
	s.silence()
}

// A device that notices a timeout late had no processor. The transport timer begins again, and the time does not
// count as the peer's silence.
func TestTimeoutNoticedLate(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.send(1, 1))
	s.out = nil
	s.now += clock.Time(10 * time.Second)
	s.q.HandleTimeout(s.now)
	s.drain()
	s.silence()
	s.ack(100)
	s.wantWC(1, verbs.StatusSuccess)
	s.wantLate(1, 0)

	s.post(s.send(2, 1))
	s.out = nil
	s.now += clock.Time(10 * time.Second)
	s.q.HandleTimeout(s.now)
	s.drain()
	s.silence()
	s.pass(20 * time.Millisecond)
	s.want(ib.OpSendOnly, 101)
	s.pass(time.Second) // four timeouts of up to 268 ms are not over
	s.out = nil
	s.silence()
	s.pass(100 * time.Millisecond)
	s.out = nil
	s.wantWC(2, verbs.StatusRetryExceeded)
	s.idle()
}

// A peer that acknowledges packets that were not retransmitted had them already: the timeout was spurious (RFC 5682).
func TestSpuriousTimeout(t *testing.T) {
	for _, late := range []bool{true, false} {
		s := start(t, verbs.RC)
		s.post(s.wr(verbs.OpWrite, 1, 3*mtu))
		s.out = nil
		s.pass(8 * time.Millisecond)
		s.want(ib.OpWriteFirst, 100)
		s.silence()
		if late {
			s.ack(102)
			s.wantLate(1, 1)
		} else {
			s.ack(100)
			s.want(ib.OpWriteMiddle, 101)
			s.want(ib.OpWriteLast, 102)
			s.ack(102)
			s.wantLate(0, 1)
		}
		s.wantWC(1, verbs.StatusSuccess)
		s.idle()
	}
}

// A response that comes after its request's timeout, and before the request was sent again, is late as well.
func TestSpuriousTimeoutOfRead(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.send(1, 1), s.wr(verbs.OpRead, 2, 8))
	s.out = nil
	s.pass(8 * time.Millisecond)
	s.want(ib.OpSendOnly, 100)
	s.silence()
	s.inWant(0, s.packet(ib.OpReadResponseOnly, 101, 8))
	s.wantWC(1, verbs.StatusSuccess)
	s.wantWC(2, verbs.StatusSuccess)
	s.wantLate(1, 1)
	s.idle()
}

// Packets on this host do not delay retransmission if the peer acknowledges other queue pairs' later packets: it has
// read beyond the lost ones.
func TestHeldForOthers(t *testing.T) {
	s := start(t, verbs.RC)
	s.host.holds = true
	other := s.host.newRC(16)
	join(t, other, s.peer.newRC(16), verbs.MTU256)
	s.post(s.send(1, 1))
	s.out = nil
	s.now += clock.Time(time.Millisecond)
	if _, err := other.PostSend([]verbs.SendWR{s.send(2, 1)}); err != nil {
		t.Fatal(err)
	}
	b := ibta.NewBatch(limits(1 << 20))
	for other.NextPackets(s.now, b) {
		s.now += clock.Time(time.Millisecond)
		var p ib.Packet
		o := b.Packet(0)
		raw := slices.Concat(o.Head, slices.Concat(o.Payload...), o.Tail)
		if err := p.Decode(raw[:len(raw)-4]); err != nil {
			t.Fatal(err)
		}
		ack := s.packet(ib.OpAck, p.PSN, 0)
		ack.DestQP = other.Num
		if r := other.HandlePacket(s.now, ack, arrival); r != ibta.Taken {
			t.Fatalf("the acknowledgement of the other queue pair: %v", r)
		}
	}
	s.pass(10 * time.Millisecond)
	s.want(ib.OpSendOnly, 100)
	s.wantLate(0, 1)
}

// A device that is always late sends again all the same, and gives its peer up.
func TestAlwaysNoticedLate(t *testing.T) {
	s := start(t, verbs.RC)
	s.post(s.send(1, 1))
	s.out = nil
	for range 200 {
		due := s.q.Deadline()
		if due == 0 {
			break
		}
		s.now = due + clock.Time(5*time.Millisecond)
		s.q.HandleTimeout(s.now)
		s.drain()
	}
	if len(s.out) < 3 {
		t.Errorf("sent again %d times", len(s.out))
	}
	s.out = nil
	s.wantWC(1, verbs.StatusRetryExceeded)
	s.idle()
}
