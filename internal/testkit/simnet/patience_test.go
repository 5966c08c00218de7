// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestPatience dials a program that takes long to answer, a program that never does, and an address without a
// host. The dialing program sets how long that may take, on every kind of device.
func TestPatience(t *testing.T) {
	steady(t)
	for kind, open := range map[string]func(*simnet.Host) (*verbs.Device, error){
		"roce":  func(h *simnet.Host) (*verbs.Device, error) { return h.OpenRoCE(), nil },
		"iwarp": func(h *simnet.Host) (*verbs.Device, error) { return h.OpenIWARP() },
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := simnet.New(1, nil)
				t.Cleanup(n.Close)
				n.Default = simnet.Path{Delay: 20 * time.Microsecond, Rate: 10e9}
				var devs [2]*verbs.Device
				var hosts [2]*simnet.Host
				for i := range devs {
					var err error
					hosts[i] = n.NewHost()
					devs[i], err = open(hosts[i])
					ok(t, err)
					t.Cleanup(func() { devs[i].Close() })
				}
				l, err := cm.Listen(t.Context(), devs[1], ":7")
				ok(t, err)
				to := hosts[1].Addr().String() + ":7"

				dialed := make(chan error, 1)
				dial := func(limit time.Duration) {
					c, err := cm.Dial(context.Background(), devs[0], to, cm.WithTimeout(limit))
					if err == nil {
						c.Close()
					}
					dialed <- err
				}
				for _, slow := range []time.Duration{20 * time.Second, 4 * time.Minute} {
					go dial(5 * time.Minute)
					r, err := l.Next(context.Background())
					ok(t, err)
					time.Sleep(slow)
					c, err := r.Accept(context.Background())
					if err != nil {
						t.Fatalf("a request that waits for %v: %v", slow, err)
					}
					c.Close()
					if err := <-dialed; err != nil {
						t.Fatalf("a program that takes %v to answer: %v", slow, err)
					}
				}

				start := time.Now()
				go dial(40 * time.Second)
				if err := <-dialed; !errors.Is(err, cm.ErrTimeout) || time.Since(start) != 40*time.Second {
					t.Errorf("a program that does not answer: %v after %v", err, time.Since(start))
				}
				start = time.Now()
				go dial(time.Hour)
				if err := <-dialed; !errors.Is(err, cm.ErrTimeout) || time.Since(start) < 4*time.Minute ||
					time.Since(start) > 6*time.Minute {
					t.Errorf("a program that does not answer: %v after %v", err, time.Since(start))
				}

				n.Cut(hosts[0], hosts[1], true)
				start = time.Now()
				go dial(5 * time.Minute)
				if err := <-dialed; !errors.Is(err, cm.ErrTimeout) || time.Since(start) < 15*time.Second ||
					time.Since(start) > 20*time.Second {
					t.Errorf("nobody there: %v after %v", err, time.Since(start))
				}
			})
		})
	}
}
