// SPDX-License-Identifier: Apache-2.0

package shm_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func succeeds(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// completes waits for one completion.
func completes(t *testing.T, cq *verbs.CQ, want verbs.Status) {
	t.Helper()
	var wcs [1]verbs.WC
	if _, err := cq.Wait(within(t), wcs[:]); err != nil || wcs[0].Status != want {
		t.Fatalf("%v, %v, want %v", wcs[0].Status, err, want)
	}
}

// connectRetrying connects two devices by queue pairs that retry n times, each after 0.64 ms.
func connectRetrying(t *testing.T, a, b *verbs.Device, n uint8) [2]pair.End {
	t.Helper()
	ends := pair.Connect(t, a, b, pair.Options{Type: verbs.RC, Size: 64, Depth: 4, Recvs: 4})
	for i := range ends {
		succeeds(t, ends[i].QP.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.MaskState))
	}
	var at [2]verbs.Endpoint
	for i := range ends {
		var err error
		at[i], err = ends[i].QP.Endpoint(0)
		succeeds(t, err)
	}
	for i := range ends {
		succeeds(t, ends[i].QP.Connect(at[i], at[1-i], &verbs.ConnectOptions{RNRRetry: n, MinRNRTimer: 12}))
	}
	return ends
}

// rnrs returns the RNR NAKs that a sender has met, and its peer has sent.
func rnrs(t *testing.T, ends [2]pair.End) (met, sent uint64) {
	t.Helper()
	a, err := ends[0].QP.Stats()
	succeeds(t, err)
	b, err := ends[1].QP.Stats()
	succeeds(t, err)
	return a.RNRs, b.SentRNRs
}

// TestLateReceive: both sides count the RNR NAKs of a SEND that waits for a receive as on InfiniBand.
func TestLateReceive(t *testing.T) {
	ends := connectRetrying(t, open(t), open(t), 7)
	succeeds(t, ends[0].QP.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled,
		SGL: []verbs.SGE{ends[0].MR.SGE(0, 8)}}))
	for met := uint64(0); met < 3; met, _ = rnrs(t, ends) {
		if time.Sleep(time.Millisecond); t.Context().Err() != nil {
			t.Fatal("the sender meets no RNR NAKs")
		}
	}
	succeeds(t, ends[1].QP.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{ends[1].MR.SGE(0, 8)}}))
	completes(t, ends[0].CQ, verbs.StatusSuccess)
	completes(t, ends[1].CQ, verbs.StatusSuccess)
	met, sent := rnrs(t, ends)
	// devices publish them later
	for end := time.Now().Add(time.Minute); met != sent && time.Now().Before(end); met, sent = rnrs(t, ends) {
		time.Sleep(time.Millisecond)
	}
	if met != sent || met < 3 {
		t.Errorf("the sender has met %d RNR NAKs, the receiver has sent %d", met, sent)
	}
}

// TestRefusedMessages: the fault rnr lets messages find no receive. They are tried again as often as the sender's
// RNRRetry says.
func TestRefusedMessages(t *testing.T) {
	for _, c := range []struct {
		faults    string
		retries   uint8
		want      verbs.Status
		met, asks uint64
	}{
		{"rnr nth 1-3", 7, verbs.StatusSuccess, 3, 4},
		{"rnr nth 1-3", 3, verbs.StatusSuccess, 3, 4},
		{"rnr nth 1-3", 2, verbs.StatusRNRRetryExceeded, 3, 3},
		{"rnr", 1, verbs.StatusRNRRetryExceeded, 2, 2},
	} {
		t.Run(fmt.Sprint(c.faults, " ", c.retries), func(t *testing.T) {
			a, b := open(t), open(t)
			ends := connectRetrying(t, a, b, c.retries)
			var log bytes.Buffer
			set, err := faults.Parse(c.faults)
			succeeds(t, err)
			succeeds(t, set.Set(driver.DeviceOf(b).(faults.Target), b.Name(), faults.NewLog(&log)))
			for range 2 {
				succeeds(t, ends[1].QP.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{ends[1].MR.SGE(0, 8)}}))
			}
			succeeds(t, ends[0].QP.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled,
				SGL: []verbs.SGE{ends[0].MR.SGE(0, 8)}}))
			// which is no reason to look again
			succeeds(t, ends[1].QP.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{ends[1].MR.SGE(0, 8)}}))
			completes(t, ends[0].CQ, c.want)
			if c.want == verbs.StatusSuccess {
				completes(t, ends[1].CQ, verbs.StatusSuccess)
			}
			met, sent := rnrs(t, ends)
			for end := time.Now().Add(time.Minute); (met != c.met || sent != c.met) &&
				time.Now().Before(end); met, sent = rnrs(t, ends) {
				time.Sleep(time.Millisecond)
			}
			if met != c.met || sent != c.met {
				t.Errorf("the sender has met %d RNR NAKs, the receiver has sent %d, want %d", met, sent, c.met)
			}
			if r := driver.DeviceOf(b).(faults.Target).Faults().Results(); r[0].Struck != c.met ||
				r[0].Selected != c.asks {
				t.Errorf("struck %d of %d, want %d of %d\n%s", r[0].Struck, r[0].Selected, c.met, c.asks, log.String())
			}
		})
	}
}

// TestAskedRetries: each side makes as many RNR retries as its peer asks for, unless it was told otherwise. Retries
// that end last long.
func TestAskedRetries(t *testing.T) {
	server, err := cm.Listen(within(t), open(t), ":0", cm.WithRetries(7, 2))
	succeeds(t, err)
	defer server.Close()
	accepted := make(chan *cm.Conn, 1)
	go func() {
		c, err := server.Accept(within(t))
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	c, err := cm.Dial(within(t), open(t), server.Addr().String())
	succeeds(t, err)
	defer c.Close()
	s := <-accepted
	if s == nil {
		return
	}
	defer s.Close()
	for _, side := range []struct {
		name           string
		qp             *verbs.QP
		retries, timer uint8
	}{{"client", c.QP(), 2, 12}, {"server", s.QP(), 7, 0}} {
		if a := side.qp.Query(); a.RNRRetry != side.retries || a.MinRNRTimer != side.timer {
			t.Errorf("the %s makes %d RNR retries, and has timer %d, want %d and %d", side.name, a.RNRRetry,
				a.MinRNRTimer, side.retries, side.timer)
		}
	}
}
