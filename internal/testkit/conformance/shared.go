// SPDX-License-Identifier: Apache-2.0

package conformance

import "github.com/ramjet-rdma/ramjet/verbs"

var sharedTests = []test{
	{name: "SRQ/Shared", run: testSRQ, needs: []Ability{SharedRecvs}},
	{name: "SRQ/Limit", run: testSRQLimit, needs: []Ability{SharedRecvs}},
	{name: "SRQ/Attributes", run: testSRQAttributes, needs: []Ability{SharedRecvs}},
	{name: "SRQ/LastWQE", run: testLastWQE, needs: []Ability{SharedRecvs}},
	{name: "SRQ/RNR", run: testSRQRNR, needs: []Ability{SharedRecvs}},
	{name: "XRC/Connection", run: testXRC, needs: []Ability{XRC}},
	{name: "XRC/Refused", run: testXRCRefused, needs: []Ability{XRC}},
	{name: "XRC/Busy", run: testXRCBusy, needs: []Ability{XRC}},
}

// fed makes n connections whose second ends share a receive queue.
func fed(t *T, n int, init verbs.SRQInit) (as, bs []*end, srq *verbs.SRQ) {
	t.Helper()
	da, db := t.devices()
	b := t.newEnd(db, setup{})
	srq = value(b.pd.CreateSRQ(init))(t)
	for range n {
		a, c := t.newEnd(da, setup{}), *b
		a.addQP(verbs.QPInit{})
		c.addQP(verbs.QPInit{SRQ: srq})
		t.join(a, &c, verbs.ConnectOptions{MinRNRTimer: 1})
		as, bs = append(as, a), append(bs, &c)
	}
	return as, bs, srq
}

func testSRQ(t *T) {
	as, bs, srq := fed(t, 3, verbs.SRQInit{MaxWR: 16, MaxSGE: 2})
	b := bs[0]
	for i := range 6 {
		t.ok(srq.PostRecv(&verbs.RecvWR{ID: uint64(i), SGL: b.sgl(i*1000, 1000)}))
	}
	for i := range 6 {
		a := as[i%3]
		a.fill(0, 900, i)
		a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 900)})
		wc := b.received(verbs.StatusSuccess)
		if wc.ID != uint64(i) || wc.QPN != bs[i%3].qp.Num() {
			t.Errorf("receive %d of QP %#x, want %d of %#x", wc.ID, wc.QPN, i, bs[i%3].qp.Num())
		}
		b.holds(i*1000, 900, i)
	}
	t.fails(bs[0].qp.PostRecv(&verbs.RecvWR{}), verbs.ErrInvalid)
	t.fails(srq.Close(), verbs.ErrBusy)
	n, err := srq.PostRecvList(make([]verbs.RecvWR, 17))
	t.fails(err, verbs.ErrQueueFull)
	if n != 16 {
		t.Errorf("posted %d, want 16", n)
	}
	for _, b := range bs {
		t.ok(b.qp.Close())
	}
	t.ok(srq.Close())
	t.ok(srq.Close())
}

func testSRQLimit(t *T) {
	as, bs, srq := fed(t, 1, verbs.SRQInit{MaxWR: 16})
	a, b := as[0], bs[0]
	for i := range 8 {
		t.ok(srq.PostRecv(&verbs.RecvWR{ID: uint64(i), SGL: b.sgl(0, 8)}))
	}
	for range 2 {
		t.ok(srq.Modify(verbs.SRQAttr{Limit: 6}, verbs.SRQLimit)) // which 3 messages bring about
		for range 3 {
			a.do(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)})
		}
		if ev := b.event(verbs.EventSRQLimitReached); ev.SRQ != srq {
			t.Errorf("event of %p, want %p", ev.SRQ, srq)
		}
		if got := srq.Query().Limit; got != 0 {
			t.Errorf("limit is %d after the event, want 0: it is armed once", got)
		}
		for i := range 3 {
			t.ok(srq.PostRecv(&verbs.RecvWR{ID: uint64(i), SGL: b.sgl(0, 8)}))
		}
	}
}

func testSRQAttributes(t *T) {
	dev, _ := t.devices()
	pd := value(dev.AllocPD())(t)
	lim := dev.Query()
	for _, init := range []verbs.SRQInit{{}, {MaxWR: -1}, {MaxWR: lim.MaxSRQWR + 1},
		{MaxWR: 4, MaxSGE: lim.MaxSRQSGE + 1}, {MaxWR: 4, MaxSGE: -1}} {
		_, err := pd.CreateSRQ(init)
		t.fails(err, verbs.ErrInvalid)
	}
	srq := value(pd.CreateSRQ(verbs.SRQInit{MaxWR: 4, MaxSGE: 3}))(t)
	if a := srq.Query(); a.MaxWR < 4 || a.MaxSGE < 3 || a.Limit != 0 {
		t.Errorf("attributes %+v", a)
	}
	t.fails(srq.PostRecv(&verbs.RecvWR{SGL: make([]verbs.SGE, srq.Query().MaxSGE+1)}), verbs.ErrInvalid)
	t.fails(srq.Modify(verbs.SRQAttr{Limit: 1000}, verbs.SRQLimit), verbs.ErrInvalid)
	t.fails(srq.Modify(verbs.SRQAttr{Limit: -1}, verbs.SRQLimit), verbs.ErrInvalid)
	if lim.Caps&verbs.CapSRQResize == 0 {
		return
	}
	t.ok(srq.Modify(verbs.SRQAttr{MaxWR: 8, Limit: 7}, verbs.SRQMaxWR|verbs.SRQLimit))
	if a := srq.Query(); a.MaxWR < 8 || a.Limit != 7 {
		t.Errorf("attributes %+v", a)
	}
	t.fails(srq.Modify(verbs.SRQAttr{MaxWR: 6}, verbs.SRQMaxWR), verbs.ErrInvalid) // below the limit that is set
	t.fails(srq.Modify(verbs.SRQAttr{MaxWR: 8, Limit: 7}, verbs.SRQMaxWR|verbs.SRQLimit|1<<7), verbs.ErrInvalid)
	for range 8 {
		t.ok(srq.PostRecv(&verbs.RecvWR{}))
	}
	t.fails(srq.Modify(verbs.SRQAttr{MaxWR: 7}, verbs.SRQMaxWR), verbs.ErrInvalid)
	t.fails(srq.Modify(verbs.SRQAttr{}, verbs.SRQMaxWR), verbs.ErrInvalid)
}

// testLastWQE holds that a queue pair in ERR leaves the shared receives alone and reports
// that it takes no more of them (IBTA 10.2.9.5).
func testLastWQE(t *T) {
	as, bs, srq := fed(t, 2, verbs.SRQInit{MaxWR: 4})
	t.ok(srq.PostRecv(&verbs.RecvWR{ID: 9, SGL: bs[0].sgl(0, 8)}))
	t.ok(bs[0].qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
	if ev := bs[0].event(verbs.EventQPLastWQEReached); ev.QP != bs[0].qp {
		t.Errorf("event of %p, want %p", ev.QP, bs[0].qp)
	}
	t.none(bs[0].rcq)
	as[1].do(verbs.SendWR{Op: verbs.OpSend, SGL: as[1].sgl(0, 8)})
	if wc := bs[1].received(verbs.StatusSuccess); wc.ID != 9 {
		t.Errorf("received into %d, want 9", wc.ID)
	}
}

func testSRQRNR(t *T) {
	as, bs, srq := fed(t, 1, verbs.SRQInit{MaxWR: 4})
	as[0].post(verbs.SendWR{Op: verbs.OpSend, SGL: as[0].sgl(0, 8)})
	as[0].waits()
	t.ok(srq.PostRecv(&verbs.RecvWR{ID: 3, SGL: bs[0].sgl(0, 8)}))
	as[0].sent(verbs.StatusSuccess)
	bs[0].received(verbs.StatusSuccess)
}

// target is the receiving side of an XRC connection.
type target struct {
	*end
	domain *verbs.XRCD
	srqs   [2]*verbs.SRQ
}

// xrc makes an XRC connection to a target with two receive queues.
func xrc(t *T) (a *end, b *target) {
	t.Helper()
	da, db := t.devices()
	a, b = t.newEnd(da, setup{}), &target{end: t.newEnd(db, setup{})}
	a.addQP(verbs.QPInit{Type: verbs.XRCIni})
	b.domain = value(db.OpenXRCD())(t)
	for i := range b.srqs {
		b.srqs[i] = value(b.pd.CreateSRQ(verbs.SRQInit{MaxWR: 16, XRCD: b.domain, CQ: b.rcq}))(t)
	}
	b.qp = value(b.domain.CreateTargetQP(verbs.QPInit{}))(t)
	b.ep = value(b.qp.Endpoint(0))(t)
	t.join(a, b.end, verbs.ConnectOptions{MinRNRTimer: 1})
	return a, b
}

func testXRC(t *T) {
	a, b := xrc(t)
	if b.srqs[0].Num() == b.srqs[1].Num() {
		t.Fatal("two receive queues with one number")
	}
	for i, n := range []int{0, 100, 5000} {
		for q, srq := range b.srqs {
			srqn := srq.Num()
			t.ok(srq.PostRecv(&verbs.RecvWR{ID: uint64(q), SGL: b.sgl(0, 8000)}))
			a.fill(0, n, i)
			a.do(verbs.SendWR{Op: verbs.OpSendImm, Imm: 9, SGL: a.sgl(0, n), SRQN: srqn})
			if wc := b.received(verbs.StatusSuccess); wc.ID != uint64(q) || wc.ByteLen != uint32(n) ||
				wc.QPN != b.qp.Num() {
				t.Errorf("receive completion %+v", wc)
			}
			b.holds(0, n, i)
			a.do(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, n), Remote: b.at(10000), SRQN: srqn})
			b.holds(10000, n, i)
			a.do(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(20000, n), Remote: b.at(10000), SRQN: srqn})
			a.holds(20000, n, i)
			a.do(verbs.SendWR{Op: verbs.OpFetchAdd, Add: 1, SGL: a.sgl(40000, 8), Remote: b.at(40000), SRQN: srqn})
		}
	}
	b.same(40000, word(6))
}

func testXRCRefused(t *T) {
	a, b := xrc(t)
	t.fails(a.qp.PostRecv(&verbs.RecvWR{}), verbs.ErrInvalid)
	t.fails(b.qp.PostRecv(&verbs.RecvWR{}), verbs.ErrInvalid)
	t.fails(b.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}), verbs.ErrInvalid)
	_, err := b.pd.CreateQP(verbs.QPInit{Type: verbs.XRCIni, SendCQ: b.scq, SRQ: b.srqs[0]})
	t.fails(err, verbs.ErrInvalid)
	_, err = b.pd.CreateSRQ(verbs.SRQInit{MaxWR: 4, XRCD: b.domain})
	t.fails(err, verbs.ErrInvalid)
	if a.dev != b.dev {
		_, err = a.pd.CreateSRQ(verbs.SRQInit{MaxWR: 4, XRCD: b.domain, CQ: a.rcq})
		t.fails(err, verbs.ErrInvalid)
		_, err = b.pd.CreateSRQ(verbs.SRQInit{MaxWR: 4, XRCD: b.domain, CQ: a.rcq})
		t.fails(err, verbs.ErrInvalid)
	}
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8), SRQN: b.srqs[0].Num() ^ 0x800000})
	if wc := t.next(a.scq); wc.Status != verbs.StatusRemoteInvalidRequestError &&
		wc.Status != verbs.StatusRemoteOperationError {
		t.Errorf("an unknown receive queue: %v", wc.Status)
	}
}

func testXRCBusy(t *T) {
	_, b := xrc(t)
	t.fails(b.domain.Close(), verbs.ErrBusy)
	t.ok(b.qp.Close())
	t.fails(b.domain.Close(), verbs.ErrBusy)
	t.fails(b.rcq.Close(), verbs.ErrBusy)
	for _, s := range b.srqs {
		t.ok(s.Close())
	}
	t.ok(b.domain.Close())
	t.ok(b.domain.Close())
	t.ok(b.rcq.Close())
	_, err := b.domain.CreateTargetQP(verbs.QPInit{})
	t.fails(err, verbs.ErrClosed)
}
