// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var retryTests = []test{
	{name: "RNR/Exceeded", run: testRNRExceeded, needs: []Ability{Numbered}},
	{name: "RNR/Late", run: testRNRLate},
	{name: "RNR/WriteImm", run: testRNRWriteImm, needs: []Ability{WriteWithImm}},
	{name: "Retry/Absent", run: testRetryAbsent, needs: []Ability{Numbered}},
	{name: "Retry/PeerCloses", run: testPeerCloses, needs: []Ability{TwoDevices}},
	{name: "Retry/PeerErrs", run: testPeerErrs},
}

func testRNRExceeded(t *T) {
	// A retry count of zero cannot be had through Connect, whose zero is the default.
	for count := range uint8(3) {
		da, db := t.devices()
		a, b := t.newEnd(da, setup{}), t.newEnd(db, setup{})
		for _, e := range []*end{a, b} {
			e.addQP(verbs.QPInit{})
		}
		for _, c := range [][2]*end{{a, b}, {b, a}} {
			attr := attributes(c[1].ep)
			attr.RNRRetry, attr.MinRNRTimer, attr.Timeout, attr.SQPSN = count, 1, 20, c[0].ep.PSN
			for _, s := range []verbs.QPState{verbs.StateInit, verbs.StateRTR, verbs.StateRTS} {
				attr.State = s
				t.ok(c[0].qp.Modify(attr, verbs.MaskState|neededBy(verbs.RC, s)))
			}
		}
		a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)})
		a.sent(verbs.StatusRNRRetryExceeded)
		a.state(verbs.StateError)
		if s := b.qp.State(); s != verbs.StateRTS {
			t.Errorf("the receiver is in %v", s)
		}
	}
}

func testRNRLate(t *T) {
	a, b := t.pair(setup{connect: verbs.ConnectOptions{MinRNRTimer: 1}}) // retries for ever
	for i := range 3 {
		a.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpSend, SGL: a.sgl(0, 6000)})
	}
	a.waits()
	for i := range 3 {
		b.recv(uint64(i), 0, 6000)
	}
	for i := range 3 {
		if wc := a.sent(verbs.StatusSuccess); wc.ID != uint64(i) {
			t.Errorf("completion of %d, want %d", wc.ID, i)
		}
		if wc := b.received(verbs.StatusSuccess); wc.ID != uint64(i) {
			t.Errorf("received into %d, want %d", wc.ID, i)
		}
	}
}

// testRNRWriteImm has a long WRITE meet the missing receive at its last packet.
func testRNRWriteImm(t *T) {
	a, b := t.pair(setup{connect: verbs.ConnectOptions{MinRNRTimer: 1}})
	a.fill(0, 20000, 3)
	a.post(verbs.SendWR{Op: verbs.OpWriteImm, Imm: 5, SGL: a.sgl(0, 20000), Remote: b.at(0)})
	a.waits()
	b.recv(1, 0, 0)
	a.sent(verbs.StatusSuccess)
	if wc := b.received(verbs.StatusSuccess); wc.Imm != 5 || wc.ByteLen != 20000 {
		t.Errorf("receive completion %+v", wc)
	}
	b.holds(0, 20000, 3)
}

// quick is a timeout of 1 ms and one retry.
var quick = verbs.ConnectOptions{Timeout: 8, RetryCount: 1}

func testRetryAbsent(t *T) {
	dev, _ := t.devices()
	ends := map[verbs.SendOp]*end{verbs.OpSend: nil, verbs.OpWrite: nil, verbs.OpRead: nil, verbs.OpFetchAdd: nil}
	for op := range ends {
		e := t.newEnd(dev, setup{})
		ends[op] = e
		e.addQP(verbs.QPInit{})
		t.ok(e.qp.Connect(e.ep, absent(e), &quick))
		e.recv(2, 0, 8)
		e.post(verbs.SendWR{ID: 1, Op: op, SGL: e.sgl(0, 8), Remote: e.at(0)})
		e.post(verbs.SendWR{ID: 2, Op: op, SGL: e.sgl(0, 8), Remote: e.at(0)})
	}
	for op, e := range ends {
		if wc := t.next(e.scq); wc.Status != verbs.StatusRetryExceeded || wc.ID != 1 {
			t.Errorf("%v: %d completed with %v", op, wc.ID, wc.Status)
		}
		e.flushedOnly(2)
		e.state(verbs.StateError)
	}
}

func (e *end) flushedOnly(id uint64) {
	e.t.Helper()
	if wc := e.sent(verbs.StatusWRFlushError); wc.ID != id {
		e.t.Errorf("flushed %d, want %d", wc.ID, id)
	}
	e.received(verbs.StatusWRFlushError)
}

// testPeerCloses has a peer vanish in the middle of a transfer: that queue pair fails,
// other queue pairs of the device go on.
func testPeerCloses(t *T) {
	const n = 1 << 20
	a, b := t.pair(setup{size: n, connect: quick})
	other := t.newEnd(t.f.Open(t.T), setup{size: n})
	second := t.newEnd(a.dev, setup{size: n})
	other.addQP(verbs.QPInit{})
	second.addQP(verbs.QPInit{})
	t.join(second, other, verbs.ConnectOptions{})
	for i := range 16 {
		a.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpWrite, SGL: a.sgl(0, n), Remote: b.at(0)})
	}
	gone := make(chan error, 1)
	go func() { gone <- b.dev.Close() }()
	second.fill(0, n, 1)
	second.do(verbs.SendWR{Op: verbs.OpWrite, SGL: second.sgl(0, n), Remote: other.at(0)})
	other.holds(0, n, 1)
	t.ok(t.finish(gone))
	a.postUntilFull(verbs.SendWR{ID: 99, Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: b.at(0)})
	for wc := t.next(a.scq); wc.Status != verbs.StatusRetryExceeded; wc = t.next(a.scq) {
		if wc.Status != verbs.StatusSuccess {
			t.Fatalf("%d completed with %v", wc.ID, wc.Status)
		}
	}
	a.state(verbs.StateError)
	second.do(verbs.SendWR{Op: verbs.OpRead, SGL: second.sgl(0, n), Remote: other.at(0)})
}

// postUntilFull posts one work request; the queue may be in error or full already.
func (e *end) postUntilFull(wr verbs.SendWR) {
	wr.Flags |= verbs.Signaled
	_ = e.qp.PostSend(&wr)
}

// testPeerErrs has the peer's queue pair in ERR: it is silent.
func testPeerErrs(t *T) {
	a, b := t.pair(setup{connect: quick})
	t.ok(b.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
	start := time.Now()
	a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: b.at(0)})
	a.sent(verbs.StatusRetryExceeded)
	if d := time.Since(start); d < time.Millisecond {
		t.Errorf("gave up after %v, before one timeout", d)
	}
}
