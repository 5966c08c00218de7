// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/check"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// report is a report of a checker.
type report struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *report) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

// rules returns the rules that were reported, in order.
func (r *report) rules() (rules []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range regexp.MustCompile(`(?m)^ramjet check: ([a-z-]+):`).FindAllStringSubmatch(r.text.String(), -1) {
		rules = append(rules, m[1])
	}
	return rules
}

// world is two connected queue pairs of devices that are checked.
type world struct {
	*testing.T
	report
	checker *check.Checker
	devs    [2]*verbs.Device
	ends    [2]pair.End
}

func newWorld(t *testing.T, typ verbs.QPType) *world {
	w := &world{T: t}
	opts, err := check.ParseOptions("")
	if err != nil {
		t.Fatal(err)
	}
	w.checker = check.New(&w.report, opts)
	for i := range w.devs {
		w.devs[i], _ = loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
		w.checker.Watch(w.devs[i])
	}
	w.ends = pair.Connect(t, w.devs[0], w.devs[1], pair.Options{Type: typ, Size: 64 << 10, Depth: 16, Recvs: 2})
	return w
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// wait polls one completion.
func (w *world) wait(cq *verbs.CQ) verbs.WC {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wc [1]verbs.WC
	_, err := cq.Wait(ctx, wc[:])
	w.ok(err)
	return wc[0]
}

// want fails the test unless exactly these rules were reported.
func (w *world) want(rules ...string) {
	w.Helper()
	if got := w.rules(); strings.Join(got, " ") != strings.Join(rules, " ") {
		w.Fatalf("reported %q, want %q\n%s", got, rules, w.text.String())
	}
}

func TestSendModified(t *testing.T) {
	for _, early := range []bool{false, true} {
		w := newWorld(t, verbs.RC)
		a, b := w.ends[0], w.ends[1]
		w.ok(b.QP.PostRecv(&verbs.RecvWR{ID: 7, SGL: []verbs.SGE{b.MR.SGE(0, 100)}}))
		w.ok(a.QP.PostSend(&verbs.SendWR{ID: 9, Op: verbs.OpSend, Flags: verbs.Signaled,
			SGL: []verbs.SGE{a.MR.SGE(0, 64)}}))
		if early {
			a.MR.Bytes()[63]++
		}
		if wc := w.wait(a.CQ); wc.ID != 9 || wc.Status != verbs.StatusSuccess {
			t.Fatalf("%+v", wc)
		}
		a.MR.Bytes()[62]++
		if wc := w.wait(b.CQ); wc.ID != 7 || wc.ByteLen != 64 {
			t.Fatalf("%+v", wc)
		}
		if early {
			w.want("send-modified")
			t.Log(w.text.String())
			continue
		}
		w.want()
	}
}

func TestReceiveTouched(t *testing.T) {
	for _, early := range []bool{false, true} {
		w := newWorld(t, verbs.RC)
		a, b := w.ends[0], w.ends[1]
		copy(a.MR.Bytes(), "hello")
		w.ok(b.QP.PostRecv(&verbs.RecvWR{ID: 7, SGL: []verbs.SGE{b.MR.SGE(0, 100)}}))
		if early {
			b.MR.Bytes()[3]++
		}
		w.ok(a.QP.PostSend(&verbs.SendWR{ID: 9, Op: verbs.OpSend, Flags: verbs.Signaled,
			SGL: []verbs.SGE{a.MR.SGE(0, 5)}}))
		w.wait(a.CQ)
		w.wait(b.CQ)
		if got := string(b.MR.Bytes()[:5]); got != "hello" {
			t.Fatalf("received %q", got)
		}
		if early {
			w.want("receive-touched")
			continue
		}
		w.want()
	}
}

// What is behind a message is not the device's.
func TestReceiveBehind(t *testing.T) {
	w := newWorld(t, verbs.RC)
	a, b := w.ends[0], w.ends[1]
	w.ok(b.QP.PostRecv(&verbs.RecvWR{ID: 7, SGL: []verbs.SGE{b.MR.SGE(0, 8000)}}))
	b.MR.Bytes()[7999]++
	w.ok(a.QP.PostSend(&verbs.SendWR{ID: 9, Op: verbs.OpSend, Flags: verbs.Signaled,
		SGL: []verbs.SGE{a.MR.SGE(0, 500)}}))
	w.wait(a.CQ)
	w.wait(b.CQ)
	w.want()
}

// Nor is what is behind it within a few bytes, at the end of a list that is longer than the buffer.
func TestReceiveLongerThanBuffer(t *testing.T) {
	for _, size := range []int{4188, 8348} {
		w := newWorld(t, verbs.RC)
		a, b := w.ends[0], w.ends[1]
		w.ok(b.QP.PostRecv(&verbs.RecvWR{ID: 7, SGL: []verbs.SGE{b.MR.SGE(0, size)}}))
		b.MR.Bytes()[size-60]++
		w.ok(a.QP.PostSend(&verbs.SendWR{ID: 9, Op: verbs.OpSend, Flags: verbs.Signaled,
			SGL: []verbs.SGE{a.MR.SGE(0, size-64)}}))
		w.wait(a.CQ)
		w.wait(b.CQ)
		w.want()
	}
}

// A message of the peer tells that a send has arrived which is not signaled, or a datagram. Before it comes, nobody
// knows.
func TestAnswered(t *testing.T) {
	for _, early := range []bool{false, true} {
		w := newWorld(t, verbs.RC)
		a, b := w.ends[0], w.ends[1]
		w.ok(a.QP.PostRecv(&verbs.RecvWR{ID: 6, SGL: []verbs.SGE{a.MR.SGE(200, 100)}}))
		w.ok(b.QP.PostRecv(&verbs.RecvWR{ID: 7, SGL: []verbs.SGE{b.MR.SGE(0, 100)}}))
		w.ok(a.QP.PostSend(&verbs.SendWR{ID: 1, Op: verbs.OpSend, SGL: []verbs.SGE{a.MR.SGE(0, 64)}}))
		w.wait(b.CQ)
		if early {
			a.MR.Bytes()[1]++
		}
		w.ok(b.QP.PostSend(&verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.Signaled,
			SGL: []verbs.SGE{b.MR.SGE(300, 8)}}))
		w.wait(b.CQ)
		if wc := w.wait(a.CQ); wc.ID != 6 {
			t.Fatalf("%+v", wc)
		}
		a.MR.Bytes()[2]++
		w.ok(a.QP.PostSend(&verbs.SendWR{ID: 3, Op: verbs.OpWrite, Flags: verbs.Signaled,
			SGL: []verbs.SGE{a.MR.SGE(400, 64)}, Remote: b.MR.Remote()}))
		if wc := w.wait(a.CQ); wc.ID != 3 {
			t.Fatalf("%+v", wc)
		}
		if early {
			w.want("send-modified")
			continue
		}
		w.want()
	}
}

// The same is true of any datagram.
func TestDatagramAnswered(t *testing.T) {
	const qkey = 7
	w := newWorld(t, verbs.RC)
	pd, err := w.devs[0].AllocPD()
	w.ok(err)
	mr, err := pd.RegMR(make([]byte, 4096), verbs.LocalWrite)
	w.ok(err)
	var qps [2]*verbs.QP
	var sends, recvs [2]*verbs.CQ
	for i := range qps {
		sends[i], err = w.devs[0].CreateCQ(1, nil)
		w.ok(err)
		recvs[i], err = w.devs[0].CreateCQ(1, nil)
		w.ok(err)
		qps[i], err = pd.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: sends[i], RecvCQ: recvs[i],
			Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
		w.ok(err)
		w.ok(qps[i].StartUD(qkey))
		w.ok(qps[i].PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{mr.SGE(1024*i, 1024)}}))
	}
	at, err := qps[0].Endpoint(0)
	w.ok(err)
	ah, err := pd.CreateAH(at.To(at, 0))
	w.ok(err)
	for i := range qps {
		wr := &verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{mr.SGE(2048+64*i, 64)}}
		w.ok(qps[i].PostSend(wr.To(ah, qps[1-i].Num(), qkey)))
		w.wait(recvs[1-i])
	}
	mr.Bytes()[2048]++
	w.wait(sends[0])
	w.wait(sends[1])
	w.want()
}

// Receives that share memory are no mistake of who posts them.
func TestReceivesShare(t *testing.T) {
	w := newWorld(t, verbs.RC)
	a, b := w.ends[0], w.ends[1]
	for id := range uint64(2) {
		w.ok(b.QP.PostRecv(&verbs.RecvWR{ID: id, SGL: []verbs.SGE{b.MR.SGE(0, 100)}}))
	}
	for id := range uint64(2) {
		w.ok(a.QP.PostSend(&verbs.SendWR{ID: id, Op: verbs.OpSend, Flags: verbs.Signaled,
			SGL: []verbs.SGE{a.MR.SGE(50*int(id), 50)}}))
	}
	for id := range uint64(2) {
		w.wait(a.CQ)
		if wc := w.wait(b.CQ); wc.ID != id {
			t.Fatalf("%+v", wc)
		}
	}
	w.want()
}

// A WRITE with immediate leaves the memory of the receive as it is.
func TestWriteImm(t *testing.T) {
	w := newWorld(t, verbs.RC)
	a, b := w.ends[0], w.ends[1]
	copy(b.MR.Bytes()[:8], "untouched")
	w.ok(b.QP.PostRecv(&verbs.RecvWR{ID: 7, SGL: []verbs.SGE{b.MR.SGE(0, 100)}}))
	remote := b.MR.Remote()
	remote.Addr += 1000
	w.ok(a.QP.PostSend(&verbs.SendWR{ID: 9, Op: verbs.OpWriteImm, Flags: verbs.Signaled,
		SGL: []verbs.SGE{a.MR.SGE(0, 64)}, Remote: remote}))
	w.wait(a.CQ)
	w.wait(b.CQ)
	if got := string(b.MR.Bytes()[:8]); got != "untouche" {
		t.Fatalf("the receive has %q", got)
	}
	w.want()
}

func TestReadTouched(t *testing.T) {
	for _, early := range []bool{false, true} {
		w := newWorld(t, verbs.RC)
		a, b := w.ends[0], w.ends[1]
		b.MR.Do(func(m []byte) { copy(m, "hello") })
		w.ok(a.QP.PostSend(&verbs.SendWR{ID: 9, Op: verbs.OpRead, Flags: verbs.Signaled,
			SGL: []verbs.SGE{a.MR.SGE(8, 5)}, Remote: b.MR.Remote()}))
		if early {
			a.MR.Bytes()[8] = 'x'
		}
		w.wait(a.CQ)
		if got := string(a.MR.Bytes()[8:13]); got != "hello" {
			t.Fatalf("read %q", got)
		}
		if early {
			w.want("read-touched")
			continue
		}
		w.want()
	}
}

func TestUnsignaled(t *testing.T) {
	w := newWorld(t, verbs.RC)
	a, b := w.ends[0], w.ends[1]
	for i := range 17 {
		var flags verbs.SendFlags
		if i == 15 {
			flags = verbs.Signaled
		}
		w.ok(a.QP.PostSend(&verbs.SendWR{ID: uint64(i), Op: verbs.OpWrite, Flags: flags,
			SGL: []verbs.SGE{a.MR.SGE(0, 8)}, Remote: b.MR.Remote()}))
		if i == 15 {
			w.want()
			if wc := w.wait(a.CQ); wc.ID != 15 {
				t.Fatalf("%+v", wc)
			}
		}
	}
	for range 15 {
		w.ok(a.QP.PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{a.MR.SGE(0, 8)}, Remote: b.MR.Remote()}))
	}
	w.want("send-queue-unsignaled")
}

// A queue whose completions came before it was armed raises no event, which is no mistake if another one of its channel
// does.
func TestSharedChannel(t *testing.T) {
	for _, both := range []bool{false, true} {
		w := newWorld(t, verbs.RC)
		ch, err := w.devs[0].CreateCompChannel()
		w.ok(err)
		pd, err := w.devs[0].AllocPD()
		w.ok(err)
		flushed := func() (cq *verbs.CQ, complete func()) {
			cq, err := w.devs[0].CreateCQ(16, &verbs.CQOptions{Channel: ch})
			w.ok(err)
			qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
				Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
			w.ok(err)
			w.ok(qp.Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState))
			return cq, func() { w.ok(qp.PostRecv(&verbs.RecvWR{})) }
		}
		late, complete := flushed()
		complete()
		w.ok(late.ReqNotify(false))
		if !both {
			ctx, ended := newPassing(t), make(chan error)
			go func() {
				_, err := ch.Wait(ctx)
				ended <- err
			}()
			<-ctx.yes
			time.Sleep(300 * time.Millisecond) // a wait that ends sooner was none
			close(ctx.passed)
			<-ended
			w.want("channel-unarmed")
			continue
		}
		other, complete := flushed()
		w.ok(other.ReqNotify(false))
		complete()
		if cq, err := ch.Wait(t.Context()); err != nil || cq != other {
			t.Error(cq, err)
		}
		w.want()
	}
}

func TestRegionInUse(t *testing.T) {
	w := newWorld(t, verbs.RC)
	b := w.ends[1]
	w.ok(b.QP.PostRecv(&verbs.RecvWR{ID: 7, SGL: []verbs.SGE{b.MR.SGE(0, 100)}}))
	w.ok(b.MR.Close())
	w.want("region-in-use")
}

// A receive whose region was reregistered meanwhile gets its data if the memory is the same.
func TestReregistered(t *testing.T) {
	w := newWorld(t, verbs.RC)
	a, b := w.ends[0], w.ends[1]
	copy(a.MR.Bytes(), "hello")
	w.ok(b.QP.PostRecv(&verbs.RecvWR{ID: 7, SGL: []verbs.SGE{b.MR.SGE(0, 100)}}))
	w.ok(b.MR.Rereg(verbs.ReregAccess, nil, nil, verbs.LocalWrite))
	w.ok(a.QP.PostSend(&verbs.SendWR{ID: 9, Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{a.MR.SGE(0, 5)}}))
	w.wait(a.CQ)
	if wc := w.wait(b.CQ); wc.Status != verbs.StatusSuccess || string(b.MR.Bytes()[:5]) != "hello" {
		t.Errorf("%v: received %q", wc.Status, b.MR.Bytes()[:5])
	}
	w.want("region-in-use")
}

func TestUseAfterDestroy(t *testing.T) {
	w := newWorld(t, verbs.RC)
	b := w.ends[1]
	w.ok(b.QP.Close())
	w.ok(b.QP.Close())
	w.want()
	if err := b.QP.PostRecv(&verbs.RecvWR{ID: 7, SGL: []verbs.SGE{b.MR.SGE(0, 100)}}); err == nil {
		t.Fatal("a destroyed queue pair took a receive")
	}
	w.want("use-after-destroy")
}

// A peer that has a request may write its response over it, before the completion of the request has been polled.
func TestResponseOverRequest(t *testing.T) {
	w := newWorld(t, verbs.RC)
	a, b := w.ends[0], w.ends[1]
	w.ok(b.QP.PostRecv(&verbs.RecvWR{ID: 7, SGL: []verbs.SGE{b.MR.SGE(0, 64)}}))
	w.ok(a.QP.PostSend(&verbs.SendWR{ID: 9, Op: verbs.OpSend, Flags: verbs.Signaled,
		SGL: []verbs.SGE{a.MR.SGE(0, 64)}}))
	w.wait(b.CQ)
	copy(b.MR.Bytes()[64:], "response")
	w.ok(b.QP.PostSend(&verbs.SendWR{ID: 8, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{b.MR.SGE(64, 8)},
		Remote: a.MR.Remote()}))
	w.wait(b.CQ)
	w.wait(a.CQ)
	if got := string(a.MR.Bytes()[:8]); got != "response" {
		t.Fatalf("the response is %q", got)
	}
	w.want()
}

// TestSendsShareMemory: WRITEs that follow each other from the same memory are reported for what changed while they
// were posted, by the first that it concerns.
func TestSendsShareMemory(t *testing.T) {
	for _, c := range []struct {
		name                   string
		between, behind, ended bool // the memory changes between the two, behind both, after the first has ended
		want                   string
	}{
		{name: "never"},
		{name: "between", between: true, want: "0x1"},
		{name: "behind", behind: true, want: "0x1"},
		{name: "ended", ended: true, want: "0x2"},
	} {
		w := newWorld(t, verbs.RC)
		a, b := w.ends[0], w.ends[1]
		change := func(now bool) {
			if now {
				a.MR.Bytes()[63]++
			}
		}
		wrs := make([]verbs.SendWR, 2)
		for i := range wrs {
			wrs[i] = verbs.SendWR{ID: uint64(i + 1), Op: verbs.OpWrite, Flags: verbs.Signaled,
				SGL: []verbs.SGE{a.MR.SGE(0, 64)}, Remote: b.MR.Remote()}
		}
		if c.between {
			w.ok(a.QP.PostSend(&wrs[0]))
			change(true)
			w.ok(a.QP.PostSend(&wrs[1]))
		} else {
			w.ok(a.QP.PostSendAll(wrs))
		}
		change(c.behind)
		w.wait(a.CQ)
		change(c.ended)
		w.wait(a.CQ)
		if c.want == "" {
			w.want()
			continue
		}
		w.want("send-modified")
		if !strings.Contains(w.text.String(), c.want+" of qp1") {
			t.Errorf("%s: not of %s:\n%s", c.name, c.want, w.text.String())
		}
	}
}
