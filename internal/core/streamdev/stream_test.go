// SPDX-License-Identifier: Apache-2.0

package streamdev

import (
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/rdmap"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// soon is much less than the time after which a stream is looked at anyway (CheckTime), and much
// more than anything takes on a busy machine.
const soon = 2 * time.Minute

// Nothing ends because a test, or the device, gets no processor for some seconds.
func init() {
	CheckTime, EndTime, patientAnswer = clock.Time(100*soon), clock.Time(time.Hour), answerTime/5*4
}

// within waits for a condition that must come true because of something, and not because the
// device looks at its streams now and then.
func (s *streamSide) within(cond func() bool, what string) {
	s.t.Helper()
	for end := time.Now().Add(soon); !cond(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			s.t.Fatal("not soon: " + what)
		}
	}
}

// post posts signaled work requests at once, whose memory is n bytes of the region.
func (s *streamSide) post(qp *verbs.QP, to *streamSide, n int, ops ...verbs.SendOp) {
	s.t.Helper()
	var wrs []verbs.SendWR
	for _, op := range ops {
		wrs = append(wrs, verbs.SendWR{Op: op, Flags: verbs.Signaled, SGL: []verbs.SGE{s.mr.SGE(0, n)},
			Remote: to.mr.Remote()})
	}
	_, err := qp.PostSendList(wrs)
	s.ok(err)
}

// TestStreamRest posts more than a stream sends in one pass to a network that takes everything,
// and does not come again: the rest leaves nevertheless.
func TestStreamRest(t *testing.T) {
	var w web
	a, b := w.newSide(t), w.newSide(t)
	qp, _ := a.join(b, nil)
	a.rest()
	const n = 8
	a.post(qp, b, 1<<20, slices.Repeat([]verbs.SendOp{verbs.OpWrite}, n)...)
	a.within(func() bool {
		a.soft.Lane.Mu.Lock()
		defer a.soft.Lane.Mu.Unlock()
		return a.soft.ready.Len() == 0
	}, "everything was sent")
	for range n {
		a.wait()
	}
}

// TestStreamTakenInPart has a program poll once while more arrives than a stream reads in one pass,
// and the goroutine does not see the rest, as when TLS has it: it is taken nevertheless.
func TestStreamTakenInPart(t *testing.T) {
	var w web
	a, b := w.newSide(t), w.newSide(t)
	qp, _ := a.join(b, nil)
	b.rest()
	w.Change(func() { b.net.blind = true })
	a.post(qp, b, 1<<20, slices.Repeat([]verbs.SendOp{verbs.OpWrite}, 4)...)
	a.eventually(func() bool {
		a.soft.Lane.Mu.Lock()
		defer a.soft.Lane.Mu.Unlock()
		return a.soft.ready.Len() == 0
	}, "everything was sent")
	b.cq.Poll(make([]verbs.WC, 1))
	b.within(func() bool {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		for l := range b.net.links {
			if len(l.in) > 0 {
				return false
			}
		}
		return true
	}, "everything was taken")
}

// TestStreamAnswersWhilePaused has a READ stand between two SENDs, for the second of which there
// is no receive: the READ is answered.
func TestStreamAnswersWhilePaused(t *testing.T) {
	var w web
	a, b := w.newSide(t), w.newSide(t)
	qa, qb := a.join(b, nil)
	a.post(qa, b, 8, verbs.OpSend, verbs.OpRead, verbs.OpSend)
	b.eventually(func() bool { return b.paused(qb) }, "the first SEND waits for a receive")
	b.rest()
	b.ok(qb.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{b.mr.SGE(0, 64)}}))
	var got []verbs.WC
	a.within(func() bool {
		var wcs [4]verbs.WC
		got = append(got, wcs[:a.cq.Poll(wcs[:])]...)
		return len(got) == 3
	}, "the READ is answered")
}

// TestStreamWaitForWhilePaused has a WRITE stand behind a SEND that waits for a receive, and
// somebody sleep until it changes the region.
func TestStreamWaitForWhilePaused(t *testing.T) {
	var w web
	a, b := w.newSide(t), w.newSide(t)
	qa, qb := a.join(b, nil)
	a.mr.Do(func(p []byte) { p[0] = 1 })
	a.post(qa, b, 1, verbs.OpSend, verbs.OpWrite)
	b.eventually(func() bool { return b.paused(qb) }, "the SEND waits for a receive")
	done := make(chan error, 1)
	var looked atomic.Int32
	go func() {
		done <- b.mr.WaitFor(t.Context(), func(p []byte) bool { looked.Add(1); return p[0] != 0 })
	}()
	b.eventually(func() bool {
		before := looked.Load()
		time.Sleep(50 * time.Millisecond)
		return looked.Load() == before && before > 0
	}, "it sleeps")
	b.rest()
	b.ok(qb.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{b.mr.SGE(1, 1)}}))
	select {
	case err := <-done:
		b.ok(err)
	case <-time.After(soon):
		t.Fatal("it sleeps on")
	}
}

// TestStreamSharedReceives has several streams wait for receives of one queue. One of them ends
// with the receive that it gets: the others get theirs nevertheless.
func TestStreamSharedReceives(t *testing.T) {
	var w web
	a, b := w.newSide(t), w.newSide(t)
	srq, err := b.pd.CreateSRQ(verbs.SRQInit{MaxWR: 64})
	b.ok(err)
	const n = 4
	var from, to [n]*verbs.QP
	for i := range n {
		from[i], to[i] = a.join(b, srq)
	}
	for i := range n {
		size := 8
		if i == 0 {
			size = 100 // the receives are shorter
		}
		a.post(from[i], b, size, verbs.OpSend)
		b.eventually(func() bool { return b.paused(to[i]) }, "it waits for a receive")
	}
	b.rest()
	var wrs []verbs.RecvWR
	for range n {
		wrs = append(wrs, verbs.RecvWR{SGL: []verbs.SGE{b.mr.SGE(0, 64)}})
	}
	_, err = srq.PostRecvList(wrs)
	b.ok(err)
	good := 0
	b.within(func() bool {
		var wcs [n]verbs.WC
		for _, wc := range wcs[:b.cq.Poll(wcs[:])] {
			if wc.Status == verbs.StatusSuccess {
				good++
			}
		}
		return good == n-1
	}, "the other streams go on")
}

// TestStreamSharedFairly has two streams wait for receives that come one by one: each gets some.
func TestStreamSharedFairly(t *testing.T) {
	var w web
	a, b := w.newSide(t), w.newSide(t)
	srq, err := b.pd.CreateSRQ(verbs.SRQInit{MaxWR: 64})
	b.ok(err)
	const n = 10
	got := make(map[verbs.QPN]int)
	for range 2 {
		qa, qb := a.join(b, srq)
		got[qb.Num()] = 0
		a.post(qa, b, 8, slices.Repeat([]verbs.SendOp{verbs.OpSend}, n)...)
		b.eventually(func() bool { return b.paused(qb) }, "it waits for a receive")
	}
	for range n {
		b.rest()
		b.ok(srq.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{b.mr.SGE(0, 64)}}))
		got[b.wait().QPN]++
	}
	for q, k := range got {
		if k == 0 {
			t.Errorf("%v got none of %d receives", q, n)
		}
	}
}

// TestStreamSharedBudget has receives of a shared queue let several streams go on that have much to send: they share
// one budget while the device's lock is held.
func TestStreamSharedBudget(t *testing.T) {
	var w web
	a, b := w.newSide(t), w.newSide(t)
	shared, err := b.pd.CreateSRQ(verbs.SRQInit{MaxWR: 64})
	b.ok(err)
	const n = 6
	var qps []*QP
	for range n {
		qa, qb := a.join(b, shared)
		a.post(qa, b, 8, verbs.OpSend)
		b.eventually(func() bool { return b.paused(qb) }, "it waits for a receive")
		qps = append(qps, driver.QPOf(qb).(*QP))
	}
	d := b.soft
	d.Lane.Mu.Lock()
	defer d.Lane.Mu.Unlock()
	for _, q := range qps {
		for range 8 {
			_, err := q.Engine.Post([]verbs.SendWR{{Op: verbs.OpWrite, SGL: []verbs.SGE{b.mr.SGE(0, 1<<20)},
				Remote: a.mr.Remote()}}, false)
			b.ok(err)
		}
	}
	queue := qps[0].srq
	_, err = queue.Queue.Post(slices.Repeat([]verbs.RecvWR{{SGL: []verbs.SGE{b.mr.SGE(0, 64)}}}, n))
	b.ok(err)
	before := d.carrier.(*byteCarrier).lane.Counters.SentBytes
	d.resumeAll(queue)
	if sent := d.carrier.(*byteCarrier).lane.Counters.SentBytes - before; sent == 0 ||
		sent > streamBudgetBytes+1<<20 {
		t.Errorf("%d bytes were sent with the lock held, want a budget of %d", sent, streamBudgetBytes)
	}
	for _, q := range qps {
		if q.Engine.Paused() {
			t.Error("a stream still waits, and there were receives for all")
		}
	}
}

// TestStreamAgainAfterError has a queue pair go to ERR while its request is on its way, and be
// used anew after the reply has come.
func TestStreamAgainAfterError(t *testing.T) {
	var w web
	a, b := w.newSide(t), w.newSide(t)
	qa, ea := a.newQP(nil)
	qb, eb := b.newQP(nil)
	a.ok(qa.Connect(ea, eb, nil))
	var link *memLink
	a.eventually(func() bool {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		if len(a.net.dialed) == 0 {
			return false
		}
		link = a.net.dialed[0]
		link.held = true
		return true
	}, "it dials")
	b.ok(qb.Connect(eb, ea, nil))
	a.eventually(func() bool {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return len(link.in) > 0
	}, "the reply comes")
	a.ok(qa.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
	link.hold(false)
	a.eventually(func() bool {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return link.closed
	}, "the link ends")
	a.ok(qa.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.MaskState))
	b.eventually(func() bool { return b.state(qb) == verbs.StateError }, "the peer hears of it")
	b.ok(qb.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.MaskState))
	ea, err := qa.Endpoint(0)
	a.ok(err)
	eb, err = qb.Endpoint(0)
	b.ok(err)
	a.ok(qa.Connect(ea, eb, nil))
	b.ok(qb.Connect(eb, ea, nil))
	a.within(func() bool { return a.up(qa) && b.up(qb) }, "they meet again")
}

// TestStreamAwaitedWhileStopped has the process stopped while work requests wait for a stream, so that
// all of the time that they may wait passes at once: they go on waiting.
func TestStreamAwaitedWhileStopped(t *testing.T) {
	var w web
	a, b := w.newSide(t), w.newSide(t)
	qa, ea := a.newQP(nil)
	qb, eb := b.newQP(nil)
	a.ok(qa.Connect(ea, eb, nil))
	a.post(qa, b, 8, verbs.OpWrite)
	a.soft.Lane.Mu.Lock()
	late := &a.soft.findQP(qa.Num()).waitTimer
	a.soft.Lane.Timers.Set(late, 1)
	a.soft.Lane.Mu.Unlock()
	a.net.Wake()
	a.eventually(func() bool {
		a.soft.Lane.Mu.Lock()
		defer a.soft.Lane.Mu.Unlock()
		return late.At != 1 || !late.IsSet()
	}, "it is noticed")
	b.ok(qb.Connect(eb, ea, nil))
	if wc := a.wait(); wc.Status != verbs.StatusSuccess {
		t.Error(wc.Status)
	}
}

// TestStreamLinger rejects a connection whose peer does not end it: the device does in time, as
// its goroutine, asleep until the program's answer is due, hears of it.
func TestStreamLinger(t *testing.T) {
	var w web
	a, b := w.newSide(t), w.newSide(t)
	asked := make(chan driver.StreamEvent, 1)
	at := netip.AddrPortFrom(b.net.addr, 7)
	l, err := b.soft.ListenStream(at, 1, func(e driver.StreamEvent) { asked <- e })
	b.ok(err)
	defer l.Close()
	a.soft.Lane.Mu.Lock()
	_, err = a.soft.net.Dial(netip.AddrPortFrom(a.net.addr, 0), at, 0)
	a.soft.Lane.Mu.Unlock()
	a.ok(err)
	request := rdmap.AppendRequest(nil, &rdmap.Proposal{}, nil)
	_, err = a.net.dialed[0].Write([][]byte{request})
	a.ok(err)
	e := <-asked
	b.eventually(func() bool { return b.net.Waiting.Load() == 1 }, "the goroutine sleeps")
	b.ok(e.Stream.Reject(nil))
	w.Mu.Lock()
	deadline := b.net.Deadline
	w.Mu.Unlock()
	if left := time.Until(deadline); left > time.Duration(EndTime) {
		t.Errorf("the goroutine sleeps for %v, and the link is to end in %v", left, time.Duration(EndTime))
	}
}

// TestStreamRejectClosed rejects connections when the device is closed.
func TestStreamRejectClosed(t *testing.T) {
	var w web
	a, b := w.newSide(t), w.newSide(t)
	asked := make(chan driver.StreamEvent, 3)
	at := netip.AddrPortFrom(b.net.addr, 7)
	_, err := b.soft.ListenStream(at, 3, func(e driver.StreamEvent) { asked <- e })
	b.ok(err)
	var requests []driver.StreamEvent
	for range cap(asked) {
		w.asks(t, a.net, at)
		requests = append(requests, <-asked)
	}
	b.ok(b.dev.Close())
	for _, e := range requests {
		if err := e.Stream.Reject(nil); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("rejecting a connection of a closed device: %v", err)
		}
	}
}

// TestStreamEndsUnread ends a stream whose peer reads nothing, with a message that is on its way:
// the link ends none the less.
func TestStreamEndsUnread(t *testing.T) {
	var w web
	a, b := w.newSide(t), w.newSide(t)
	qa, _ := a.join(b, nil)
	link := a.net.dialed[0]
	w.Change(func() { link.full = true })
	a.post(qa, b, 8, verbs.OpWrite)
	a.rest()
	a.ok(qa.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
	if wc := a.wait(); wc.Status != verbs.StatusWRFlushError {
		t.Error(wc.Status)
	}
	a.soft.Lane.Mu.Lock()
	c := a.soft.findQP(qa.Num()).conn
	left := c.timer.At - a.soft.Lane.Now()
	a.soft.Lane.Timers.Set(&c.timer, 1) // as if it had come
	a.soft.Lane.Mu.Unlock()
	if left > EndTime {
		t.Errorf("the link is to end in %v, at most %v was wanted", time.Duration(left), time.Duration(EndTime))
	}
	a.net.Wake()
	a.within(func() bool {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return link.closed
	}, "the link ends")
}

// TestStreamEndsWhileWaiting has a peer end a stream with a message that waits for a receive, which the
// program never posts, as it waits for a READ: it hears of the end after a while.
func TestStreamEndsWhileWaiting(t *testing.T) {
	var w web
	a, b := w.newSide(t), w.newSide(t)
	qa, qb := a.join(b, nil)
	a.post(qa, b, 8, verbs.OpSend)
	b.eventually(func() bool { return b.paused(qb) }, "the SEND waits for a receive")
	a.net.dialed[0].hold(true) // it answers nothing any more
	b.post(qb, a, 8, verbs.OpRead)
	b.rest()
	a.ok(qa.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.MaskState))
	for range abandonedChecks + 1 {
		if wcs := make([]verbs.WC, 1); b.cq.Poll(wcs) > 0 {
			t.Fatalf("too early: %v", wcs[0].Status)
		}
		b.soft.Lane.Mu.Lock()
		c := b.soft.findQP(qb.Num()).conn
		b.soft.Lane.Timers.Set(&c.timer, 1) // as if the time for the next look had come
		b.soft.Lane.Mu.Unlock()
		b.net.Wake()
		b.eventually(func() bool {
			b.soft.Lane.Mu.Lock()
			defer b.soft.Lane.Mu.Unlock()
			return c.timer.At != 1 || c.phase == closed
		}, "it looks")
	}
	if wc := b.wait(); wc.Status != verbs.StatusRetryExceeded {
		t.Error(wc.Status)
	}
}

// TestStreamClosedWhileEnding closes the device, or the queue pair, of a stream that the program has
// ended and whose peer has not taken all that was sent: it may still take it. A stream that is in use
// is aborted.
func TestStreamClosedWhileEnding(t *testing.T) {
	for name, c := range map[string]struct {
		end, full bool
		close     func(*streamSide, *verbs.QP) error
		aborted   bool
	}{
		"in use": {close: func(s *streamSide, _ *verbs.QP) error { return s.dev.Close() }, aborted: true},
		"ended":  {end: true, close: func(s *streamSide, _ *verbs.QP) error { return s.dev.Close() }},
		"ended, not sent": {end: true, full: true,
			close: func(s *streamSide, _ *verbs.QP) error { return s.dev.Close() }},
		"queue pair in use": {close: func(_ *streamSide, q *verbs.QP) error { return q.Close() }, aborted: true},
		"queue pair, not sent": {end: true, full: true,
			close: func(_ *streamSide, q *verbs.QP) error { return q.Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			var w web
			a, b := w.newSide(t), w.newSide(t)
			qa, _ := a.join(b, nil)
			link := a.net.dialed[0]
			link.peer.hold(true) // it does not hear of the end
			w.Change(func() { link.full = c.full })
			a.post(qa, b, 8, verbs.OpWrite)
			a.rest()
			if c.end {
				a.ok(qa.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
			}
			a.ok(c.close(a, qa))
			w.Mu.Lock()
			defer w.Mu.Unlock()
			if !link.closed || link.aborted != c.aborted {
				t.Errorf("closed: %v, aborted: %v", link.closed, link.aborted)
			}
		})
	}
}

// asks has a peer with a network of its own send a whole request to a listener, and returns its link.
func (w *web) asks(t *testing.T, from *memNet, at netip.AddrPort) *memLink {
	t.Helper()
	l, err := from.Dial(netip.AddrPortFrom(from.addr, 0), at, 0)
	if err == nil {
		_, err = l.Write([][]byte{rdmap.AppendRequest(nil, &rdmap.Proposal{}, nil)})
	}
	if err != nil {
		t.Fatal(err)
	}
	return l.(*memLink)
}

// TestStreamBacklog has peers send more requests than a program wants to have waiting, which answers none: the latest
// request of the peer with the most is rejected, so that a peer that has none gets in, and the program hears that it
// waits no more. A request that has waited for long gives way to all.
func TestStreamBacklog(t *testing.T) {
	const room = 8
	var w web
	s := w.newSide(t)
	at := netip.AddrPortFrom(s.net.addr, 7)
	events := make(chan driver.StreamEvent, 100)
	l, err := s.soft.ListenStream(at, room, func(e driver.StreamEvent) { events <- e })
	s.ok(err)
	defer l.Close()
	hears := func(typ driver.StreamEventType, of netip.Addr) driver.Stream {
		t.Helper()
		select {
		case e := <-events:
			if e.Type != typ || e.Stream.PeerAddr().Addr() != of {
				t.Fatalf("event %d of %v, want %d of %v", e.Type, e.Stream.PeerAddr(), typ, of)
			}
			return e.Stream
		case <-time.After(soon):
			t.Fatalf("no event, want %d of %v", typ, of)
		}
		return nil
	}
	rejected := func(l *memLink) bool {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return len(l.in) > 0
	}
	flood := w.newNet()
	var links []*memLink
	var asked []driver.Stream
	for range room {
		links = append(links, w.asks(t, flood, at))
		asked = append(asked, hears(driver.StreamRequested, flood.addr))
	}
	for range 3 {
		more := w.asks(t, flood, at)
		s.within(func() bool { return rejected(more) }, "a peer that has all places gets no more")
	}
	for i := range 2 {
		honest := w.newNet()
		w.asks(t, honest, at)
		if gone := hears(driver.StreamFailed, flood.addr); gone != asked[room-1-i] {
			t.Error("not the latest gives way")
		}
		hears(driver.StreamRequested, honest.addr)
		s.within(func() bool { return rejected(links[room-1-i]) }, "who gives way hears of it")
	}
	s.ok(asked[0].Reject(nil)) // the program can still answer waiting requests
	w.asks(t, flood, at)
	hears(driver.StreamRequested, flood.addr)

	// All have one place.
	for range room - 3 {
		last := w.newNet()
		w.asks(t, last, at)
		hears(driver.StreamFailed, flood.addr)
		hears(driver.StreamRequested, last.addr)
	}
	late := w.asks(t, w.newNet(), at)
	s.within(func() bool { return rejected(late) }, "there is no room")
	s.soft.Lane.Mu.Lock()
	first := (*Conn)(asked[1].(*stream))
	s.soft.Lane.Timers.Set(&first.timer, s.soft.Lane.Now()+answerTime-patientAnswer) // as if it had waited
	s.soft.Lane.Mu.Unlock()
	other := w.newNet()
	w.asks(t, other, at)
	if gone := hears(driver.StreamFailed, flood.addr); gone != asked[1] {
		t.Error("not who has waited for long gives way")
	}
	hears(driver.StreamRequested, other.addr)
}

// TestStreamRefusedLinks has peers keep links open whose requests were rejected: their number is limited, and the
// oldest link of the peer with the most goes first.
func TestStreamRefusedLinks(t *testing.T) {
	var w web
	s := w.newSide(t)
	at := netip.AddrPortFrom(s.net.addr, 7)
	events := make(chan driver.StreamEvent, 100)
	l, err := s.soft.ListenStream(at, 1, func(e driver.StreamEvent) { events <- e })
	s.ok(err)
	defer l.Close()
	w.asks(t, w.newNet(), at) // has the only place
	<-events
	honest, flood := w.newNet(), w.newNet()
	mine := w.asks(t, honest, at)
	var links []*memLink
	for range maxRefused + 10 {
		links = append(links, w.asks(t, flood, at))
	}
	ended := func(l *memLink) bool { return l.peer.closed }
	s.within(func() bool {
		s.soft.Lane.Mu.Lock() // with it, nothing of a rejection is still to be done
		defer s.soft.Lane.Mu.Unlock()
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return len(links[len(links)-1].in) > 0
	}, "all are rejected")
	w.Mu.Lock()
	defer w.Mu.Unlock()
	n := 0
	for i, l := range links {
		if ended(l) {
			n++
			if i > 10 {
				t.Errorf("link %d of %d was ended before older ones", i, len(links))
			}
		}
	}
	if n != 11 || ended(mine) {
		t.Errorf("%d links of the flood are ended, want 11; the other peer's is: %v", n, ended(mine))
	}
}
