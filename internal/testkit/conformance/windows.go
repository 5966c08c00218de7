// SPDX-License-Identifier: Apache-2.0

package conformance

import "github.com/ramjet-rdma/ramjet/verbs"

var windowTests = []test{
	{name: "MW/Type1", run: testWindow1, needs: []Ability{Windows}},
	{name: "MW/Type2", run: testWindow2, needs: []Ability{Windows}},
	{name: "MW/KeyPortion", run: testKeyPortion, needs: []Ability{Windows}},
	{name: "MW/LocalInvalidate", run: testLocalInvalidate, needs: []Ability{Windows}},
	{name: "MW/RemoteInvalidate", run: testRemoteInvalidate, needs: []Ability{Windows}},
	{name: "MW/Bounds", run: testWindowBounds, needs: []Ability{Windows}},
	{name: "MW/ZeroBased", run: testWindowZeroBased, needs: []Ability{Windows}},
	{name: "MW/BindRefused", run: testBindRefused, needs: []Ability{Windows}},
	{name: "MW/OtherQP", run: testWindowOtherQP, needs: []Ability{Windows}},
	{name: "MW/Busy", run: testWindowBusy, needs: []Ability{Windows}},
	{name: "MW/Invalidates", run: testInvalidateRefused, needs: []Ability{Windows}},
	{name: "MW/Alloc", run: testAllocWindow, needs: []Ability{Windows}},
}

const windowAccess = verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic

// bind2 binds a type 2 window to 100 bytes at 50 of the end's region and returns its key.
func (e *end) bind2(mw *verbs.MW, access verbs.Access) verbs.Key {
	e.t.Helper()
	key := mw.NextRKey()
	wc := e.do(verbs.SendWR{Op: verbs.OpBindMW,
		Bind: &verbs.MWBindInfo{MW: mw, MR: e.mr, RKey: key, Addr: e.mr.Addr() + 50, Length: 100, Access: access}})
	if wc.Op != verbs.WCBindMW {
		e.t.Fatalf("completion of %v", wc.Op)
	}
	if mw.RKey() != key {
		e.t.Fatalf("window has key %#x, bound with %#x", mw.RKey(), key)
	}
	return key
}

func testAllocWindow(t *T) {
	dev, _ := t.devices()
	pd := value(dev.AllocPD())(t)
	for _, typ := range []verbs.MWType{0, 3} {
		_, err := pd.AllocMW(typ)
		t.fails(err, verbs.ErrInvalid)
	}
	mw := value(pd.AllocMW(verbs.MWType1))(t)
	if mw.Type() != verbs.MWType1 || mw.RKey() == 0 {
		t.Errorf("window of type %v with key %#x", mw.Type(), mw.RKey())
	}
	t.fails(pd.Close(), verbs.ErrBusy)
	t.ok(mw.Close())
	t.ok(mw.Close())
	t.ok(pd.Close())
}

func testWindow1(t *T) {
	a, b := t.pair(setup{})
	mw := value(b.pd.AllocMW(verbs.MWType1))(t)
	unbound := mw.RKey()
	t.ok(b.qp.BindMW(5, verbs.Signaled, verbs.MWBindInfo{MW: mw, MR: b.mr, Addr: b.mr.Addr() + 8, Length: 64,
		Access: windowAccess}))
	if wc := b.sent(verbs.StatusSuccess); wc.ID != 5 || wc.Op != verbs.WCBindMW {
		t.Errorf("completion %+v", wc)
	}
	bound := mw.RKey()
	if bound == unbound {
		t.Error("the key did not change")
	}
	a.fill(0, 64, 1)
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 64), Remote: verbs.Remote{Addr: b.mr.Addr() + 8, Key: bound}})
	b.holds(8, 64, 1)
	a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(100, 64), Remote: verbs.Remote{Addr: b.mr.Addr() + 8, Key: bound}})
	a.do(verbs.SendWR{Op: verbs.OpFetchAdd, Add: 1, SGL: a.sgl(200, 8),
		Remote: verbs.Remote{Addr: b.mr.Addr() + 16, Key: bound}})
	// Binding it again ends the old binding; length 0 unbinds.
	t.ok(b.qp.BindMW(6, verbs.Signaled, verbs.MWBindInfo{MW: mw, MR: b.mr, Addr: b.mr.Addr(), Length: 8,
		Access: verbs.RemoteRead}))
	b.sent(verbs.StatusSuccess)
	if mw.RKey() == bound {
		t.Error("the key did not change")
	}
	a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, 8), Remote: verbs.Remote{Addr: b.mr.Addr(), Key: mw.RKey()}})
	t.fails(b.mr.Close(), verbs.ErrBusy)
	t.ok(b.qp.BindMW(7, verbs.Signaled, verbs.MWBindInfo{MW: mw}))
	b.sent(verbs.StatusSuccess)
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, 8), Remote: verbs.Remote{Addr: b.mr.Addr(), Key: mw.RKey()}})
	a.sent(verbs.StatusRemoteAccessError)
	t.ok(b.mr.Close())
}

func testWindow2(t *T) {
	a, b := t.pair(setup{})
	mw := value(b.pd.AllocMW(verbs.MWType2))(t)
	key := b.bind2(mw, windowAccess)
	a.fill(0, 100, 1)
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 100), Remote: verbs.Remote{Addr: b.mr.Addr() + 50, Key: key}})
	b.holds(50, 100, 1)
	a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(200, 100), Remote: verbs.Remote{Addr: b.mr.Addr() + 50, Key: key}})
	a.holds(200, 100, 1)
	// It must be invalidated before it can be bound again (IBTA 10.6.7.2.2).
	b.post(verbs.SendWR{Op: verbs.OpBindMW, Bind: &verbs.MWBindInfo{MW: mw, MR: b.mr, RKey: mw.NextRKey(),
		Addr: b.mr.Addr(), Length: 8}})
	b.sent(verbs.StatusMWBindError)
	b.state(verbs.StateError)
}

// testKeyPortion holds that a type 2 window takes the low 8 bits of the requested key
// (IBTA 10.6.7.2.2).
func testKeyPortion(t *T) {
	a, b := t.pair(setup{})
	mw := value(b.pd.AllocMW(verbs.MWType2))(t)
	own := mw.RKey() &^ 0xff
	for _, asked := range []verbs.Key{0x7f, own ^ 0x5500 | 0x12, b.mr.RKey()} {
		b.do(verbs.SendWR{Op: verbs.OpBindMW,
			Bind: &verbs.MWBindInfo{MW: mw, MR: b.mr, RKey: asked, Addr: b.mr.Addr(), Length: 8, Access: windowAccess}})
		if want := own | asked&0xff; mw.RKey() != want {
			t.Fatalf("bound with %#x, the window's key is %#x, want %#x", asked, mw.RKey(), want)
		}
		a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, 8), Remote: verbs.Remote{Addr: b.mr.Addr(), Key: mw.RKey()}})
		b.do(verbs.SendWR{Op: verbs.OpLocalInv, InvKey: mw.RKey()})
	}
}

func testLocalInvalidate(t *T) {
	a, b := t.pair(setup{})
	mw := value(b.pd.AllocMW(verbs.MWType2))(t)
	key := b.bind2(mw, windowAccess)
	if wc := b.do(verbs.SendWR{Op: verbs.OpLocalInv, InvKey: key}); wc.Op != verbs.WCLocalInv {
		t.Errorf("completion of %v", wc.Op)
	}
	key = b.bind2(mw, windowAccess)
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: verbs.Remote{Addr: b.mr.Addr() + 50, Key: key}})
	// the WRITE is there
	a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(8, 8), Remote: verbs.Remote{Addr: b.mr.Addr() + 50, Key: key}})
	b.do(verbs.SendWR{Op: verbs.OpLocalInv, InvKey: key})
	t.ok(b.mr.Close())
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: verbs.Remote{Addr: b.mr.Addr() + 50, Key: key}})
	a.turnedDown(verbs.StatusRemoteAccessError)
}

func testRemoteInvalidate(t *T) {
	a, b := t.pair(setup{})
	mw := value(b.pd.AllocMW(verbs.MWType2))(t)
	for _, n := range []int{8, 5000} {
		key := b.bind2(mw, windowAccess)
		b.recv(1, 1000, n)
		a.fill(0, n, n)
		a.do(verbs.SendWR{Op: verbs.OpSendInv, InvKey: key, SGL: a.sgl(0, n)})
		wc := b.received(verbs.StatusSuccess)
		if wc.Flags != verbs.WithInv || wc.InvKey != key || wc.ByteLen != uint32(n) {
			t.Errorf("receive completion %+v, want key %#x", wc, key)
		}
		b.holds(1000, n, n)
	}
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 8),
		Remote: verbs.Remote{Addr: b.mr.Addr() + 50, Key: mw.RKey()}})
	a.turnedDown(verbs.StatusRemoteAccessError)
}

func testWindowBounds(t *T) {
	da, db := t.devices()
	for name, c := range map[string]struct {
		off, n int
		op     verbs.SendOp
		access verbs.Access
	}{
		"before":    {49, 1, verbs.OpRead, windowAccess},
		"after":     {150, 1, verbs.OpRead, windowAccess},
		"across":    {100, 51, verbs.OpWrite, windowAccess},
		"no read":   {50, 8, verbs.OpRead, verbs.RemoteWrite},
		"no write":  {50, 8, verbs.OpWrite, verbs.RemoteRead},
		"no atomic": {56, 8, verbs.OpFetchAdd, verbs.RemoteRead | verbs.RemoteWrite},
	} {
		a, b := t.pairOf(da, db, setup{})
		key := b.bind2(value(b.pd.AllocMW(verbs.MWType2))(t), c.access)
		t.Logf("%s", name)
		a.post(verbs.SendWR{Op: c.op, SGL: a.sgl(0, c.n),
			Remote: verbs.Remote{Addr: b.mr.Addr() + uint64(c.off), Key: key}})
		a.turnedDown(verbs.StatusRemoteAccessError)
	}
}

func testWindowZeroBased(t *T) {
	a, b := t.pair(setup{})
	key := b.bind2(value(b.pd.AllocMW(verbs.MWType2))(t), windowAccess|verbs.ZeroBased)
	a.fill(0, 100, 1)
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 100), Remote: verbs.Remote{Key: key}})
	b.holds(50, 100, 1)
}

func testBindRefused(t *T) {
	da, db := t.devices()
	for name, change := range map[string]func(e *end, b *verbs.MWBindInfo){
		"region without MWBind": func(e *end, b *verbs.MWBindInfo) {
			b.MR = value(e.pd.RegMR(make([]byte, 100), everything&^verbs.MWBind))(e.t)
			b.Addr = b.MR.Addr()
		},
		"write without LocalWrite": func(e *end, b *verbs.MWBindInfo) {
			b.MR = value(e.pd.RegMR(make([]byte, 100), verbs.RemoteRead|verbs.MWBind))(e.t)
			b.Addr = b.MR.Addr()
		},
		"past the end":   func(e *end, b *verbs.MWBindInfo) { b.Length = 1<<16 + 1 },
		"length 0":       func(_ *end, b *verbs.MWBindInfo) { b.Length = 0 },
		"unknown access": func(_ *end, b *verbs.MWBindInfo) { b.Access |= verbs.MWBind },
		"window's domain": func(e *end, b *verbs.MWBindInfo) {
			b.MW = value(value(e.dev.AllocPD())(e.t).AllocMW(verbs.MWType2))(e.t)
			b.RKey = b.MW.NextRKey()
		},
		"region's domain": func(e *end, b *verbs.MWBindInfo) {
			b.MR = value(value(e.dev.AllocPD())(e.t).RegMR(make([]byte, 100), everything))(e.t)
			b.Addr = b.MR.Addr()
		},
		"closed region": func(e *end, b *verbs.MWBindInfo) { e.t.ok(b.MR.Close()) },
		"closed window": func(e *end, b *verbs.MWBindInfo) { e.t.ok(b.MW.Close()) },
	} {
		_, b := t.pairOf(da, db, setup{})
		mw := value(b.pd.AllocMW(verbs.MWType2))(t)
		info := verbs.MWBindInfo{MW: mw, MR: b.mr, RKey: mw.NextRKey(), Addr: b.mr.Addr(), Length: 100,
			Access: windowAccess}
		change(b, &info)
		b.post(verbs.SendWR{Op: verbs.OpBindMW, Bind: &info})
		if wc := t.next(b.scq); wc.Status != verbs.StatusMWBindError {
			t.Errorf("%s: %v", name, wc.Status)
		}
	}
	_, b := t.pair(setup{})
	two := value(b.pd.AllocMW(verbs.MWType2))(t)
	t.fails(b.qp.BindMW(0, 0, verbs.MWBindInfo{MW: two, MR: b.mr, Length: 8}), verbs.ErrInvalid)
	t.fails(b.qp.BindMW(0, 0, verbs.MWBindInfo{MR: b.mr, Length: 8}), verbs.ErrInvalid)
	t.fails(b.qp.PostSend(&verbs.SendWR{Op: verbs.OpBindMW}), verbs.ErrInvalid)
}

// testWindowOtherQP holds that a type 2 window works on the queue pair it was bound with
// only, and one of type 1 on all of the domain.
func testWindowOtherQP(t *T) {
	a, b := t.pair(setup{})
	one, two := value(b.pd.AllocMW(verbs.MWType1))(t), value(b.pd.AllocMW(verbs.MWType2))(t)
	b.bind2(two, windowAccess)
	t.ok(b.qp.BindMW(0, verbs.Signaled, verbs.MWBindInfo{MW: one, MR: b.mr, Addr: b.mr.Addr(), Length: 8,
		Access: windowAccess}))
	b.sent(verbs.StatusSuccess)
	a.addQP(verbs.QPInit{})
	b.addQP(verbs.QPInit{})
	t.join(a, b, verbs.ConnectOptions{})
	a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, 8), Remote: verbs.Remote{Addr: b.mr.Addr(), Key: one.RKey()}})
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, 8),
		Remote: verbs.Remote{Addr: b.mr.Addr() + 50, Key: two.RKey()}})
	a.sent(verbs.StatusRemoteAccessError)
}

func testWindowBusy(t *T) {
	a, b := t.pair(setup{})
	mw := value(b.pd.AllocMW(verbs.MWType2))(t)
	key := b.bind2(mw, windowAccess)
	t.fails(b.mr.Close(), verbs.ErrBusy)
	t.fails(b.mr.Rereg(verbs.ReregAccess, nil, nil, verbs.LocalWrite), verbs.ErrBusy)
	a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, 8), Remote: verbs.Remote{Addr: b.mr.Addr() + 50, Key: key}})
	t.ok(mw.Close())
	t.ok(b.mr.Close())
	a.post(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, 8), Remote: verbs.Remote{Addr: b.mr.Addr() + 50, Key: key}})
	a.sent(verbs.StatusRemoteAccessError)
}

// testInvalidateRefused tries to invalidate keys that cannot be. The receiver of a SEND has the error
// then: InfiniBand does not report it to the sender (IBTA 9.9.6.3, class J), iWARP ends the stream.
func testInvalidateRefused(t *T) {
	da, db := t.devices()
	for name, key := range map[string]func(e *end) verbs.Key{
		"nothing":       func(e *end) verbs.Key { return e.mr.RKey() ^ 0x10000 },
		"a region":      func(e *end) verbs.Key { return e.mr.RKey() },
		"not bound":     func(e *end) verbs.Key { return value(e.pd.AllocMW(verbs.MWType2))(e.t).RKey() },
		"type 1, bound": (*end).bound1, "an earlier key": func(e *end) verbs.Key {
			return e.bind2(value(e.pd.AllocMW(verbs.MWType2))(e.t), windowAccess) - 1
		},
	} {
		_, b := t.pairOf(da, db, setup{})
		b.post(verbs.SendWR{Op: verbs.OpLocalInv, InvKey: key(b)})
		if wc := t.next(b.scq); wc.Status != verbs.StatusMWBindError {
			t.Errorf("local, %s: %v", name, wc.Status)
		}
		a, b := t.pairOf(da, db, setup{})
		k := key(b)
		b.recv(1, 0, 8)
		a.post(verbs.SendWR{Op: verbs.OpSendInv, InvKey: k, SGL: a.sgl(0, 8)})
		if wc := t.next(b.rcq); wc.Status != verbs.StatusRemoteInvalidRequestError {
			t.Errorf("remote, %s: the receive completed with %v", name, wc.Status)
		}
		b.state(verbs.StateError)
	}
}

// bound1 binds a type 1 window and returns its key.
func (e *end) bound1() verbs.Key {
	e.t.Helper()
	mw := value(e.pd.AllocMW(verbs.MWType1))(e.t)
	e.t.ok(e.qp.BindMW(0, verbs.Signaled, verbs.MWBindInfo{MW: mw, MR: e.mr, Addr: e.mr.Addr(), Length: 8,
		Access: windowAccess}))
	e.sent(verbs.StatusSuccess)
	return mw.RKey()
}
