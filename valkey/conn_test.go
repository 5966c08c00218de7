// SPDX-License-Identifier: Apache-2.0

package valkey_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/valkey"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func TestNetConn(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		server, client := open(t, kind), open(t, kind)
		nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
			a, b := pair(t, server, client, valkey.Options{})
			return a, b, func() { a.Close(); b.Close() }, nil
		})
	})
}

// Streams of many sizes of writes arrive whole, in both directions at once, through buffers of many sizes.
func TestStreams(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		server, client := open(t, kind), open(t, kind)
		for _, o := range []valkey.Options{{}, {SendBuffer: 1 << 10, RecvBuffer: 1 << 10},
			{SendBuffer: 5000, RecvBuffer: 3000, SendQueue: 16, RecvQueue: 16, Inline: -1}} {
			a, b := pair(t, server, client, o)
			var all sync.WaitGroup
			for i, c := range [][2]net.Conn{{a, b}, {b, a}} {
				data := make([]byte, 3<<20)
				rand.NewChaCha8([32]byte{byte(i)}).Read(data)
				all.Go(func() { writePieces(t, c[0], data) })
				all.Go(func() { readAll(t, c[1], data) })
			}
			all.Wait()
			a.Close()
			b.Close()
		}
	})
}

func writePieces(t *testing.T, c net.Conn, data []byte) {
	sizes := []int{1, 13, 255, 256, 257, 4096, 70000, 600000}
	for i := 0; len(data) > 0; i++ {
		n := min(sizes[i%len(sizes)], len(data))
		if _, err := c.Write(data[:n]); err != nil {
			t.Error(err)
			return
		}
		data = data[n:]
	}
}

func readAll(t *testing.T, c net.Conn, want []byte) {
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil {
		t.Error(err)
	} else if !bytes.Equal(got, want) {
		t.Error("other bytes")
	}
}

// exchange writes data to a while b reads want.
func exchange(t *testing.T, a, b net.Conn, data, want []byte) {
	var writer sync.WaitGroup
	writer.Go(func() { write(t, a, data) })
	readAll(t, b, want)
	writer.Wait()
}

// Data that was written before Close is read, and then io.EOF; a writer learns that the peer has gone. The protocol has
// no half close: programs that look for one, such as proxies, find none, and close.
func TestClose(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		a, b := pair(t, open(t, kind), open(t, kind), valkey.Options{})
		if _, half := net.Conn(a).(interface{ CloseWrite() error }); half {
			t.Error("a Conn has CloseWrite")
		}
		data := bytes.Repeat([]byte("valkey"), 50000)
		write(t, a, data)
		ok(t, a.Close())
		readAll(t, b, data)
		if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("%d, %v after the end", n, err)
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("a write after the end: %v", err)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a read after Close: %v", err)
		}
		if err := a.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a second Close: %v", err)
		}
	})
}

// A connection for which nobody waits is looked after: keep-alives find receives, however many.
func TestKeepAlive(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		o := valkey.Options{KeepAlive: time.Millisecond, SendQueue: 16, RecvQueue: 16}
		a, b := pair(t, open(t, kind), open(t, kind), o)
		for end := time.Now().Add(patience); valkey.Sent(a) < 100 ||
			valkey.Sent(b) < 100; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d and %d messages", valkey.Sent(a), valkey.Sent(b))
			}
		}
		exchange(t, a, b, []byte("still"), []byte("still"))
	})
}

// A peer that reads nothing, and so posts no receives, is waited for.
func TestSlowReader(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		o := valkey.Options{RecvQueue: 16, SendQueue: 64, KeepAlive: time.Minute}
		a, b := pair(t, open(t, kind), open(t, kind), o)
		const writes = 200 // more than there are receives
		var writer sync.WaitGroup
		writer.Go(func() {
			for i := range writes {
				write(t, a, []byte{byte(i)})
			}
		})
		defer writer.Wait()
		time.Sleep(50 * time.Millisecond) // likely that all receives are gone by then
		got := make([]byte, writes)
		if _, err := io.ReadFull(b, got); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i] != byte(i) {
				t.Fatalf("byte %d is %d", i, got[i])
			}
		}
	})
}

// Messages in flight to a peer that closes the connection are flushed: Close polls the completions.
func TestCloseFlushed(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		server, client := rdmatest.CheckedPair(t, kind, "off=rnr-unlimited")
		a, b := pair(t, server, client, valkey.Options{RecvQueue: 16, SendQueue: 128, KeepAlive: time.Minute})
		for range 16 + 100 { // more than there are receives, and than are polled at once
			write(t, b, []byte{1})
		}
		ok(t, a.Close())
		if _, err := b.Read(make([]byte, 1)); err != io.EOF {
			t.Error(err)
		}
		ok(t, b.Close())
	})
}

// A deadline ends a write that waits for a peer that reads nothing, and the connection is whole afterwards.
func TestWriteDeadline(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		a, b := pair(t, open(t, kind), open(t, kind), valkey.Options{})
		data := make([]byte, 4<<20)
		rand.NewChaCha8([32]byte{7}).Read(data)
		n := 0
		// A busy machine can let a deadline pass before the first byte.
		for wait := 50 * time.Millisecond; n == 0; wait *= 2 {
			ok(t, a.SetWriteDeadline(time.Now().Add(wait)))
			var err error
			n, err = a.Write(data)
			if !errors.Is(err, os.ErrDeadlineExceeded) || n == len(data) || wait > patience {
				t.Fatalf("%d bytes, %v", n, err)
			}
		}
		ok(t, a.SetWriteDeadline(time.Time{}))
		exchange(t, a, b, data[n:], data)
	})
}

// Connections beyond the limit are rejected, and there is room again when one is closed.
func TestMaxConns(t *testing.T) {
	server, client := open(t, "shm"), open(t, "shm")
	l, err := (&valkey.ListenConfig{Device: server, MaxConns: 2}).Listen(t.Context(), ":0")
	ok(t, err)
	defer l.Close()
	accepted := make(chan net.Conn, 10)
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			accepted <- c
		}
	}()
	for range 2 {
		c, err := valkey.Dial(within(t), client, l.Addr().String())
		ok(t, err)
		defer c.Close()
	}
	if _, err := valkey.Dial(within(t), client, l.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("the third: %v", err)
	}
	ok(t, (<-accepted).Close())
	c, err := valkey.Dial(within(t), client, l.Addr().String())
	ok(t, err)
	c.Close()
}

// Many connections at once, all of which work.
func TestManyConnections(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		server, client := open(t, kind), open(t, kind)
		l, err := valkey.Listen(t.Context(), server, ":0")
		ok(t, err)
		defer l.Close()
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				go func() { io.Copy(c, c); c.Close() }()
			}
		}()
		conns := make([]net.Conn, 200)
		if os.Getenv("RAMJET_LONG") == "1" {
			conns = make([]net.Conn, 3000)
		}
		for i := range conns {
			conns[i], err = valkey.Dial(within(t), client, l.Addr().String())
			ok(t, err)
			defer conns[i].Close()
		}
		for i, c := range conns {
			write(t, c, fmt.Appendf(nil, "hello %d", i))
		}
		for i, c := range conns {
			readAll(t, c, fmt.Appendf(nil, "hello %d", i))
		}
	})
}

func TestOptions(t *testing.T) {
	dev := open(t, "shm")
	for _, o := range []valkey.Options{{SendBuffer: 10}, {RecvBuffer: 2 << 30}, {SendQueue: 1},
		{RecvQueue: -1}, {Inline: 1 << 30}, {KeepAlive: -1}} {
		if _, err := (&valkey.Dialer{Device: dev, Options: o}).Dial("tcp", "127.0.0.1:1"); !errors.Is(err,
			verbs.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
		if _, err := (&valkey.ListenConfig{Device: dev, Options: o}).Listen(t.Context(), ":0"); !errors.Is(err,
			verbs.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := (&valkey.Dialer{Device: dev}).Dial("udp", "127.0.0.1:1"); err == nil {
		t.Error("dials udp")
	}
}

func TestListenerDeadline(t *testing.T) {
	l, err := valkey.Listen(t.Context(), open(t, "shm"), ":0")
	ok(t, err)
	ok(t, l.SetDeadline(time.Now().Add(time.Millisecond)))
	if _, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	ok(t, l.Close())
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// A device that is closed takes its connections with it.
func TestDeviceClosed(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		server, client := open(t, kind), open(t, kind)
		a, b := pair(t, server, client, valkey.Options{})
		failed := make(chan error)
		go func() { _, err := b.Read(make([]byte, 1)); failed <- err }()
		ok(t, client.Close())
		if err := <-failed; err == nil {
			t.Error("a read without a device")
		}
		if _, err := a.Read(make([]byte, 1)); err == nil {
			t.Error("a read without a peer")
		}
	})
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A connection that moves a large value takes no memory besides its buffers, which do not grow with the value.
func TestMemoryIsBounded(t *testing.T) {
	size := largeValue(t)
	kinds(t, func(t *testing.T, kind string) {
		a, b := pair(t, open(t, kind), open(t, kind), valkey.Options{})
		ok(t, a.SetDeadline(time.Now().Add(patience)))
		ok(t, b.SetDeadline(time.Now().Add(patience)))
		piece := make([]byte, 256<<10)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		go func() {
			for n := 0; n < size; n += len(piece) {
				write(t, b, piece[:min(len(piece), size-n)])
			}
		}()
		_, err := io.CopyN(io.Discard, a, int64(size))
		ok(t, err)
		runtime.ReadMemStats(&after)
		n := after.TotalAlloc - before.TotalAlloc
		if t.Logf("%d bytes allocated for %d of a stream", n, size); n > 4<<20 {
			t.Error("memory grows with the value")
		}
	})
}
