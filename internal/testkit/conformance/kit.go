// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// patience bounds a wait for something that must happen.
const patience = 2 * time.Minute

// moment is how long tests look out for something that must not happen.
const moment = 20 * time.Millisecond

// everything is all that a peer may be allowed.
const everything = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic | verbs.MWBind |
	verbs.FlushGlobal

// T is a test of a device.
type T struct {
	*testing.T
	f    *Fixture
	only *verbs.Device // where there cannot be two
	used []*verbs.Device
}

// ok ends the test if err is an error.
func (t *T) ok(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fails ends the test unless err is want, in an OpError, and its text has all of words.
func (t *T) fails(err, want error, words ...string) {
	t.Helper()
	var op *verbs.OpError
	if !errors.Is(err, want) || !errors.As(err, &op) {
		t.Fatalf("got error %v, want an OpError of: %v", err, want)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("error %q does not name %q", err, w)
		}
	}
}

// value returns v, or ends the test.
func value[V any](v V, err error) func(*T) V {
	return func(t *T) V {
		t.Helper()
		t.ok(err)
		return v
	}
}

// within returns a context that ends after patience.
func (t *T) within() context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// finish waits for a goroutine that must end.
func (t *T) finish(done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatal("still waiting")
		return nil
	}
}

// devices returns two devices, which are one where there cannot be more.
func (t *T) devices() (a, b *verbs.Device) {
	if _, one := t.f.Missing[TwoDevices]; !one {
		a, b = t.f.Open(t.T), t.f.Open(t.T)
		t.used = append(t.used, a, b)
		return a, b
	}
	if t.only == nil {
		t.only = t.f.Open(t.T)
		t.used = append(t.used, t.only)
	}
	return t.only, t.only
}

// end is one end of a connection.
type end struct {
	t        *T
	dev      *verbs.Device
	pd       *verbs.PD
	scq, rcq *verbs.CQ
	mr       *verbs.MR
	qp       *verbs.QP
	ep       verbs.Endpoint
}

// setup has the parameters of ends; zero values stand for something suitable.
type setup struct {
	qp      verbs.QPInit
	size    int // of the region
	cqe     int
	access  verbs.Access // of the region
	connect verbs.ConnectOptions
}

// newEnd makes everything but the queue pair.
func (t *T) newEnd(dev *verbs.Device, s setup) *end {
	t.Helper()
	if s.size == 0 {
		s.size = 1 << 16
	}
	if s.cqe == 0 {
		s.cqe = 256
	}
	if s.access == 0 {
		s.access = everything
	}
	e := &end{t: t, dev: dev}
	e.pd = value(dev.AllocPD())(t)
	e.scq = value(dev.CreateCQ(s.cqe, nil))(t)
	e.rcq = value(dev.CreateCQ(s.cqe, nil))(t)
	if t.f.Allocated {
		e.mr = value(e.pd.AllocMR(s.size, s.access))(t)
	} else {
		e.mr = value(e.pd.RegMR(make([]byte, s.size), s.access))(t)
	}
	return e
}

// way is the address vector of a queue pair.
func way(to verbs.Endpoint) verbs.AHAttr { return verbs.AHAttr{DGID: to.GID, DLID: to.LID} }

// path is the address vector to connect a queue pair by, as [verbs.QP.Connect] has it.
func path(to verbs.Endpoint) verbs.AHAttr {
	if to.LID != 0 {
		return verbs.AHAttr{DLID: to.LID}
	}
	return way(to)
}

// joins has the port of an end join a group, and returns the group's LID.
func (t *T) joins(e *end, group verbs.GID) (lid uint16) {
	t.Helper()
	if t.f.Join == nil {
		return 0
	}
	return t.f.Join(t.T, e.dev, group)
}

// addQP makes the end's queue pair.
func (e *end) addQP(init verbs.QPInit) {
	e.t.Helper()
	if init.Type == 0 {
		init.Type = verbs.RC
	}
	if init.SendCQ == nil {
		init.SendCQ = e.scq
	}
	if init.RecvCQ == nil {
		init.RecvCQ = e.rcq
	}
	e.qp = value(e.pd.CreateQP(init))(e.t)
	e.ep = value(e.qp.Endpoint(0))(e.t)
}

// patient is the timeout of queue pairs whose peer is there: 4 s, and so half a minute until it is given up.
// Lost packets are sent again in milliseconds all the same; but beside other programs a process may get no processor
// for longer than the two seconds that queue pairs wait by default.
const patient = 20

// join connects two ends, whose queue pairs are patient unless the options say otherwise.
func (t *T) join(a, b *end, opt verbs.ConnectOptions) {
	t.Helper()
	if opt.Timeout == 0 {
		opt.Timeout = patient
	}
	if opt.Access == 0 {
		opt.Access = everything&^verbs.MWBind | verbs.FlushPersistent
	}
	if t.f.Connect != nil {
		t.f.Connect(t.T, a.qp, b.qp, &opt)
		return
	}
	t.ok(a.qp.Connect(a.ep, b.ep, &opt))
	t.ok(b.qp.Connect(b.ep, a.ep, &opt))
}

// pair makes two connected ends.
func (t *T) pair(s setup) (a, b *end) {
	t.Helper()
	da, db := t.devices()
	return t.pairOf(da, db, s)
}

// pairOf makes two connected ends of two devices.
func (t *T) pairOf(da, db *verbs.Device, s setup) (a, b *end) {
	t.Helper()
	a, b = t.newEnd(da, s), t.newEnd(db, s)
	a.addQP(s.qp)
	b.addQP(s.qp)
	t.join(a, b, s.connect)
	return a, b
}

// sgl names n bytes of the end's region.
func (e *end) sgl(off, n int) []verbs.SGE { return []verbs.SGE{e.mr.SGE(off, n)} }

// at is the address and key by which a peer reaches the end's region, from off on.
func (e *end) at(off int) verbs.Remote { return e.mr.Remote().At(uint64(off)) }

// post posts a signaled work request.
func (e *end) post(wr verbs.SendWR) {
	e.t.Helper()
	wr.Flags |= verbs.Signaled
	e.t.ok(e.qp.PostSend(&wr))
}

// recv posts a receive into the end's region.
func (e *end) recv(id uint64, off, n int) {
	e.t.Helper()
	e.t.ok(e.qp.PostRecv(&verbs.RecvWR{ID: id, SGL: e.sgl(off, n)}))
}

// next waits for the next completion of a queue.
func (t *T) next(cq *verbs.CQ) verbs.WC {
	t.Helper()
	var wc [1]verbs.WC
	ctx, cancel := context.WithTimeout(t.Context(), patience) // it ends here: measurements count timers
	defer cancel()
	if _, err := cq.Wait(ctx, wc[:]); err != nil {
		for _, dev := range t.used {
			t.Logf("%s: %v", dev.Name(), counted(dev))
		}
		t.Fatalf("waiting for a completion: %v", err)
	}
	return wc[0]
}

// counted returns the metrics that are not zero.
func counted(dev *verbs.Device) (list []string) {
	metrics, _ := dev.Metrics()
	for _, m := range metrics {
		if m.Value != 0 {
			list = append(list, fmt.Sprintf("%s %d", m.FlatName(), m.Value))
		}
	}
	return list
}

// none makes sure that nothing completes for a moment.
func (t *T) none(cq *verbs.CQ) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	var wc [1]verbs.WC
	if n, _ := cq.Wait(ctx, wc[:]); n > 0 {
		t.Fatalf("completion of %v %d with %v, want none", wc[0].Op, wc[0].ID, wc[0].Status)
	}
}

// sent waits for the end's next send completion and checks its status.
func (e *end) sent(want verbs.Status) verbs.WC {
	e.t.Helper()
	return e.t.status(e.scq, want)
}

// received waits for the end's next receive completion and checks its status.
func (e *end) received(want verbs.Status) verbs.WC {
	e.t.Helper()
	return e.t.status(e.rcq, want)
}

// lacking reports whether an ability is missing.
func (t *T) lacking(a Ability) bool {
	_, missing := t.f.Missing[a]
	return missing
}

// without reports whether the device has no such operation.
func (t *T) without(op verbs.SendOp) bool {
	switch op {
	case verbs.OpCompareSwap, verbs.OpFetchAdd:
		return t.lacking(Atomics)
	case verbs.OpWriteImm:
		return t.lacking(WriteWithImm)
	case verbs.OpSendImm:
		return t.lacking(SendWithImm)
	case verbs.OpAtomicWrite, verbs.OpFlush:
		return t.lacking(AtomicFlush)
	}
	return false
}

// late reports whether completions say nothing about the peer, which may refuse a request that has succeeded.
func (t *T) late() bool {
	return t.lacking(Acknowledged)
}

// turnedDown waits until the peer has refused the end's last work request: with one of these
// statuses or, if it comes too late for that, with the end of the connection.
func (e *end) turnedDown(want ...verbs.Status) {
	e.t.Helper()
	wc := e.t.next(e.scq)
	if wc.Status == verbs.StatusSuccess && e.t.late() {
		e.state(verbs.StateError)
	} else if !slices.Contains(want, wc.Status) {
		e.t.Fatalf("%v %d completed with %q, want %q", wc.Op, wc.ID, wc.Status, want)
	}
}

// waits makes sure that nothing that was posted completes for a moment, where completions
// say that the peer has the data.
func (e *end) waits() {
	e.t.Helper()
	if !e.t.late() {
		e.t.none(e.scq)
	}
}

func (t *T) status(cq *verbs.CQ, want verbs.Status) verbs.WC {
	t.Helper()
	wc := t.next(cq)
	if wc.Status != want {
		t.Fatalf("%v %d completed with %q, want %q", wc.Op, wc.ID, wc.Status, want)
	}
	return wc
}

// do posts a work request and waits for its success.
func (e *end) do(wr verbs.SendWR) verbs.WC {
	e.t.Helper()
	e.post(wr)
	return e.sent(verbs.StatusSuccess)
}

// state waits until the queue pair is in a state.
func (e *end) state(want verbs.QPState) {
	e.t.Helper()
	e.t.eventually(func() bool { return e.qp.State() == want }, "queue pair in state "+want.String())
}

// eventually polls for a condition.
func (t *T) eventually(cond func() bool, what string) {
	t.Helper()
	if !polled(cond) {
		t.Fatal("never: " + what)
	}
}

// polled polls for a condition, often at first, and reports whether it has come.
func polled(cond func() bool) bool {
	const often, seldom = 100 * time.Microsecond, 5 * time.Millisecond
	end := time.Now().Add(patience)
	for pause := often; !cond(); pause = min(pause+pause/4, seldom) {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// event waits for the device's next event and checks its type.
func (e *end) event(want verbs.EventType, besides ...verbs.EventType) verbs.Event {
	e.t.Helper()
	ev, err := e.dev.Event(e.t.within())
	for err == nil && slices.Contains(besides, ev.Type) {
		ev, err = e.dev.Event(e.t.within())
	}
	if err != nil {
		e.t.Fatalf("waiting for %q: %v", want, err)
	}
	if ev.Type != want {
		e.t.Fatalf("event %q, want %q", ev.Type, want)
	}
	return ev
}

// pattern fills b with bytes that tell seeds and places apart.
func pattern(b []byte, seed int) {
	const row, each = 256, 0x0101010101010101
	for at := 0; at < len(b); at += row {
		salt := each * uint64(byte(at>>8)*31^byte(at>>16)*7^byte(seed*53+11))
		rest := b[at:min(at+row, len(b))]
		word := uint64(0x0706050403020100)
		for ; len(rest) >= 8; rest = rest[8:] {
			binary.LittleEndian.PutUint64(rest, word^salt)
			word += 8 * each
		}
		for i := range rest {
			rest[i] = byte(word>>(8*i)) ^ byte(salt)
		}
	}
}

// fill writes a pattern into the end's region.
func (e *end) fill(off, n, seed int) {
	e.mr.Do(func(b []byte) { pattern(b[off:off+n], seed) })
}

// holds checks for the pattern in the end's region.
func (e *end) holds(off, n, seed int) {
	e.t.Helper()
	want := make([]byte, n)
	pattern(want, seed)
	e.same(off, want)
}

// same checks bytes of the end's region.
func (e *end) same(off int, want []byte) {
	e.t.Helper()
	e.t.same(e.mr, off, want)
}

// same checks bytes of a region: it waits for them where completions do not say that they are there.
func (t *T) same(mr *verbs.MR, off int, want []byte) {
	t.Helper()
	var at int
	var equal bool
	compare := func() bool {
		mr.Do(func(b []byte) {
			b = b[off:]
			if equal = bytes.Equal(b[:len(want)], want); !equal {
				for at = 0; b[at] == want[at]; at++ {
				}
			}
		})
		return equal
	}
	if t.late() && !polled(compare) || !compare() {
		t.Fatalf("region differs from what is expected at byte %d of %d", at, len(want))
	}
}
