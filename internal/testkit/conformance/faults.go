// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// silent is the result of a message that a receiver drops: the next one has the receive (IBTA 9.8.2, 9.8.3).
const silent = "success in RTS, then receive 1: success, peer in RTS"

// sendFault is the result of a message that cannot be sent: its queue waits for the program (IBTA 10.3.1.5).
const sendFault = "local protection error in SQE"

// unreliableFacts are faults of messages that are not acknowledged.
var unreliableFacts = []fact{
	{name: "UC/Key/Write", find: lostUC(verbs.OpWrite, wrongKey), want: silent, needs: []Ability{Unreliable}},
	{name: "UC/Key/WriteImm", find: lostUC(verbs.OpWriteImm, wrongKey), want: silent, needs: []Ability{Unreliable}},
	{name: "UC/Bounds/Write", find: lostUC(verbs.OpWrite, outside), want: silent, needs: []Ability{Unreliable}},
	{name: "UC/Owner/Write", find: lostUC(verbs.OpWrite, otherOwner), want: silent, needs: []Ability{Unreliable}},
	{name: "UC/Right/Write", find: lostUC(verbs.OpWrite, noRightTo(verbs.LocalWrite|verbs.RemoteRead)),
		want: silent, needs: []Ability{Unreliable}},
	{name: "UC/Receive/TooShort", find: lostUC(verbs.OpSend, longer), want: silent, needs: []Ability{Unreliable}},
	{name: "UC/Receive/BadKey", find: badReceiveUC,
		want: "success in RTS, then receive 1: local protection error, peer in ERR", needs: []Ability{Unreliable}},
	{name: "UC/LocalKey/Send", find: unsentUC(verbs.OpSend), want: sendFault, needs: []Ability{Unreliable}},
	{name: "UC/LocalKey/Write", find: unsentUC(verbs.OpWrite), want: sendFault, needs: []Ability{Unreliable}},
	{name: "UD/QKey", find: lostUD(func(x *verbs.SendWR) { x.RemoteQKey++ }),
		want: silent, needs: []Ability{Datagrams}},
	{name: "UD/Number", find: lostUD(func(x *verbs.SendWR) { x.RemoteQPN ^= 0x800000 }),
		want: silent, needs: []Ability{Datagrams}},
	{name: "UD/Receive/TooShort", find: lostUD(func(x *verbs.SendWR) { x.SGL[0].Length = 128 }),
		want: silent, needs: []Ability{Datagrams}},
	{name: "UD/Receive/BadKey", find: badReceiveUD,
		want: "success in RTS, then receive 1: local protection error, peer in ERR", needs: []Ability{Datagrams}},
	{name: "UD/LocalKey", find: unsentUD(func(x *verbs.SendWR) { x.SGL[0].LKey ^= 0x10000 }),
		want: sendFault, needs: []Ability{Datagrams}},
	{name: "UD/TooLong", find: unsentUD(func(x *verbs.SendWR) { x.SGL[0].Length = 4097 }),
		want: "local length error in SQE", needs: []Ability{Datagrams}},
}

func longer(_ *T, x *attempt) { x.wr.SGL = x.a.sgl(0, 65) }

// afterwards sends a message that can be received, and returns the results of the message before it, and of the
// receive.
func (a *end) afterwards(b *end, good verbs.SendWR) string {
	t := a.t
	t.Helper()
	status := t.next(a.scq).Status
	state := a.qp.State()
	a.do(good)
	wc := t.next(b.rcq)
	return fmt.Sprintf("%v in %v, then receive %d: %v, peer in %v", status, state, wc.ID, wc.Status, b.qp.State())
}

// unanswered makes two ends of UC, the second with a receive of 64 bytes.
func (t *T) unanswered() (a, b *end) {
	a, b = t.pair(setup{qp: verbs.QPInit{Type: verbs.UC}})
	b.recv(1, 0, 64)
	return a, b
}

// lostUC posts a message over UC that the receiver has to drop.
func lostUC(op verbs.SendOp, wrong func(*T, *attempt)) func(*T) string {
	return func(t *T) string {
		a, b := t.unanswered()
		x := &attempt{a, b, verbs.SendWR{Op: op, SGL: a.sgl(0, 8)}}
		if op != verbs.OpSend {
			x.wr.Remote = b.at(0)
		}
		wrong(t, x)
		a.post(x.wr)
		return a.afterwards(b, verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)})
	}
}

func badReceiveUC(t *T) string {
	a, b := t.pair(setup{qp: verbs.QPInit{Type: verbs.UC}})
	list := b.sgl(0, 64)
	list[0].LKey ^= 0x10000
	t.ok(b.qp.PostRecv(&verbs.RecvWR{ID: 1, SGL: list}))
	good := verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)}
	a.post(good)
	return a.afterwards(b, good)
}

// unsentUC posts a message over UC from memory of which it has no key.
func unsentUC(op verbs.SendOp) func(*T) string {
	return func(t *T) string {
		a, b := t.unanswered()
		x := &attempt{a, b, verbs.SendWR{Op: op, SGL: a.sgl(0, 8)}}
		if op != verbs.OpSend {
			x.wr.Remote = b.at(0)
		}
		wrongLocalKey(t, x)
		return a.unsent(x.wr)
	}
}

func (a *end) unsent(wr verbs.SendWR) string {
	a.post(wr)
	status := a.t.next(a.scq).Status
	return fmt.Sprintf("%v in %v", status, a.qp.State())
}

// lostUD posts a datagram that the receiver has to drop.
func lostUD(wrong func(*verbs.SendWR)) func(*T) string {
	return func(t *T) string {
		a, b, ah := datagramPair(t)
		b.recv(1, 0, grhLen+64)
		wr := a.datagram(ah, b, 8)
		wrong(&wr)
		a.post(wr)
		return a.afterwards(b, a.datagram(ah, b, 8))
	}
}

func badReceiveUD(t *T) string {
	a, b, ah := datagramPair(t)
	list := b.sgl(0, grhLen+64)
	list[0].LKey ^= 0x10000
	t.ok(b.qp.PostRecv(&verbs.RecvWR{ID: 1, SGL: list}))
	a.post(a.datagram(ah, b, 8))
	return a.afterwards(b, a.datagram(ah, b, 8))
}

// unsentUD posts a datagram that cannot be sent.
func unsentUD(wrong func(*verbs.SendWR)) func(*T) string {
	return func(t *T) string {
		a, b, ah := datagramPair(t)
		wr := a.datagram(ah, b, 8)
		wrong(&wr)
		return a.unsent(wr)
	}
}

const (
	unbindable   = "memory management operation error in ERR"
	nothingBound = "memory management operation error in ERR, the key stays"
)

// windowFacts are faults of memory windows. Faults with Bind are of the side that binds.
var windowFacts = []fact{
	{name: "MW/Bounds/Read", find: refusal(verbs.OpRead, window(verbs.MWType2, windowAccess), past),
		want: accessError, needs: []Ability{Windows}},
	{name: "MW/Bounds1/Read", find: refusal(verbs.OpRead, window(verbs.MWType1, windowAccess), past),
		want: accessError, needs: []Ability{Windows}},
	{name: "MW/Right/Write", find: refusal(verbs.OpWrite, window(verbs.MWType2, verbs.RemoteRead)),
		want: accessError, needs: []Ability{Windows}},
	{name: "MW/Right/Read", find: refusal(verbs.OpRead, window(verbs.MWType2, verbs.RemoteWrite)),
		want: accessError, needs: []Ability{Windows}},
	{name: "MW/Right/FetchAdd", find: refusal(verbs.OpFetchAdd, window(verbs.MWType2, verbs.RemoteWrite)),
		want: accessError, needs: []Ability{Windows, Atomics}},
	{name: "MW/Unbound/Read", find: refusal(verbs.OpRead, unbound(verbs.MWType2)),
		want: accessError, needs: []Ability{Windows}},
	{name: "MW/Unbound1/Read", find: refusal(verbs.OpRead, unbound(verbs.MWType1)),
		want: accessError, needs: []Ability{Windows}},
	{name: "MW/Invalidated/Read", find: refusal(verbs.OpRead, window(verbs.MWType2, windowAccess), invalidatedWindow),
		want: accessError, needs: []Ability{Windows}},
	{name: "MW/OtherQP/Read", find: refusal(verbs.OpRead, otherQPsWindow),
		want: accessError, needs: []Ability{Windows}},
	{name: "MW/Bind/Twice", find: boundTwice, want: nothingBound, needs: []Ability{Windows}},
	{name: "MW/Bind/RegionRight", find: unbound2(func(e *end, b *verbs.MWBindInfo) {
		b.MR = value(e.pd.RegMR(make([]byte, 64), everything&^verbs.MWBind))(e.t)
		b.Addr = b.MR.Addr()
	}), want: nothingBound, needs: []Ability{Windows}},
	{name: "MW/Bind/RegionOwner", find: unbound2(func(e *end, b *verbs.MWBindInfo) {
		b.MR = e.t.newEnd(e.dev, setup{}).mr
		b.Addr = b.MR.Addr()
	}), want: nothingBound, needs: []Ability{Windows}},
	{name: "MW/Bind/Bounds", find: unbound2(func(e *end, b *verbs.MWBindInfo) { b.Addr += 1 << 16 }),
		want: nothingBound, needs: []Ability{Windows}},
	{name: "MW/Bind/NoBytes", find: unbound2(func(_ *end, b *verbs.MWBindInfo) { b.Length = 0 }),
		want: nothingBound, needs: []Ability{Windows}},
	{name: "MW/Invalidate/NoKey", find: uninvalidated(func(e *end) verbs.Key { return e.mr.RKey() ^ 0x10000 }),
		want: unbindable, needs: []Ability{Windows}},
	{name: "MW/Invalidate/Region", find: uninvalidated(func(e *end) verbs.Key { return e.mr.RKey() }),
		want: unbindable, needs: []Ability{Windows}},
	{name: "MW/Invalidate/Type1", find: uninvalidated((*end).bound1), want: unbindable, needs: []Ability{Windows}},
}

func past(_ *T, x *attempt) { x.wr.Remote.Addr += 64 }

// window has a request name a window of 64 bytes with that access.
func window(typ verbs.MWType, access verbs.Access) func(*T, *attempt) {
	return func(t *T, x *attempt) { x.wr.Remote = x.b.window(typ, access) }
}

func (e *end) window(typ verbs.MWType, access verbs.Access) verbs.Remote {
	t := e.t
	mw := value(e.pd.AllocMW(typ))(t)
	bind := verbs.MWBindInfo{MW: mw, MR: e.mr, Addr: e.mr.Addr(), Length: 64, Access: access}
	if typ == verbs.MWType1 {
		t.ok(e.qp.BindMW(0, verbs.Signaled, bind))
		e.sent(verbs.StatusSuccess)
	} else {
		bind.RKey = mw.NextRKey()
		e.do(verbs.SendWR{Op: verbs.OpBindMW, Bind: &bind})
	}
	return verbs.Remote{Addr: bind.Addr, Key: mw.RKey()}
}

func unbound(typ verbs.MWType) func(*T, *attempt) {
	return func(t *T, x *attempt) { x.wr.Remote.Key = value(x.b.pd.AllocMW(typ))(t).RKey() }
}

func invalidatedWindow(_ *T, x *attempt) {
	x.b.do(verbs.SendWR{Op: verbs.OpLocalInv, InvKey: x.wr.Remote.Key})
}

// otherQPsWindow binds a window with another queue pair of the same protection domain.
func otherQPsWindow(t *T, x *attempt) {
	a, b := *x.a, *x.b
	a.addQP(verbs.QPInit{})
	b.addQP(verbs.QPInit{})
	t.join(&a, &b, verbs.ConnectOptions{})
	x.wr.Remote = b.window(verbs.MWType2, windowAccess)
}

// unbound2 tries to bind a type 2 window, and returns the states of the queue pair and of the window's key.
func unbound2(wrong func(*end, *verbs.MWBindInfo)) func(*T) string {
	return func(t *T) string {
		_, b := t.pair(setup{})
		mw := value(b.pd.AllocMW(verbs.MWType2))(t)
		return b.unbound(mw, wrong)
	}
}

func boundTwice(t *T) string {
	_, b := t.pair(setup{})
	mw := value(b.pd.AllocMW(verbs.MWType2))(t)
	b.bind2(mw, windowAccess)
	return b.unbound(mw, func(*end, *verbs.MWBindInfo) {})
}

func (e *end) unbound(mw *verbs.MW, wrong func(*end, *verbs.MWBindInfo)) string {
	before := mw.RKey()
	bind := verbs.MWBindInfo{MW: mw, MR: e.mr, RKey: mw.NextRKey(), Addr: e.mr.Addr(), Length: 64, Access: windowAccess}
	wrong(e, &bind)
	e.post(verbs.SendWR{Op: verbs.OpBindMW, Bind: &bind})
	status := e.t.next(e.scq).Status
	key := "the key stays"
	if mw.RKey() != before {
		key = "the key changes"
	}
	return fmt.Sprintf("%v in %v, %s", status, e.qp.State(), key)
}

// uninvalidated tries to invalidate a key of its own.
func uninvalidated(key func(*end) verbs.Key) func(*T) string {
	return func(t *T) string {
		_, b := t.pair(setup{})
		return b.unsent(verbs.SendWR{Op: verbs.OpLocalInv, InvKey: key(b)})
	}
}
