// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

// asyncs waits for n results, which all have to be good, and returns their IDs.
func asyncs(t testing.TB, a *nvme.Async, n int) map[uint64]bool {
	t.Helper()
	ids, results := map[uint64]bool{}, make([]nvme.Result, 3)
	for len(ids) < n {
		k, err := a.Wait(within(t), results)
		ok(t, err)
		if k == 0 {
			t.Fatalf("nothing is in flight, and %d of %d commands have ended", len(ids), n)
		}
		for _, r := range results[:k] {
			ok(t, r.Err)
			if ids[r.ID] {
				t.Fatalf("command %d has ended twice", r.ID)
			}
			ids[r.ID] = true
		}
	}
	return ids
}

// Data that is written with many commands in flight is read again, also by commands of more data than a controller
// takes, and with more commands in flight than the queue has entries.
func TestAsync(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		const n, depth = 1 << 20, 40
		s := set(t, kind, nvme.TargetOptions{}, disk(1, n))
		c := s.dial(t, nvme.HostOptions{QueueDepth: 16, MaxData: 8192})
		d, err := c.Open(within(t), 1)
		ok(t, err)
		a, err := d.NewAsync(depth)
		ok(t, err)
		defer a.Close()
		want := make([]byte, n)
		rand.NewChaCha8([32]byte{1}).Read(want)
		got, results := make([]byte, n), make([]nvme.Result, depth)
		for _, pass := range []func(off, n int, id uint64) error{
			func(off, n int, id uint64) error { return a.Write(want[off:off+n], int64(off), id) },
			func(off, n int, id uint64) error { return a.Read(got[off:off+n], int64(off), id) },
		} {
			sizes := []int{512, 4096, 8192, 16384}
			begun, ended := uint64(0), uint64(0)
			for off := 0; off < n || ended < begun; {
				k := min(sizes[begun%4], n-off)
				err := error(nvme.ErrAsyncFull)
				if k > 0 {
					err = pass(off, k, begun)
				}
				if err == nil {
					off += k
					begun++
					continue
				}
				if !errors.Is(err, nvme.ErrAsyncFull) {
					t.Fatal(err)
				}
				got, err := a.Wait(within(t), results)
				ok(t, err)
				for _, r := range results[:got] {
					ok(t, r.Err)
					ended++
				}
			}
		}
		if !bytes.Equal(got, want) {
			t.Error("what was read is not what was written")
		}
		ok(t, a.Flush(7))
		if ids := asyncs(t, a, 1); !ids[7] {
			t.Error("a flush:", ids)
		}
		if n, err := a.Wait(within(t), results); n != 0 || err != nil {
			t.Errorf("nothing is in flight: %d, %v", n, err)
		}
	})
}

// Commands that make no sense are refused before they begin, commands that the controller refuses when they have ended.
func TestAsyncErrors(t *testing.T) {
	const n = 1 << 16
	readOnly := disk(1, n)
	readOnly.Writable = false
	s := set(t, "roce", nvme.TargetOptions{}, readOnly)
	d, err := s.dial(t, nvme.HostOptions{}).Open(within(t), 1)
	ok(t, err)
	if _, err := d.NewAsync(0); err == nil {
		t.Error("a depth of 0")
	}
	a, err := d.NewAsync(2)
	ok(t, err)
	b := make([]byte, 512)
	for _, off := range []int64{-512, 1, n} {
		if err := a.Read(b, off, 0); err == nil {
			t.Errorf("a read at %d", off)
		}
	}
	if err := a.Write(b[:100], 0, 0); err == nil {
		t.Error("a write of a part of a block")
	}
	ok(t, a.Write(b, 0, 1))
	ok(t, a.Read(b, 0, 2))
	if err := a.Read(b, 0, 3); !errors.Is(err, nvme.ErrAsyncFull) {
		t.Error("a third command of two:", err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	results := make([]nvme.Result, 2)
	for seen := 0; seen < 2; {
		if _, err := a.Wait(ended, nil); err != nil {
			t.Error("no room for results:", err)
		}
		k, err := a.Wait(within(t), results)
		ok(t, err)
		for _, r := range results[:k] {
			seen++
			if (r.ID == 1) != errors.Is(r.Err, wire.NamespaceWriteProtected) || r.ID == 2 && r.Err != nil {
				t.Errorf("command %d: %v", r.ID, r.Err)
			}
		}
	}
	ok(t, a.Close())
	if err := a.Read(b, 0, 4); err == nil {
		t.Error("a read after Close")
	}
	if n, err := a.Wait(within(t), results); n != 0 || err != nil {
		t.Errorf("a wait after Close: %d, %v", n, err)
	}
}

// A disk that takes its time: a context ends the wait and not the command, and Close gives it up.
func TestAsyncGivesUp(t *testing.T) {
	const n = 1 << 16
	gate := make(chan struct{})
	s := set(t, "roce", nvme.TargetOptions{}, nvme.Namespace{ID: 1, Disk: &gated{nvme.NewMemory(n), gate}, Size: n})
	c := s.dial(t, nvme.HostOptions{})
	d, err := c.Open(within(t), 1)
	ok(t, err)
	a, err := d.NewAsync(2)
	ok(t, err)
	b := bytes.Repeat([]byte{1}, 512)
	ok(t, a.Read(b, 0, 1))
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := a.Wait(soon, make([]nvme.Result, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("a wait whose context has ended:", err)
	}
	gate <- struct{}{}
	if asyncs(t, a, 1); b[0] != 0 {
		t.Error("nothing was read")
	}
	b[0] = 1
	ok(t, a.Read(b, 0, 2))
	again, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	a.Wait(again, make([]nvme.Result, 1)) // sends it
	ok(t, a.Close())
	close(gate)
	if _, err := d.Read(within(t), make([]byte, 512), 0); err != nil || b[0] != 1 { // the queue goes on
		t.Errorf("after a command was given up: %v, %d", err, b[0])
	}
}

// gated is a disk whose reads wait.
type gated struct {
	*nvme.Memory
	gate chan struct{}
}

func (g *gated) ReadAt(b []byte, off int64) (int, error) {
	<-g.gate
	return g.Memory.ReadAt(b, off)
}

// Commands in flight are repeated when the target's port was closed and is opened again, and end when the controller
// is closed.
func TestAsyncReconnect(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		const n = 1 << 18
		s := set(t, kind, nvme.TargetOptions{}, disk(1, n))
		c, err := nvme.Dial(within(t), s.dev, s.addr(), diskNQN, nvme.HostOptions{NQN: hostNQN,
			KeepAlive: keepAlive, ReconnectDelay: 10 * time.Millisecond, Timeout: patience})
		ok(t, err)
		defer c.Close()
		d, err := c.Open(within(t), 1)
		ok(t, err)
		a, err := d.NewAsync(32)
		ok(t, err)
		defer a.Close()
		b := make([][]byte, 32)
		for i := range b {
			b[i] = bytes.Repeat([]byte{byte(i + 1)}, 4096)
		}
		address := s.addr()
		for life := range 2 {
			for i := range b {
				if (i+life)%2 == 0 {
					ok(t, a.Write(b[i], int64(i)*4096, uint64(i)))
				} else {
					ok(t, a.Read(make([]byte, 4096), int64(i)*4096, uint64(i)))
				}
			}
			results := make([]nvme.Result, 1)
			if _, err := a.Wait(within(t), results); err != nil || results[0].Err != nil { // all are sent
				t.Fatal(err, results)
			}
			ok(t, s.port.Close())
			s.port, err = s.target.Listen(t.Context(), s.targets, address)
			ok(t, err)
			asyncs(t, a, len(b)-1)
		}
		got := make([]byte, 4096)
		for i := range b {
			if _, err := d.Read(within(t), got, int64(i)*4096); err != nil || !bytes.Equal(got, b[i]) {
				t.Fatalf("block %d: %v, or other bytes", i, err)
			}
		}
		ok(t, a.Read(got, 0, 99))
		ok(t, c.Close())
		results := make([]nvme.Result, 1)
		if k, err := a.Wait(within(t), results); k != 1 || err != nil || !errors.Is(results[0].Err, os.ErrClosed) {
			t.Errorf("a read after the controller was closed: %d, %v, %v", k, err, results[0].Err)
		}
	})
}
