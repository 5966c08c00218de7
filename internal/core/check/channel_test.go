// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// passing is a context whose deadline passes when a test wants it.
type passing struct {
	waiting
	passed chan struct{}
}

func newPassing(t *testing.T) *passing {
	return &passing{waiting{Context: t.Context(), yes: make(chan struct{})}, make(chan struct{})}
}

func (p *passing) Done() <-chan struct{} { p.mark(); return p.passed }

func (p *passing) Err() error {
	select {
	case <-p.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// announced is a world whose second end has a completion channel.
type announced struct {
	*world
	ch     *verbs.CompChannel
	cq     *verbs.CQ // of the channel
	client *verbs.QP
	server *verbs.QP
	mr     *verbs.MR // of the client
	to     *verbs.MR // of the server
}

func newAnnounced(t *testing.T) *announced {
	w := &announced{world: newWorld(t, verbs.RC)}
	dev := w.devs[1]
	pd, err := dev.AllocPD()
	w.ok(err)
	w.to, err = pd.RegMR(make([]byte, 4096), verbs.LocalWrite)
	w.ok(err)
	w.ch, err = dev.CreateCompChannel()
	w.ok(err)
	w.cq, err = dev.CreateCQ(16, &verbs.CQOptions{Channel: w.ch})
	w.ok(err)
	init := verbs.QPInit{Type: verbs.RC, SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}}
	w.server, err = pd.CreateQP(init)
	w.ok(err)
	init.SendCQ, init.RecvCQ = w.ends[0].CQ, w.ends[0].CQ
	pd, err = w.devs[0].AllocPD()
	w.ok(err)
	w.mr, err = pd.RegMR(make([]byte, 64), 0)
	w.ok(err)
	w.client, err = pd.CreateQP(init)
	w.ok(err)
	here, err := w.server.Endpoint(0)
	w.ok(err)
	there, err := w.client.Endpoint(0)
	w.ok(err)
	w.ok(w.server.Connect(here, there, &pair.Patient))
	w.ok(w.client.Connect(there, here, &pair.Patient))
	return w
}

// message sends one, and returns once its completion is in the server's queue.
func (w *announced) message() {
	w.Helper()
	w.ok(w.server.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{w.to.SGE(0, 64)}}))
	w.ok(w.client.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{w.mr.SGE(0, 64)}}))
	if wc := w.world.wait(w.ends[0].CQ); wc.Status != verbs.StatusSuccess {
		w.Fatal(wc.Status)
	}
}

// TestChannelUnarmed has a program wait for a channel until a deadline.
func TestChannelUnarmed(t *testing.T) {
	for _, c := range []struct {
		name  string
		late  bool // the queue is armed once the completion is there
		polls bool // and polled while the program waits
		rules []string
	}{
		{name: "never", rules: []string{"channel-unarmed"}},
		{name: "late", late: true, rules: []string{"channel-unarmed"}},
		{name: "a poller beside it", polls: true},
		{name: "armed by the poller", late: true, polls: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, ctx := newAnnounced(t), newPassing(t)
			w.message()
			if c.late {
				w.ok(w.cq.ReqNotify(false))
			}
			ended := make(chan error)
			go func() {
				_, err := w.ch.Wait(ctx)
				ended <- err
			}()
			<-ctx.yes
			if c.polls {
				w.cq.Poll(make([]verbs.WC, 1))
			}
			time.Sleep(250 * time.Millisecond) // shorter waits are ways of polling
			close(ctx.passed)
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			w.want(c.rules...)
		})
	}
}

// TestChannelArmedMeanwhile has another goroutine arm a queue that the program already waits for.
func TestChannelArmedMeanwhile(t *testing.T) {
	t.Parallel()
	w, ctx := newAnnounced(t), newPassing(t)
	ended := make(chan error)
	go func() {
		_, err := w.ch.Wait(ctx)
		ended <- err
	}()
	<-ctx.yes
	w.ok(w.cq.ReqNotify(false))
	w.message()
	w.ok(<-ended)
	w.want()
}
