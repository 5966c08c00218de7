// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var operationTests = []test{
	{name: answerOrder, run: testAnswerOrder, needs: []Ability{Alike}},
	{name: "Op/Send/RC", run: func(t *T) { testSend(t, verbs.RC) }},
	{name: "Op/Send/UC", run: func(t *T) { testSend(t, verbs.UC) }, needs: []Ability{Unreliable}},
	{name: "Op/Write/RC", run: func(t *T) { testWrite(t, verbs.RC) }},
	{name: "Op/Write/UC", run: func(t *T) { testWrite(t, verbs.UC) }, needs: []Ability{Unreliable}},
	{name: "Op/Read", run: testRead},
	{name: "Op/OneByteMTU", run: testMTUs},
	{name: "Op/ZeroLength", run: testZeroLength},
	{name: "Op/Mixed", run: testMixed},
	{name: "Op/Self", run: testSelf},
	{name: "Op/NotOfType", run: testNotOfType},
}

// sizes are the lengths where segmentation has its edges, and long ones.
func sizes(mtu verbs.MTU) []int {
	n := mtu.Bytes()
	return []int{0, 1, 2, 3, 7, 8, n - 1, n, n + 1, 2*n - 1, 2 * n, 3*n + 5, 64 << 10, 1<<20 + 3, 4 << 20}
}

// room for the longest of them, from an odd place on.
const sizesRoom = 4<<20 + 64

func testSend(t *T, typ verbs.QPType) {
	a, b := t.pair(setup{qp: verbs.QPInit{Type: typ}, size: sizesRoom})
	for i, n := range sizes(verbs.MTU1024) {
		if typ == verbs.UC && n > 256<<10 {
			continue // messages that a socket buffer cannot hold may be dropped
		}
		for _, op := range []verbs.SendOp{verbs.OpSend, verbs.OpSendImm} {
			if t.without(op) {
				continue
			}
			a.fill(3, n, i)
			b.recv(uint64(i), 5, n)
			if wc := a.do(verbs.SendWR{ID: uint64(i), Op: op, Imm: 0x01020304 + uint32(i),
				SGL: a.sgl(3, n)}); wc.Op != verbs.WCSend || wc.ID != uint64(i) {
				t.Fatalf("send completion %+v", wc)
			}
			wc := b.received(verbs.StatusSuccess)
			if wc.Op != verbs.WCRecv || wc.ID != uint64(i) || wc.ByteLen != uint32(n) || wc.QPN != b.qp.Num() {
				t.Fatalf("receive completion %+v, want %d bytes", wc, n)
			}
			if imm := op == verbs.OpSendImm; (wc.Flags&verbs.WithImm != 0) != imm ||
				imm && wc.Imm != 0x01020304+uint32(i) {
				t.Fatalf("%v: completion with flags %v and immediate %#x", op, wc.Flags, wc.Imm)
			}
			b.holds(5, n, i)
		}
	}
}

func testWrite(t *T, typ verbs.QPType) {
	a, b := t.pair(setup{qp: verbs.QPInit{Type: typ}, size: sizesRoom})
	for i, n := range sizes(verbs.MTU1024) {
		if typ == verbs.UC && n > 256<<10 {
			continue
		}
		a.fill(1, n, i)
		b.recv(uint64(i), 0, 0)
		a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(1, n), Remote: b.at(3)})
		if typ == verbs.RC {
			b.holds(3, n, i) // acknowledged: it is there
		}
		if t.without(verbs.OpWriteImm) {
			b.holds(3, n, i)
			continue
		}
		a.fill(1, n, i+100)
		if wc := a.do(verbs.SendWR{Op: verbs.OpWriteImm, Imm: 0xfffefdfc, SGL: a.sgl(1, n),
			Remote: b.at(3)}); wc.Op != verbs.WCWrite {
			t.Fatalf("completion of %v", wc.Op)
		}
		wc := b.received(verbs.StatusSuccess)
		if wc.Op != verbs.WCRecvWriteImm || wc.ID != uint64(i) || wc.ByteLen != uint32(n) ||
			wc.Flags != verbs.WithImm || wc.Imm != 0xfffefdfc {
			t.Fatalf("receive completion %+v, want %d bytes", wc, n)
		}
		b.holds(3, n, i+100)
	}
}

func testRead(t *T) {
	a, b := t.pair(setup{size: sizesRoom})
	for i, n := range sizes(verbs.MTU1024) {
		b.fill(7, n, i)
		wc := a.do(verbs.SendWR{ID: uint64(i), Op: verbs.OpRead, SGL: a.sgl(2, n), Remote: b.at(7)})
		if wc.Op != verbs.WCRead || wc.ID != uint64(i) || wc.ByteLen != uint32(n) {
			t.Fatalf("completion %+v, want %d bytes", wc, n)
		}
		a.holds(2, n, i)
	}
}

// testMTUs goes over the edges of segmentation at every path MTU. Each has regions of its own: a READ whose responses
// were reordered is repeated, and may be carried out again when the next queue pair, perhaps of another lane, is at
// work.
func testMTUs(t *T) {
	da, db := t.devices()
	for mtu := verbs.MTU256; mtu <= value(da.Port(1))(t).ActiveMTU; mtu++ {
		a, b := t.pairOf(da, db, setup{connect: verbs.ConnectOptions{MTU: mtu}})
		for i, n := range []int{mtu.Bytes() - 1, mtu.Bytes(), mtu.Bytes() + 1, 5*mtu.Bytes() + 1} {
			a.fill(0, n, i)
			b.recv(0, 0, n)
			a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, n)})
			b.received(verbs.StatusSuccess)
			b.holds(0, n, i)
			a.fill(0, n, i+10)
			a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, n), Remote: b.at(1)})
			b.holds(1, n, i+10)
			a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(n, n), Remote: b.at(1)})
			a.holds(n, n, i+10)
		}
	}
}

// testZeroLength holds that nothing of an empty message is checked against any region.
func testZeroLength(t *T) {
	a, b := t.pair(setup{})
	nowhere := verbs.Remote{Addr: 0xdead0000, Key: 0x12345600}
	a.do(verbs.SendWR{Op: verbs.OpWrite, Remote: nowhere})
	a.do(verbs.SendWR{Op: verbs.OpRead, Remote: nowhere})
	a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{{Addr: 1, LKey: 2}, {Addr: 3, LKey: 4}}, Remote: nowhere})
	t.ok(b.qp.PostRecv(&verbs.RecvWR{ID: 1}))
	t.ok(b.qp.PostRecv(&verbs.RecvWR{ID: 2}))
	a.do(verbs.SendWR{Op: verbs.OpSend})
	if !t.without(verbs.OpWriteImm) {
		a.do(verbs.SendWR{Op: verbs.OpWriteImm, Imm: 7, Remote: nowhere})
	}
	if wc := b.received(verbs.StatusSuccess); wc.ID != 1 || wc.ByteLen != 0 {
		t.Errorf("receive completion %+v", wc)
	}
	if t.without(verbs.OpWriteImm) {
		return
	}
	if wc := b.received(verbs.StatusSuccess); wc.ID != 2 || wc.ByteLen != 0 || wc.Imm != 7 {
		t.Errorf("receive completion %+v", wc)
	}
}

// testMixed has everything under way at once: completions come in the order of posting.
func testMixed(t *T) {
	const n = 5000
	a, b := t.pair(setup{qp: verbs.QPInit{Cap: verbs.QPCap{MaxSendWR: 256, MaxRecvWR: 256}}})
	for i := range 40 {
		b.recv(uint64(i), 0, n)
	}
	var list []verbs.SendWR
	for i := range 40 {
		list = append(list,
			verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, n), Remote: b.at(n)},
			verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(n, n+i), Remote: b.at(2 * n)},
			verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, i)},
			verbs.SendWR{Op: verbs.OpFetchAdd, Add: 3, SGL: a.sgl(3*n, 8), Remote: b.at(40000)})
	}
	list = slices.DeleteFunc(list, func(wr verbs.SendWR) bool { return t.without(wr.Op) })
	for i := range list {
		list[i].ID, list[i].Flags = uint64(i), verbs.Signaled
	}
	if posted, err := a.qp.PostSendList(list); posted != len(list) || err != nil {
		t.Fatalf("posted %d of %d: %v", posted, len(list), err)
	}
	for i := range list {
		if wc := a.sent(verbs.StatusSuccess); wc.ID != uint64(i) {
			t.Fatalf("completion of %d, want %d", wc.ID, i)
		}
	}
	for i := range 40 {
		if wc := b.received(verbs.StatusSuccess); wc.ID != uint64(i) || wc.ByteLen != uint32(i) {
			t.Fatalf("receive %d of %d bytes, want %d", wc.ID, wc.ByteLen, i)
		}
	}
	if !t.without(verbs.OpFetchAdd) {
		b.same(40000, word(40*3))
	}
}

// testSelf connects a queue pair to another one of its own device, and to itself.
func testSelf(t *T) {
	dev, _ := t.devices()
	a, b := t.newEnd(dev, setup{}), t.newEnd(dev, setup{})
	a.addQP(verbs.QPInit{})
	b.addQP(verbs.QPInit{})
	t.join(a, b, verbs.ConnectOptions{})
	both := func(a, b *end, seed int) {
		t.Helper()
		const n = 20000
		a.fill(0, n, seed)
		b.recv(1, n, n)
		a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, n)})
		b.received(verbs.StatusSuccess)
		b.holds(n, n, seed)
		a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(2*n, n), Remote: b.at(n)})
		a.holds(2*n, n, seed)
	}
	both(a, b, 1)
	both(b, a, 2)
	a.addQP(verbs.QPInit{})
	t.ok(a.qp.Connect(a.ep, a.ep, &verbs.ConnectOptions{Timeout: patient}))
	both(a, a, 3)
}

// testNotOfType holds that each transport refuses the operations it does not have
// (IBTA 9.2).
func testNotOfType(t *T) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	lacks := map[verbs.QPType][]verbs.SendOp{
		verbs.UC: {verbs.OpSendInv, verbs.OpRead, verbs.OpCompareSwap, verbs.OpFetchAdd, verbs.OpAtomicWrite,
			verbs.OpFlush},
		verbs.UD: {verbs.OpSendInv, verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead, verbs.OpCompareSwap,
			verbs.OpFetchAdd, verbs.OpAtomicWrite, verbs.OpFlush,
			verbs.OpLocalInv, verbs.OpBindMW},
		verbs.RC: {0, 99},
	}
	for typ, ops := range lacks {
		if _, missing := t.f.Missing[map[verbs.QPType]Ability{verbs.UC: Unreliable,
			verbs.UD: Datagrams}[typ]]; missing {
			continue
		}
		if typ == verbs.RC {
			e, _ = t.pair(setup{})
		} else {
			e.inState(typ, verbs.StateRTS, nil)
		}
		for _, op := range ops {
			err := e.qp.PostSend(&verbs.SendWR{Op: op, SGL: e.sgl(0, 8), Remote: e.at(0)})
			t.fails(err, verbs.ErrInvalid)
			if op != 0 && op != 99 {
				t.fails(err, verbs.ErrInvalid, op.String(), fmt.Sprint(typ))
			}
		}
		t.none(e.scq)
	}
}
