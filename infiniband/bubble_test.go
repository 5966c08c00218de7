// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestBubble: a fabric runs in virtual time. Programs that wait, and programs that poll, let it pass.
func TestBubble(t *testing.T) {
	for _, spin := range []time.Duration{-1, 0, time.Hour} {
		late := 10 * time.Minute
		if spin > 0 {
			late = 10 * time.Millisecond // the program polls all the time
		}
		synctest.Test(t, func(t *testing.T) {
			f, err := infiniband.GenerateFabric("star:3", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := f.AwaitActive(t.Context()); err != nil {
				t.Fatal(err)
			}
			var devs [2]*verbs.Device
			for i, name := range []string{"host-1", "host-3"} {
				if devs[i], err = f.Open(name, nil); err != nil {
					t.Fatal(err)
				}
				defer devs[i].Close()
			}
			l, err := cm.Listen(t.Context(), devs[0], ":7", cm.WithSpin(spin))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				conn, err := l.Accept(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				time.Sleep(late)
				if err := conn.Send(t.Context(), []byte("late")); err != nil {
					t.Error(err)
				}
			}()
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			conn, err := cm.Dial(ctx, devs[1], l.Addr().String(), cm.WithSpin(-1))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			m, err := conn.Recv(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); string(m.Bytes()) != "late" || took < late || took > late+time.Minute {
				t.Errorf("%q comes after %v", m.Bytes(), took)
			}
			m.Release()

			// A program that polls.
			pd, err := devs[0].AllocPD()
			if err != nil {
				t.Fatal(err)
			}
			cq, err := devs[0].CreateCQ(8, nil)
			if err != nil {
				t.Fatal(err)
			}
			qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
			if err != nil {
				t.Fatal(err)
			}
			at, err := qp.Endpoint(0)
			if err != nil {
				t.Fatal(err)
			}
			nobody := at
			nobody.QPN++ // no queue pair has this number
			if err := qp.Connect(at, nobody, &verbs.ConnectOptions{RetryCount: 1}); err != nil {
				t.Fatal(err)
			}
			if err := qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled}); err != nil {
				t.Fatal(err)
			}
			var wc [1]verbs.WC
			for n := 0; n == 0; {
				n = cq.Poll(wc[:])
			}
			if wc[0].Status != verbs.StatusRetryExceeded {
				t.Errorf("a message to nobody completes with %v", wc[0].Status)
			}
		})
	}
}
