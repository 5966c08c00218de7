// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// dialMany makes n connections to a listener, several at a time, and returns both ends.
func dialMany(t testing.TB, a *verbs.Device, l *cm.Listener, n int) (clients, servers []*cm.Conn) {
	t.Helper()
	clients, servers = make([]*cm.Conn, n), make([]*cm.Conn, n)
	ctx := t.Context()
	var next atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range servers {
			c, err := l.Accept(ctx)
			if err != nil {
				t.Errorf("accepting connection %d: %v", i, err)
				return
			}
			servers[i] = c
		}
	})
	for range 16 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				c, err := cm.Dial(ctx, a, l.Addr().String())
				if err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
				clients[i] = c
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return clients, servers
}

// closeMany closes connections, several at a time.
func closeMany(t testing.TB, conns []*cm.Conn) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(conns); i = int(next.Add(1)) - 1 {
				if err := conns[i].Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestThousandsHeld(t *testing.T) {
	n := 500
	if testrun.Long() && !raceDetector {
		n = 10000
	}
	a, b := open(t), open(t)
	l := listen(t, b)
	clients, servers := dialMany(t, a, l, n)
	ctx := within(t)
	for _, i := range []int{0, n / 2, n - 1} { // they are still good for something
		ok(t, clients[i].Send(ctx, []byte("hello")))
	}
	heard := 0
	for _, c := range servers {
		if c.PeerAddr() == clients[0].LocalAddr() || c.PeerAddr() == clients[n/2].LocalAddr() ||
			c.PeerAddr() == clients[n-1].LocalAddr() {
			m, err := c.Recv(ctx)
			ok(t, err)
			m.Release()
			heard++
		}
	}
	if heard != 3 {
		t.Errorf("%d of 3 messages arrived", heard)
	}
	closeMany(t, clients)
	for _, c := range servers {
		<-c.Done()
	}
	closeMany(t, servers)
}

// BenchmarkConnect is one connection after the other, set up and torn down.
func BenchmarkConnect(b *testing.B) {
	dev, peer := open(b), open(b)
	l := listen(b, peer)
	go func() {
		for {
			c, err := l.Accept(b.Context())
			if err != nil {
				return
			}
			go func() { <-c.Done(); c.Close() }()
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		c, err := cm.Dial(b.Context(), dev, l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "connections/s")
}

// BenchmarkIdle is the memory of connections that are held: both ends, in one process.
func BenchmarkIdle(b *testing.B) {
	dev, peer := open(b), open(b)
	l := listen(b, peer)
	const n = 2000
	for b.Loop() {
		before := heap()
		clients, servers := dialMany(b, dev, l, n)
		b.ReportMetric(float64(heap()-before)/n, "B/connection")
		closeMany(b, clients)
		closeMany(b, servers)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
