// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel_test

import (
	"context"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/kernel"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// within fails the test if f does not return in a minute.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s does not return", what)
	}
}

// listen accepts connections of a device until the test ends.
func listen(t *testing.T, dev *verbs.Device) netip.AddrPort {
	t.Helper()
	l, err := cm.Listen(t.Context(), dev, netip.AddrPortFrom(addressOf(t, dev), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for t.Context().Err() == nil { // peers may be gone before they are accepted
			if c, err := l.Accept(t.Context()); err == nil {
				go func() {
					defer c.Close()
					c.Recv(t.Context())
				}()
			}
		}
	}()
	return l.Addr()
}

// A device is closed while its connections are being set up, at any moment of that, and before they are closed.
func TestCloseWhileConnecting(t *testing.T) {
	a, b := named(t)
	to := listen(t, open(t, b)).String()
	for i := range 30 {
		client, err := kernel.Open(a)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var dialing sync.WaitGroup
		for range 4 {
			dialing.Go(func() {
				c, err := cm.Dial(ctx, client, to)
				if err != nil {
					return
				}
				<-ctx.Done()
				c.Close()
			})
		}
		time.Sleep(time.Duration(i) * 500 * time.Microsecond)
		within(t, "Close", func() { client.Close() })
		cancel()
		within(t, "dialing", dialing.Wait)
	}
}

// Objects that goroutines use at the same time are destroyed, by themselves or with their device.
func TestCloseInUse(t *testing.T) {
	name, _ := named(t)
	for i := range 10 {
		dev, err := kernel.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		pd, err := dev.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		cq, err := dev.CreateCQ(64, nil)
		if err != nil {
			t.Fatal(err)
		}
		mr, err := pd.RegMR(make([]byte, 4096), verbs.LocalWrite)
		if err != nil {
			t.Fatal(err)
		}
		qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
			Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}})
		if err != nil {
			t.Fatal(err)
		}
		var end atomic.Bool
		var users sync.WaitGroup
		for _, use := range []func(){
			func() { var wcs [8]verbs.WC; cq.Poll(wcs[:]) },
			func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				var wcs [8]verbs.WC
				cq.Wait(ctx, wcs[:])
			},
			func() { qp.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{mr.SGE(0, 64)}}) },
			func() { qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{mr.SGE(0, 64)}}) },
			func() { qp.Query() },
			func() {
				qp.Modify(verbs.QPAttr{State: verbs.StateInit, Port: 1},
					verbs.MaskState|verbs.MaskPort|verbs.MaskPKeyIndex|verbs.MaskAccess)
			},
			func() { dev.Port(1) },
		} {
			users.Go(func() {
				for !end.Load() {
					use()
				}
			})
		}
		time.Sleep(5 * time.Millisecond)
		if i%2 == 0 {
			within(t, "closing the queue pair", func() { qp.Close() })
		}
		within(t, "Close", func() { dev.Close() })
		end.Store(true)
		within(t, "their users", users.Wait)
	}
}

// Closing a device closes all that it has opened: descriptors, and threads of connections.
func TestCloseLeavesNothing(t *testing.T) {
	a, b := named(t)
	to := listen(t, open(t, b)).String()
	count := func(dir string) int {
		all, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	round := func() {
		client, err := kernel.Open(a)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := cm.Dial(t.Context(), client, to)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	for range 5 {
		round()
	}
	files, threads := count("/proc/self/fd"), count("/proc/self/task")
	for range 20 {
		round()
	}
	for dir, before := range map[string]int{"/proc/self/fd": files, "/proc/self/task": threads} {
		// what listens here closes the peers of these connections a little later
		for end := time.Now().Add(time.Minute); count(dir) > before+10; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%d in %s, and %d before", count(dir), dir, before)
				break
			}
		}
	}
}
