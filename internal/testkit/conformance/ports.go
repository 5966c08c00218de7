// SPDX-License-Identifier: Apache-2.0

package conformance

import "github.com/ramjet-rdma/ramjet/verbs"

// portTests are for devices whose ports a fixture can bring down.
var portTests = []test{
	{name: "Port/Down", run: testPortDown},
	{name: "Port/Back", run: testPortBack},
}

// setLink brings the port of the end's device down, or up again, and waits for the event of it, which
// is of no queue pair (IBTA 11.6.3.3).
func (e *end) setLink(up bool) {
	e.t.Helper()
	e.t.f.SetLink(e.dev, up)
	want, state := verbs.EventPortError, verbs.PortDown
	if up {
		want, state = verbs.EventPortActive, verbs.PortActive
	}
	ev := e.event(want, verbs.EventClientReregister, verbs.EventSMChange) // which a subnet manager causes besides
	if ev.Port != 1 || ev.QP != nil {
		e.t.Errorf("%v of port %d and of queue pair %v", want, ev.Port, ev.QP)
	}
	if p := value(e.dev.Port(1))(e.t); p.State != state {
		e.t.Errorf("the port is in %v, want %v", p.State, state)
	}
}

// testPortDown pulls the cable: queue pairs stay as they are until their retries have run out, and
// everything that was posted completes. When the cable is back, the port works for others.
func testPortDown(t *T) {
	a, b := t.pair(setup{connect: quick})
	c, d := *a, *b
	c.addQP(verbs.QPInit{})
	d.addQP(verbs.QPInit{})
	a.setLink(false)
	if s := a.qp.State(); s != verbs.StateRTS {
		t.Errorf("the queue pair is in %v", s)
	}
	for i := range 3 {
		a.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpRead, SGL: a.sgl(0, 1000), Remote: b.at(0)})
	}
	for i, want := range []verbs.Status{verbs.StatusRetryExceeded, verbs.StatusWRFlushError, verbs.StatusWRFlushError} {
		if wc := a.sent(want); wc.ID != uint64(i) {
			t.Errorf("completion %d is of %d", i, wc.ID)
		}
	}
	a.state(verbs.StateError)
	a.setLink(true)
	t.join(&c, &d, verbs.ConnectOptions{})
	d.fill(0, 1000, 7)
	c.do(verbs.SendWR{Op: verbs.OpRead, SGL: c.sgl(2000, 1000), Remote: d.at(0)})
	c.holds(2000, 1000, 7)
}

// testPortBack holds that messages posted while the port is down arrive when it is back in time.
func testPortBack(t *T) {
	a, b := t.pair(setup{})
	a.setLink(false)
	b.fill(0, 1000, 8)
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(2000, 1000), Remote: b.at(0)})
	t.none(a.scq)
	a.setLink(true)
	a.sent(verbs.StatusSuccess)
	a.holds(2000, 1000, 8)
}
