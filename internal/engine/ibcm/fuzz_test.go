// SPDX-License-Identifier: Apache-2.0

package ibcm

import (
	"fmt"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// consistent checks the invariants of an engine.
func consistent(e *Engine) error {
	unanswered, halfOpen := map[*listener]int{}, map[*listener]int{}
	for id, c := range e.byID {
		waits := c.state == reqSent || c.state == repSent || c.state == dreqSent || c.state == timeWait ||
			c.state == sidrSent
		switch {
		case c.id != id:
			return fmt.Errorf("%x is filed as %x", c.id, id)
		case waits != (c.due > 0) || c.due > 0 && e.deadlines[c.due-1] != c:
			return fmt.Errorf("%x in state %d has place %d among the deadlines", id, c.state, c.due)
		case (c.state == reqRcvd || c.state == sidrRcvd || c.state == repSent) != (c.entry.listener != nil):
			return fmt.Errorf("%x in state %d: listener %v", id, c.state, c.entry.listener)
		case c.entry.listener != nil && (c.entry.halfOpen != (c.state == repSent) || c.entry.all.Value != c ||
			c.entry.bySource.Value != c):
			return fmt.Errorf("%x in state %d: place %+v", id, c.state, c.entry)
		}
		if c.entry.halfOpen {
			halfOpen[c.entry.listener]++
		} else if c.entry.listener != nil {
			unanswered[c.entry.listener]++
		}
	}
	for i, c := range e.deadlines {
		if e.byID[c.id] != c || c.deadline == 0 || i > 0 && e.deadlines[(i-1)/2].deadline > c.deadline {
			return fmt.Errorf("deadline %d of %x in state %d", i, c.id, c.state)
		}
	}
	for k, c := range e.requests {
		if e.byID[c.id] != c || c.requestKey() != k || !c.passive {
			return fmt.Errorf("request %+v leads to %x", k, c.id)
		}
	}
	for k, c := range e.byQP {
		if e.byID[c.id] != c || c.remoteQP() != k {
			return fmt.Errorf("remote QP %+v leads to %x", k, c.id)
		}
	}
	refusals := 0
	for _, c := range e.byID {
		if c.state == refused {
			refusals++
		}
	}
	if refusals != len(e.refused) || refusals > maxRefused {
		return fmt.Errorf("%d refused in the list, %d by their state", len(e.refused), refusals)
	}
	for _, l := range e.services {
		if err := l.consistent(unanswered[l], halfOpen[l]); err != nil {
			return err
		}
	}
	return nil
}

func (l *listener) consistent(unanswered, halfOpen int) error {
	if l.unanswered.Len() != unanswered || l.halfOpen.Len() != halfOpen || unanswered > l.limit ||
		halfOpen > l.room()+l.limit {
		return fmt.Errorf("listener has %d unanswered and %d half-open connections, %d and %d are", l.unanswered.Len(),
			l.halfOpen.Len(), unanswered, halfOpen)
	}
	for p, s := range l.sources {
		if n := s.unanswered.Len() + s.halfOpen.Len(); n == 0 || s.peer != p {
			return fmt.Errorf("source %v, filed as %v, has %d places", s.peer, p, n)
		}
		unanswered, halfOpen = unanswered-s.unanswered.Len(), halfOpen-s.halfOpen.Len()
	}
	if unanswered != 0 || halfOpen != 0 || l.busiest != nil && l.sources[l.busiest.peer] != l.busiest {
		return fmt.Errorf("%d unanswered and %d half-open connections have no source, most has %v", unanswered,
			halfOpen, l.busiest)
	}
	return nil
}

// FuzzConversation lets an engine talk to itself. Each pair of bytes of the
// input is a step: a command to some connection, a datagram that is delivered,
// again, late, or with a byte changed, or time that passes.
func FuzzConversation(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	// A connection from REQ to time wait, in order.
	deliver, command := byte(0), byte(1)
	f.Add([]byte{2, 0, deliver, 0, command, 1, deliver, 0, command, 2, deliver, 0, command, 4, deliver, 0, deliver, 0,
		4, 200, 4, 255})
	f.Add([]byte{2, 0, deliver, 0, deliver, 64, command, 3, deliver, 0, 4, 255})
	// XRC
	f.Add([]byte{2, 2, deliver, 0, command, 1, deliver, 0, command, 2, deliver, 0, command, 4, deliver, 0, deliver, 0,
		4, 200, 4, 255})
	f.Add([]byte{2, 1, deliver, 0, command, 6, deliver, 0, 4, 255})
	f.Add([]byte{2, 0, deliver, 0, 3, 17, 3, 40, command, 1, 3, 24, 3, 33, deliver, 128, 3, 255, command, 5, 4, 255})
	for seed := range 20 {
		var b []byte
		for i := range 200 {
			b = append(b, byte((i*7919+seed*104729)>>3), byte(i*seed*31+i*17))
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 600 {
			steps = steps[:600]
		}
		e := New(Config{CAGUID: 5, Key: [16]byte{7}, MaxConnections: 40})
		if err := e.Listen(ListenParams{Service: testService, Backlog: 10}); err != nil {
			t.Fatal(err)
		}
		now := clock.Time(1)
		var wire []Datagram
		var ids []mad.CommID
		qpn := ib.QPN(0)
		for ; len(steps) >= 2; steps = steps[2:] {
			arg := int(steps[1])
			switch steps[0] % 5 {
			case 0, 3: // deliver; 3 with a byte changed
				if len(wire) == 0 {
					break
				}
				i := 0
				if arg >= 128 {
					i = len(wire) - 1
				}
				o := wire[i]
				if arg&64 == 0 {
					wire = append(wire[:i], wire[i+1:]...)
				}
				if steps[0]%5 == 3 {
					o.MAD[16+arg%64] ^= steps[0] | 1
				}
				e.HandleMAD(now, peerAddr, o.MAD[:])
			case 1:
				if len(ids) == 0 {
					break
				}
				id := ids[arg/8%len(ids)]
				qpn++
				switch arg % 8 {
				case 0:
					e.MRA(now, id, mad.Timeout(arg/8), nil)
				case 1:
					e.Accept(now, id, &AcceptParams{QPN: qpn})
				case 2:
					e.Ready(now, id, nil)
				case 3:
					e.Reject(now, id, &RejectParams{})
				case 4:
					e.Disconnect(now, id, nil)
				case 5:
					e.Release(now, id)
				case 6:
					e.Serve(now, id, &ServiceParams{})
				case 7:
					e.Established(now, id)
				}
			case 2:
				qpn++
				p := ConnectParams{To: peerAddr, Service: testService, QPN: qpn, PathMTU: verbs.MTU256}
				switch arg % 4 {
				case 1:
					e.Resolve(now, &ResolveParams{To: peerAddr, Service: testService})
				case 2:
					p.Transport, p.ExtendedTransport = mad.TransportExtended, mad.ExtendedXRC
					fallthrough
				default:
					e.Connect(now, &p)
				}
			case 4:
				now += clock.Time(arg) * clock.Time(arg) * clock.Time(time.Millisecond)
				e.HandleTimeout(now)
			}
			for o := (Datagram{}); e.NextMAD(&o); {
				wire = append(wire, o)
			}
			if len(wire) > 50 {
				wire = wire[len(wire)-50:]
			}
			for ev := (Event{}); e.NextEvent(&ev); {
				if !ev.Kind.Final() && e.byID[ev.ID] == nil {
					t.Fatalf("%v of %x, which is gone", ev.Kind, ev.ID)
				}
				ids = append(ids, ev.ID)
			}
			if e.Connections() > 40 {
				t.Fatalf("%d connections", e.Connections())
			}
			if err := consistent(e); err != nil {
				t.Fatal(err)
			}
		}
		// After all time, only connections that wait for the program are left.
		for range 10_000 {
			d := e.Deadline()
			if d == 0 {
				break
			}
			now = max(now, d)
			e.HandleTimeout(now)
		}
		if err := consistent(e); err != nil || e.Deadline() != 0 {
			t.Fatal(err, e.Deadline())
		}
		for id := range e.byID {
			if err := e.Release(now, id); err != nil {
				t.Fatalf("%x in state %d: %v", id, e.byID[id].state, err)
			}
		}
		for range 10_000 {
			if d := e.Deadline(); d != 0 {
				now = max(now, d)
				e.HandleTimeout(now)
			}
		}
		if len(e.byID)+len(e.requests)+len(e.byQP) != 0 {
			t.Fatalf("%d connections are left", len(e.byID))
		}
	})
}
