// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shm_test

import (
	"context"
	"encoding/json"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// unreliable makes a side with a queue pair of UC.
func unreliable(t *testing.T) *side {
	t.Helper()
	dev := open(t)
	s := &side{dev: dev, pd: must(dev.AllocPD()), cq: must(dev.CreateCQ(1024, nil))}
	s.mr = must(s.pd.AllocMR(tableBytes, all))
	s.qp = must(s.pd.CreateQP(verbs.QPInit{Type: verbs.UC, SendCQ: s.cq, RecvCQ: s.cq,
		Cap: verbs.QPCap{MaxSendWR: 256}, SignalAll: true}))
	s.ep = must(s.qp.Endpoint(0))
	return s
}

// completesAll waits for n successful completions.
func (s *side) completesAll(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range n {
		must(s.cq.Wait(ctx, s.wc[:]))
		must(s.wc[0].QPN, s.wc[0].Err())
	}
}

// counts waits until a metric has a value. Metrics are published some time after the events that they count.
func (s *side) counts(t *testing.T, name string, want uint64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); counter(s.dev, name) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is %d, want %d", name, counter(s.dev, name), want)
		}
	}
}

// TestUnreliableNobody has a queue pair of UC whose peer never comes: messages wait for it for a while, and are dropped
// at once from then on.
func TestUnreliableNobody(t *testing.T) {
	t.Parallel() // it waits
	s := unreliable(t)
	peer := s.ep
	peer.GID = verbs.GID(loopback.Next().As16())
	must(0, s.qp.Connect(s.ep, peer, nil))
	send := &verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{s.mr.SGE(0, 8)}}
	start := time.Now()
	must(0, s.qp.PostSend(send))
	must(0, s.qp.PostSend(send))
	s.completesAll(t, 2)
	if waited := time.Since(start); waited < 3*time.Second {
		t.Errorf("they were dropped after %v", waited)
	}
	must(0, s.qp.PostSend(send))
	s.completesAll(t, 1)
	s.counts(t, "dropped_nobody_there", 3)
}

// TestUnreliableAndReliable connects queue pairs of two types: they do not meet.
func TestUnreliableAndReliable(t *testing.T) {
	t.Parallel() // it waits
	s, r := unreliable(t), unreliable(t)
	r.qp = must(r.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: r.cq, RecvCQ: r.cq}))
	r.ep = must(r.qp.Endpoint(0))
	must(0, s.qp.Connect(s.ep, r.ep, nil))
	must(0, r.qp.Connect(r.ep, s.ep, nil))
	must(0, r.qp.PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{r.mr.SGE(0, 8)}, Remote: s.mr.Remote()}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(r.cq.Wait(ctx, r.wc[:]))
	if r.wc[0].Status != verbs.StatusRetryExceeded {
		t.Errorf("a WRITE of RC to a queue pair of UC: %v", r.wc[0].Status)
	}
}

// TestUnreliableStopped sends to a process that is stopped: messages that find no room wait for a while. They are
// dropped then, and later messages at once, until the process goes on.
func TestUnreliableStopped(t *testing.T) {
	t.Parallel() // it waits
	g := startTarget(t, loopback.Next().String())
	s := unreliable(t)
	must(0, json.NewEncoder(g.stdin).Encode(s.ep))
	must(0, s.qp.Connect(s.ep, g.Unreliable, nil))
	write := &verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{s.mr.SGE(0, 8)}, Remote: g.Table}
	for counter(s.dev, "direct_ops")+counter(s.dev, "asked_ops") == 0 { // else the peer is not there yet
		must(0, s.qp.PostSend(write))
		s.completesAll(t, 1)
		time.Sleep(time.Millisecond)
	}
	g.stop(t)
	const n = 40
	send := &verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{s.mr.SGE(0, 4096)}}
	start := time.Now()
	for range n {
		must(0, s.qp.PostSend(send))
	}
	s.completesAll(t, n)
	if waited := time.Since(start); waited < 3*time.Second {
		t.Errorf("they have completed after %v", waited)
	}
	const stalled = "dropped_receiver_stalled"
	const room = (64 << 10) / 4096 // of the ring, and its headers take some of it
	dropped := uint64(n - room + 1)
	s.counts(t, stalled, dropped)
	must(0, s.qp.PostSend(send))
	s.completesAll(t, 1)
	s.counts(t, stalled, dropped+1)
	must(0, g.Process.Signal(syscall.SIGCONT))
	for sent, end := counter(s.dev, "sent_msgs"), time.Now().Add(time.Minute); counter(s.dev, "sent_msgs") == sent; {
		if must(0, s.qp.PostSend(send)); time.Now().After(end) {
			t.Fatal("messages are still dropped, though the process goes on")
		}
		s.completesAll(t, 1)
	}
}
