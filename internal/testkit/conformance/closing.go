// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var closingTests = []test{
	{name: "Close/Order", run: testCloseOrder},
	{name: "Close/Twice", run: testCloseTwice},
	{name: "Close/WakesCQ", run: testCloseWakesCQ},
	{name: "Close/CQWakes", run: testCQCloseWakes},
	{name: "Close/WakesChannel", run: testCloseWakesChannel},
	{name: "Close/WakesEvent", run: testCloseWakesEvent},
	{name: "Close/WakesWaitFor", run: testCloseWakesWaitFor},
	{name: "Close/MRWakesWaitFor", run: testMRCloseWakes},
	{name: "Close/UnderLoad", run: testCloseUnderLoad},
	{name: "Close/After", run: testAfterClose},
	{name: "Close/OtherDevice", run: testOtherDevice, needs: []Ability{TwoDevices}},
}

func testCloseOrder(t *T) {
	a, _ := t.pair(setup{})
	t.fails(a.pd.Close(), verbs.ErrBusy)
	t.fails(a.scq.Close(), verbs.ErrBusy)
	t.fails(a.rcq.Close(), verbs.ErrBusy)
	t.ok(a.qp.Close())
	t.ok(a.scq.Close())
	t.ok(a.rcq.Close())
	t.fails(a.pd.Close(), verbs.ErrBusy) // the region
	t.ok(a.mr.Close())
	if _, missing := t.f.Missing[Datagrams]; !missing {
		ah := value(a.pd.CreateAH(way(a.ep)))(t)
		t.fails(a.pd.Close(), verbs.ErrBusy)
		t.ok(ah.Close())
	}
	t.ok(a.pd.Close())
	_, err := a.pd.AllocMR(8, 0)
	t.fails(err, verbs.ErrClosed)
}

func testCloseTwice(t *T) {
	a, _ := t.pair(setup{})
	for range 2 {
		t.ok(a.qp.Close())
		t.ok(a.scq.Close())
		t.ok(a.rcq.Close())
		t.ok(a.mr.Close())
		t.ok(a.pd.Close())
	}
	for range 2 {
		t.ok(a.dev.Close())
	}
}

// waiting starts a goroutine that waits, and gives it a moment to fall asleep.
func (t *T) waiting(wait func(context.Context) error) <-chan error {
	done := make(chan error, 1)
	ctx := t.within()
	started := make(chan struct{})
	go func() {
		close(started)
		done <- wait(ctx)
	}()
	<-started
	select {
	case err := <-done:
		done <- err
	case <-ctxAfter(t):
	}
	return done
}

func ctxAfter(t *T) <-chan struct{} {
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	t.Cleanup(cancel)
	return ctx.Done()
}

func testCloseWakesCQ(t *T) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	done := t.waiting(func(ctx context.Context) error { _, err := e.scq.Wait(ctx, make([]verbs.WC, 1)); return err })
	t.ok(dev.Close())
	t.fails(t.finish(done), verbs.ErrClosed)
}

func testCQCloseWakes(t *T) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	done := t.waiting(func(ctx context.Context) error { _, err := e.scq.Wait(ctx, make([]verbs.WC, 1)); return err })
	t.ok(e.scq.Close())
	t.fails(t.finish(done), verbs.ErrClosed)
}

// testCloseWakesChannel waits at a channel with queues and at one without.
func testCloseWakesChannel(t *T) {
	dev, _ := t.devices()
	wait := func(ch *verbs.CompChannel) <-chan error {
		return t.waiting(func(ctx context.Context) error {
			for {
				if _, err := ch.Wait(ctx); err != nil {
					return err
				}
			}
		})
	}
	with, without := value(dev.CreateCompChannel())(t), value(dev.CreateCompChannel())(t)
	value(dev.CreateCQ(4, &verbs.CQOptions{Channel: with}))(t)
	first, second, third := wait(with), wait(without), wait(without)
	t.ok(dev.Close())
	for _, done := range []<-chan error{first, second, third} {
		t.fails(t.finish(done), verbs.ErrClosed)
	}
}

func testCloseWakesEvent(t *T) {
	dev, _ := t.devices()
	wait := func(ctx context.Context) error { _, err := dev.Event(ctx); return err }
	first, second := t.waiting(wait), t.waiting(wait)
	t.ok(dev.Close())
	t.fails(t.finish(first), verbs.ErrClosed)
	t.fails(t.finish(second), verbs.ErrClosed)
}

func (e *end) waitForEver(ctx context.Context) error {
	return e.mr.WaitFor(ctx, func([]byte) bool { return false })
}

func testCloseWakesWaitFor(t *T) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	done := t.waiting(e.waitForEver)
	t.ok(dev.Close())
	if err := t.finish(done); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("WaitFor ended with %v", err)
	}
}

func testMRCloseWakes(t *T) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	first, second := t.waiting(e.waitForEver), t.waiting(e.waitForEver)
	t.ok(e.mr.Close())
	for _, done := range []<-chan error{first, second} {
		if err := t.finish(done); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("WaitFor ended with %v", err)
		}
	}
}

// testCloseUnderLoad closes devices while everything is under way.
func testCloseUnderLoad(t *T) {
	const n = 1 << 20
	a, b := t.pair(setup{size: n})
	for i := range 16 {
		a.post(verbs.SendWR{Op: verbs.OpWrite, SGL: a.sgl(0, n), Remote: b.at(0)})
		a.post(verbs.SendWR{Op: verbs.OpRead, SGL: a.sgl(0, n), Remote: b.at(0)})
		b.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpRead, SGL: b.sgl(0, n), Remote: a.at(0)})
	}
	poll := func(ctx context.Context) error {
		wcs := make([]verbs.WC, 4)
		for {
			if _, err := a.scq.Wait(ctx, wcs); err != nil {
				return err
			}
		}
	}
	done := make(chan error, 1)
	ctx := t.within()
	go func() { done <- poll(ctx) }()
	b.sent(verbs.StatusSuccess)
	t.ok(b.dev.Close())
	t.ok(a.dev.Close())
	t.fails(t.finish(done), verbs.ErrClosed)
}

// testAfterClose calls everything on a closed device: errors, no crash.
func testAfterClose(t *T) {
	a, b := t.pair(setup{})
	ch := value(a.dev.CreateCompChannel())(t)
	mw := value(a.pd.AllocMW(verbs.MWType1))(t)
	t.ok(a.dev.Close())
	closed := func(err error) {
		t.Helper()
		t.fails(err, verbs.ErrClosed)
	}
	_, err := a.dev.AllocPD()
	closed(err)
	_, err = a.dev.CreateCQ(4, nil)
	closed(err)
	_, err = a.dev.CreateCompChannel()
	closed(err)
	if _, missing := t.f.Missing[XRC]; !missing {
		_, err = a.dev.OpenXRCD()
		closed(err)
	}
	_, err = a.pd.RegMR(make([]byte, 8), 0)
	closed(err)
	_, err = a.pd.AllocMR(8, 0)
	closed(err)
	_, err = a.pd.AllocMW(verbs.MWType1)
	closed(err)
	_, err = a.pd.CreateSRQ(verbs.SRQInit{MaxWR: 1})
	closed(err)
	_, err = a.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: a.scq, RecvCQ: a.rcq})
	closed(err)
	_, err = a.pd.CreateAH(way(b.ep))
	closed(err)
	closed(a.qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
	closed(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}))
	closed(a.qp.PostRecv(&verbs.RecvWR{}))
	closed(a.qp.AttachMulticast(t.f.Group(), 0))
	closed(a.mr.Rereg(verbs.ReregAccess, nil, nil, 0))
	closed(a.scq.ReqNotify(false))
	_, err = a.scq.Wait(t.within(), make([]verbs.WC, 1))
	closed(err)
	_, err = ch.Wait(t.within())
	closed(err)
	_, err = a.dev.Event(t.within())
	closed(err)
	a.qp.Query()
	a.scq.Poll(make([]verbs.WC, 1))
	a.dev.Query()
	a.mr.Do(func([]byte) {})
	if a.dev != b.dev {
		for _, c := range []interface{ Close() error }{mw, a.qp, a.mr, a.scq, a.rcq, a.pd, ch} {
			t.ok(c.Close())
		}
	}
}

// testOtherDevice holds that objects of different devices do not mix.
func testOtherDevice(t *T) {
	a, b := t.pair(setup{})
	_, err := a.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: b.scq, RecvCQ: a.rcq})
	t.fails(err, verbs.ErrInvalid)
	_, err = a.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: a.scq, RecvCQ: b.rcq})
	t.fails(err, verbs.ErrInvalid)
	srq := value(b.pd.CreateSRQ(verbs.SRQInit{MaxWR: 4}))(t)
	_, err = a.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: a.scq, RecvCQ: a.rcq, SRQ: srq})
	t.fails(err, verbs.ErrInvalid)
	if _, missing := t.f.Missing[Windows]; !missing {
		for _, c := range []func() (*verbs.MW, *verbs.MR){ // though the protection domains may have one number
			func() (*verbs.MW, *verbs.MR) { return value(b.pd.AllocMW(verbs.MWType2))(t), a.mr },
			func() (*verbs.MW, *verbs.MR) { return value(a.pd.AllocMW(verbs.MWType2))(t), b.mr },
		} {
			a, b = t.pair(setup{})
			mw, mr := c()
			a.post(verbs.SendWR{Op: verbs.OpBindMW,
				Bind: &verbs.MWBindInfo{MW: mw, MR: mr, RKey: mw.NextRKey(), Addr: mr.Addr(), Length: 8}})
			a.sent(verbs.StatusMWBindError)
		}
	}
	ch := value(b.dev.CreateCompChannel())(t)
	_, err = a.dev.CreateCQ(4, &verbs.CQOptions{Channel: ch})
	t.fails(err, verbs.ErrInvalid)
}
