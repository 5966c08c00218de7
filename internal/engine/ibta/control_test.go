// SPDX-License-Identifier: Apache-2.0

package ibta_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/congestion"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// startUnder starts a script with a congestion control of the queue pair's own, which is also returned.
func startUnder(t *testing.T, r congestion.Controller, prompt bool) *script {
	t.Helper()
	kind := &congestion.Kind{Name: "test", PerQP: true, ECT: true, Prompt: prompt,
		New: func(congestion.Config, *congestion.Values) congestion.Controller { return r }}
	return start(t, verbs.RC, func(o *options) { o.own = &congestion.Choice{Kind: kind} })
}

// A queue pair's own congestion control paces its requests, beside the window that it shares.
func TestOwnControl(t *testing.T) {
	r := &recorder{window: congestion.AnyWindow}
	s := startUnder(t, r, false)
	s.post(s.wr(verbs.OpWrite, 1, mtu))
	s.want(ib.OpWriteOnly, sendPSN)
	s.ack(sendPSN)
	s.wantWC(1, verbs.StatusSuccess)
	r.next = s.now + 1000
	s.inWant(ibta.Taken, s.cnp())
	s.post(s.wr(verbs.OpWrite, 2, mtu))
	s.silence()
	if s.flow.Waiting() {
		t.Error("it stands in the line of the flow, where it keeps others waiting")
	}
	if due := s.q.Deadline(); due != r.next {
		t.Fatalf("the deadline is %d, want %d", due, r.next)
	}
	s.pass(1000)
	s.want(ib.OpWriteOnly, sendPSN+1)
	s.ack(sendPSN + 1)
	s.wantWC(2, verbs.StatusSuccess)
	var st verbs.QPStats
	if s.q.Stats(&st); st.Congestion != "test" || st.Rate != 1000 || st.Alpha != 0.5 || st.RecvCNPs != 1 {
		t.Errorf("%+v", st)
	}
	s.idle()
}

// The window of a queue pair's own control holds back its packets, though the flow's window has room, and other
// queue pairs go on.
func TestOwnWindow(t *testing.T) {
	r := &recorder{window: 2 * (mtu + overhead)}
	s := startUnder(t, r, false)
	s.post(s.wr(verbs.OpWrite, 1, 2*mtu), s.wr(verbs.OpWrite, 2, mtu))
	s.want(ib.OpWriteFirst, sendPSN)
	if p := s.want(ib.OpWriteLast, sendPSN+1); !p.AckReq {
		t.Error("the last packet that fits asks for no acknowledgement")
	}
	s.silence()
	s.ack(sendPSN + 1)
	s.wantWC(1, verbs.StatusSuccess)
	s.want(ib.OpWriteOnly, sendPSN+2)
	s.ack(sendPSN + 2)
	s.wantWC(2, verbs.StatusSuccess)
	s.idle()
}

// Responses to READs are paced at the responder, and cut into bursts.
func TestResponsesPaced(t *testing.T) {
	r := &recorder{window: congestion.AnyWindow}
	s := startUnder(t, r, false)
	r.next = s.now + 1000
	s.inWant(ibta.Taken, s.cnp())
	p := s.packet(ib.OpReadRequest, recvPSN, 0)
	p.RETH = ib.RETH{VA: s.mr.Addr(), RKey: s.mr.RKey(), DMALen: 3 * mtu}
	s.in(p)
	s.silence()
	if due := s.q.Deadline(); due != r.next {
		t.Fatalf("the deadline is %d, want %d", due, r.next)
	}
	r.calls = nil
	s.pass(1000)
	for i, op := range []ib.Operation{ib.OpReadResponseFirst, ib.OpReadResponseMiddle, ib.OpReadResponseLast} {
		s.want(op, recvPSN.Add(i))
	}
	one := mtu + overhead
	// the last one is longer than the one before, and has a send of its own
	r.wants(t, fmt.Sprintf("sent %d", 2*one), fmt.Sprintf("sent %d", one))
	s.idle()
}

// WRITEs and responses to READs leave at DCQCN's rate after notifications.
func TestDCQCNRate(t *testing.T) {
	for _, read := range []bool{false, true} {
		choice, err := congestion.Parse(
			"dcqcn,rpg_max_rate=800,rpg_min_rate=80,rpg_time_reset=100000,rpg_byte_reset=1e9")
		if err != nil {
			t.Fatal(err)
		}
		s := start(t, verbs.RC, func(o *options) { o.own, o.config.Caps.MaxSendWR = choice, 100 })
		for range 3 { // to 100 Mb/s
			s.inWant(ibta.Taken, s.cnp())
		}
		const length = 16 << 10
		if read {
			p := s.packet(ib.OpReadRequest, recvPSN, 0)
			p.RETH = ib.RETH{VA: s.mr.Addr(), RKey: s.mr.RKey(), DMALen: length}
			s.in(p)
		} else {
			s.post(s.wr(verbs.OpWrite, 1, length))
		}
		sent, last := 0, clock.Time(0)
		for end := s.now + clock.Time(20*time.Millisecond); s.now < end; {
			for _, p := range s.out {
				if sent += len(p.Payload) + overhead; p.AckReq {
					s.ack(p.PSN)
				}
				last = s.now
			}
			s.out = nil
			due := s.q.Deadline()
			if due == 0 {
				break
			}
			s.pass(time.Duration(max(due-s.now, 1)))
		}
		want := clock.Time(float64(sent) / (100e6 / 8) * float64(time.Second))
		if sent < length || last < want*8/10 || last > want*11/10 {
			t.Errorf("read %v: %d bytes took %v, want %v", read, sent, time.Duration(last), time.Duration(want))
		}
	}
}

// A congestion control that hears of marks permits switches to mark packets. The DSCP is the program's.
func TestMarksPermitted(t *testing.T) {
	for class, want := range map[uint8]uint8{0: 2, 0x68: 0x6a, 0x69: 0x69} {
		r := &recorder{window: 1 << 20}
		kind := &congestion.Kind{Name: "test", PerQP: true, ECT: true,
			New: func(congestion.Config, *congestion.Values) congestion.Controller { return r }}
		s := start(t, verbs.RC,
			func(o *options) { o.own, o.attr.AH.TrafficClass = &congestion.Choice{Kind: kind}, class })
		if got := s.q.AV().Attr.TrafficClass; got != want {
			t.Errorf("class %#x: packets have %#x, want %#x", class, got, want)
		}
		if got := s.q.Query().AH.TrafficClass; got != class {
			t.Errorf("class %#x: the attribute says %#x", class, got)
		}
	}
}

// Acknowledgements of a control that measures round trips do not wait for the program's answer.
func TestPromptAcks(t *testing.T) {
	for _, prompt := range []bool{false, true} {
		s := startUnder(t, &recorder{window: 1 << 20}, prompt)
		s.receives(mtu, 1)
		s.batch.Acks = false
		s.in(s.packet(ib.OpSendOnly, recvPSN, mtu))
		if got := len(s.out) == 1; got != prompt {
			t.Errorf("prompt %v: acknowledged %v", prompt, got)
		}
	}
}
