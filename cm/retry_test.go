// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A server that is between two listeners does not refuse peers that have a connection to it, if they repeat requests.
func TestAskAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		open  func(*testing.T) *verbs.Device
		ps    cm.PortSpace // of the request after a connection
		wants cm.EventType // the event where no listener has the port
	}{
		{"roce", func(t *testing.T) *verbs.Device { return open(t) }, cm.TCP, cm.Rejected},
		{"datagrams", func(t *testing.T) *verbs.Device { return open(t) }, cm.UDP, cm.Unreachable},
		{"iwarp", openIWARP, cm.TCP, cm.Rejected},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := c.open(t), c.open(t)
			server, client := listening(t, b, cm.TCP), newSide(t, a, cm.TCP)
			at := server.id.LocalAddr()
			client.meet(server)

			again, once := newSide(t, a, c.ps), newSide(t, a, c.ps)
			fails(t, again.id.SetConnectRetry(-1), verbs.ErrInvalid, "-1")
			ok(t, again.id.SetConnectRetry(patience))
			for _, s := range []*side{again, once} {
				s.resolve(at)
				s.addQP(s.id)
				ok(t, s.id.Connect(nil))
			}
			var why *cm.RejectError
			if e := once.event(c.wants); !errors.As(e.Err, &why) || why.Reason != cm.ReasonInvalidService {
				t.Error(e.Err)
			} else { // an observer leaves out managers that are busy for long
				eventually(t, func() bool { return slices.Contains(failures(t), e.Err.Error()) },
					"observers are told: "+e.Err.Error())
			}
			server = newSide(t, b, c.ps)
			ok(t, server.id.Bind(at))
			ok(t, server.id.Listen(0))
			in := server.event(cm.ConnectRequest).ID
			defer in.Close()
			server.addQP(in)
			ok(t, in.Accept(nil))
			again.event(cm.Established)
		})
	}
}

// failures are why connections of this process failed, as observers see it.
func failures(t *testing.T) (texts []string) {
	t.Helper()
	var out bytes.Buffer
	ok(t, new(observe.Writer).Snapshot(&out))
	p, err := observe.Read(&out)
	ok(t, err)
	for i := range p.Devices {
		for _, c := range p.Devices[i].Conns {
			if c.Failed != "" {
				texts = append(texts, c.Failed)
			}
		}
	}
	return texts
}

// A peer that repeats a request gives up in the end, and does not repeat it where it has no connection.
func TestAskAgainInVain(t *testing.T) {
	a, b := open(t), open(t)
	server := listening(t, b, cm.TCP)
	at := server.id.LocalAddr()
	for _, known := range []bool{false, true} {
		if known {
			client := newSide(t, a, cm.TCP)
			client.meet(server)
		}
		s := newSide(t, a, cm.TCP)
		limit := time.Hour
		to := netip.AddrPortFrom(at.Addr(), 1)
		if known {
			limit, to = 100*time.Millisecond, at
		}
		ok(t, s.id.SetConnectRetry(limit))
		s.resolve(to)
		s.addQP(s.id)
		ok(t, s.id.Connect(nil))
		s.event(cm.Rejected)
	}
}

// meet connects s to a listener, which then goes.
func (s *side) meet(server *side) {
	s.t.Helper()
	s.resolve(server.id.LocalAddr())
	s.addQP(s.id)
	ok(s.t, s.id.Connect(nil))
	in := server.event(cm.ConnectRequest).ID
	s.t.Cleanup(func() { in.Close() })
	server.addQP(in)
	ok(s.t, in.Accept(nil))
	s.event(cm.Established)
	server.id.Close()
}

// A side retries as SetRNRRetry says, not as its peer asks.
func TestSetRNRRetry(t *testing.T) {
	server, client := listening(t, open(t), cm.TCP), newSide(t, open(t), cm.TCP)
	fails(t, client.id.SetRNRRetry(8), verbs.ErrInvalid, "8")
	ok(t, client.id.SetRNRRetry(7))
	client.resolve(server.id.LocalAddr())
	qp := client.addQP(client.id)
	ok(t, client.id.Connect(&cm.ConnParam{RNRRetryCount: 2}))
	in := server.event(cm.ConnectRequest).ID
	defer in.Close()
	other := server.addQP(in)
	ok(t, in.Accept(&cm.ConnParam{RNRRetryCount: 0}))
	client.event(cm.Established)
	server.event(cm.Established)
	fails(t, client.id.SetRNRRetry(1), verbs.ErrState)
	for _, c := range []struct {
		qp   *verbs.QP
		want uint8
	}{{qp, 7}, {other, 2}} {
		if a := c.qp.Query(); a.RNRRetry != c.want {
			t.Errorf("%d RNR retries, want %d", a.RNRRetry, c.want)
		}
	}
}
