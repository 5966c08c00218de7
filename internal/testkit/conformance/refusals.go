// SPDX-License-Identifier: Apache-2.0

package conformance

import "github.com/ramjet-rdma/ramjet/verbs"

var refusalTests = []test{
	{name: "Refused/Why", run: testWhyFailed},
	{name: "Refused/WhyLocal", run: testWhyLocal},
	{name: "Refused/Remote", run: testRemoteRefused},
	{name: "Refused/QPAccess", run: testQPAccess},
	{name: "Refused/OtherDomain", run: testOtherDomain},
	{name: "Refused/Local", run: testLocalRefused},
	{name: "Refused/Receive", run: testReceiveRefused},
	{name: "Refused/ReceiveTooSmall", run: testReceiveTooSmall},
	{name: "Refused/UC", run: testUCRefused, needs: []Ability{Unreliable}},
	{name: "Refused/UC/ReceiveTooSmall", run: testUCReceiveTooSmall, needs: []Ability{Unreliable}},
}

// refused posts a work request that the peer must refuse, and checks both sides.
func refused(t *T, da, db *verbs.Device, name string, access verbs.Access, wr func(a, b *end) verbs.SendWR) {
	t.Helper()
	const want, event = verbs.StatusRemoteAccessError, verbs.EventQPAccessError
	a, b := t.pairOf(da, db, setup{access: access})
	b.fill(0, 1<<16, 1)
	a.fill(0, 1<<16, 2)
	a.post(wr(a, b))
	t.Logf("%s", name)
	a.turnedDown(want)
	a.state(verbs.StateError)
	b.state(verbs.StateError)
	if ev, err := b.dev.Event(t.within()); err != nil || ev.Type != event || ev.QP != b.qp {
		t.Errorf("%s: event %+v (%v), want %v", name, ev, err, event)
	}
	b.holds(0, 1<<16, 1)
	a.holds(0, 1<<16, 2)
}

func testRemoteRefused(t *T) {
	const all, size = everything, 1 << 16
	ops := map[string]verbs.SendOp{"write": verbs.OpWrite, "read": verbs.OpRead, "cas": verbs.OpCompareSwap,
		"add": verbs.OpFetchAdd}
	need := map[string]verbs.Access{"write": verbs.RemoteWrite, "read": verbs.RemoteRead, "cas": verbs.RemoteAtomic,
		"add": verbs.RemoteAtomic}
	if _, missing := t.f.Missing[AtomicFlush]; !missing {
		ops["atomic write"], need["atomic write"] = verbs.OpAtomicWrite, verbs.RemoteWrite
	}
	da, db := t.devices()
	for name, op := range ops {
		if t.without(op) {
			continue
		}
		for how, remote := range map[string]func(verbs.Remote) verbs.Remote{
			"key":        func(r verbs.Remote) verbs.Remote { r.Key ^= 0x10000; return r },
			"key's tail": func(r verbs.Remote) verbs.Remote { r.Key ^= 1; return r },
			"no key":     func(r verbs.Remote) verbs.Remote { r.Key = 0; return r },
			"before":     func(r verbs.Remote) verbs.Remote { r.Addr -= 8; return r },
			"after":      func(r verbs.Remote) verbs.Remote { r.Addr += size; return r },
			"far away":   func(r verbs.Remote) verbs.Remote { r.Addr += 1 << 63; return r },
			"wrap":       func(r verbs.Remote) verbs.Remote { r.Addr = ^uint64(7); return r },
		} {
			refused(t, da, db, name+": "+how, all, func(a, b *end) verbs.SendWR {
				return verbs.SendWR{Op: op, SGL: a.sgl(0, 8), Remote: remote(b.at(0))}
			})
		}
		refused(t, da, db, name+": access", all&^need[name], func(a, b *end) verbs.SendWR {
			return verbs.SendWR{Op: op, SGL: a.sgl(0, 8), Remote: b.at(0)}
		})
	}
	n := size
	if t.late() {
		n = 1000 // each segment of a longer one is refused or placed on its own
	}
	for name, op := range map[string]verbs.SendOp{"write": verbs.OpWrite, "read": verbs.OpRead} {
		refused(t, da, db, name+": one byte too far", all, func(a, b *end) verbs.SendWR {
			return verbs.SendWR{Op: op, SGL: a.sgl(0, n), Remote: b.at(size - n + 1)}
		})
	}
}

// testQPAccess holds that a queue pair allows only the accesses in its flags (IBTA 9.7.4.1.5).
func testQPAccess(t *T) {
	needs := map[verbs.SendOp]verbs.Access{verbs.OpWrite: verbs.RemoteWrite, verbs.OpRead: verbs.RemoteRead,
		verbs.OpFetchAdd: verbs.RemoteAtomic, verbs.OpCompareSwap: verbs.RemoteAtomic}
	all := verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
	if _, missing := t.f.Missing[AtomicFlush]; !missing {
		needs[verbs.OpAtomicWrite] = verbs.RemoteWrite
		all |= verbs.FlushGlobal
	}
	da, db := t.devices()
	for op, need := range needs {
		if t.without(op) {
			continue
		}
		a, b := t.pairOf(da, db, setup{connect: verbs.ConnectOptions{Access: all &^ need}})
		b.fill(0, 8, 1)
		a.post(verbs.SendWR{Op: op, SGL: a.sgl(0, 8), Remote: b.at(0)})
		if wc := t.next(a.scq); wc.Status != verbs.StatusRemoteInvalidRequestError {
			t.Errorf("%v: %v", op, wc.Status)
		}
		b.event(verbs.EventQPRequestError)
		b.holds(0, 8, 1)
	}
}

// testOtherDomain names a region of another protection domain, remotely and locally.
func testOtherDomain(t *T) {
	a, b := t.pair(setup{})
	c := t.newEnd(b.dev, setup{})
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: c.at(0)})
	a.turnedDown(verbs.StatusRemoteAccessError)
	a, b = t.pair(setup{})
	c = t.newEnd(a.dev, setup{})
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: c.sgl(0, 8), Remote: b.at(0)})
	a.sent(verbs.StatusLocalProtectionError)
}

func testLocalRefused(t *T) {
	bad := func(e *end, change func(*verbs.SGE)) []verbs.SGE {
		s := e.mr.SGE(0, 8)
		change(&s)
		return []verbs.SGE{e.mr.SGE(8, 8), s}
	}
	da, db := t.devices()
	for name, change := range map[string]func(*verbs.SGE){
		"key":    func(s *verbs.SGE) { s.LKey ^= 0x10000 },
		"before": func(s *verbs.SGE) { s.Addr-- },
		"after":  func(s *verbs.SGE) { s.Addr += 1<<16 - 7 },
	} {
		for _, op := range []verbs.SendOp{verbs.OpSend, verbs.OpWrite, verbs.OpRead} {
			a, b := t.pairOf(da, db, setup{})
			b.recv(1, 0, 1<<16)
			a.post(verbs.SendWR{Op: op, SGL: bad(a, change), Remote: b.at(0)})
			if wc := t.next(a.scq); wc.Status != verbs.StatusLocalProtectionError {
				t.Errorf("%s, %v: %v", name, op, wc.Status)
			}
			a.state(verbs.StateError)
		}
	}
	// The result of a READ needs LocalWrite; a payload does not.
	a, b := t.pair(setup{access: verbs.RemoteRead})
	b.recv(1, 0, 0)
	a.do(verbs.SendWR{Op: verbs.OpSend})
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, 8), Remote: b.at(0)})
	a.sent(verbs.StatusLocalProtectionError)
}

// testReceiveRefused posts a receive into memory that the device may not write.
func testReceiveRefused(t *T) {
	a, b := t.pair(setup{access: verbs.RemoteRead})
	b.recv(3, 0, 64)
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)})
	a.turnedDown(verbs.StatusRemoteOperationError)
	if wc := b.received(verbs.StatusLocalProtectionError); wc.ID != 3 {
		t.Errorf("failed receive is %d, want 3", wc.ID)
	}
	b.state(verbs.StateError)
}

func testReceiveTooSmall(t *T) {
	for _, n := range []int{9, 5000, 60000} {
		a, b := t.pair(setup{})
		b.recv(4, 0, n-1)
		a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, n)})
		a.turnedDown(verbs.StatusRemoteInvalidRequestError)
		if wc := b.received(verbs.StatusLocalLengthError); wc.ID != 4 {
			t.Errorf("failed receive is %d, want 4", wc.ID)
		}
		b.state(verbs.StateError)
		b.mr.Do(func(p []byte) {
			if p[n-1] != 0 {
				t.Error("written past the receive")
			}
		})
	}
}

// testUCReceiveTooSmall sends messages that are longer than the receive over UC: they are dropped,
// and the receive is there for the next one.
func testUCReceiveTooSmall(t *T) {
	a, b := t.pair(setup{qp: verbs.QPInit{Type: verbs.UC}})
	b.recv(1, 0, 5000)
	for _, n := range []int{5001, 60000} {
		a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, n)})
	}
	a.fill(0, 5000, 7)
	a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 5000)})
	if wc := b.received(verbs.StatusSuccess); wc.ID != 1 || wc.ByteLen != 5000 {
		t.Errorf("receive completion %+v", wc)
	}
	b.holds(0, 5000, 7)
	b.mr.Do(func(p []byte) {
		if p[5000] != 0 {
			t.Error("written past the receive")
		}
	})
	b.state(verbs.StateRTS)
}

// testUCRefused holds that UC drops requests in silence that RC would refuse (IBTA 9.8.3).
func testUCRefused(t *T) {
	a, b := t.pair(setup{qp: verbs.QPInit{Type: verbs.UC}})
	bad := b.at(0)
	bad.Key ^= 0x10000
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 5000), Remote: bad})
	a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)}) // no receive
	const mark = 7                                         // a WRITE behind them says that they came, and went
	a.mr.Do(func(p []byte) { p[0] = mark })
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 1), Remote: b.at(100)})
	t.ok(b.mr.WaitFor(t.within(), func(p []byte) bool { return p[100] == mark }))
	b.recv(6, 0, 64)
	t.none(b.rcq)
	a.fill(0, 8, 5)
	a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)})
	if wc := b.received(verbs.StatusSuccess); wc.ID != 6 {
		t.Errorf("received into %d, want 6", wc.ID)
	}
	b.holds(0, 8, 5)
}
