// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A fabric in memory loses nothing by itself: acknowledgements of a peer that has no processor for a while are late,
// and nothing is sent again, whether the sender is in the fabric's process or in another.
func TestLateIsNotLost(t *testing.T) {
	for _, attached := range []bool{false, true} {
		name := map[bool]string{false: "in the fabric's process", true: "attached"}[attached]
		t.Run(name, func(t *testing.T) {
			f := softfabric.Start(t, "pair")
			fabric := serve(t, f)
			p := startGuest(t, fabric)
			open := func() (*verbs.Device, error) { return f.Open("host-2", nil) }
			if attached {
				open = func() (*verbs.Device, error) { return infiniband.Open(fabric, "host-2", nil) }
			}
			d, err := open()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			// The peer may be stopped for longer than is asked, but not for 17 s.
			c, err := cm.Dial(within(t), d, p.addr, cm.WithAckTimeout(22))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for range 3 {
				if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				var status syscall.WaitStatus // it may run for a while yet
				_, err := syscall.Wait4(p.Process.Pid, &status, syscall.WUNTRACED, nil)
				if err != nil || !status.Stopped() {
					t.Fatalf("%v, %v", err, status)
				}
				sent := make(chan error, 1)
				go func() {
					var err error
					for i := 0; i < 20 && err == nil; i++ {
						err = c.Send(within(t), make([]byte, 1000))
					}
					sent <- err
				}()
				waitFor(t, "a message is sent to the stopped peer", func() bool {
					s, err := c.QP().Stats()
					return err != nil || s.SendQueue > 0
				})
				time.Sleep(100 * time.Millisecond)
				if err := p.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				if err := <-sent; err != nil {
					t.Fatal(err)
				}
			}
			if n := loopback.Counter(t, d, "rewinds"); n != 0 {
				t.Errorf("went back %d times", n)
			}
			if n := loopback.Counter(t, d, "timeouts"); n != 0 {
				t.Errorf("%d timeouts", n)
			}
			if loopback.Counter(t, d, "late_acks") == 0 {
				t.Error("no acknowledgement was late, though the peer was stopped")
			}
		})
	}
}
