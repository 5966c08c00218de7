// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestReaders: readers see whole values, never an older one than before, and a writer the value that it has written.
func TestReaders(t *testing.T) {
	out = io.Discard
	rdmatest.Run(t, 30, play)
}

// TestWithoutChecksum: without the checksum, readers see values of which a part is older, and the test finds that.
func TestWithoutChecksum(t *testing.T) {
	defer func(was func([]byte) uint32) { checksum = was }(checksum)
	checksum = func([]byte) uint32 { return 0 }
	finds(t, "as a whole")
}

// TestDeadServer: clients that do not look at how a READ has ended take the bytes in their memory for the answer of a
// server that has died, and the test finds that.
func TestDeadServer(t *testing.T) {
	right := read
	defer func() { read = right }()
	read = func(ctx context.Context, conn *cm.Conn, to verbs.SGE, slots verbs.Remote) error {
		if right(ctx, conn, to, slots) != nil {
			time.Sleep(time.Second) // whoever tries again has the test's time pass
		}
		return nil
	}
	finds(t, "has gone")
}

// finds has the test find a mistake that is in place.
func finds(t *testing.T, want string) {
	t.Helper()
	out = io.Discard
	f := rdmatest.Find(t, 1000, play)
	if f == nil || !strings.Contains(f.Texts[0], want) {
		t.Fatalf("it is not found: %v", f)
	}
	t.Log(f)
}

// play has a client write and read values, and another one read them.
func play(w *rdmatest.World) {
	open := []func(*rdmatest.Host) *verbs.Device{(*rdmatest.Host).RoCE, (*rdmatest.Host).IWARP}[w.Rand.IntN(2)]
	server, writer, reader := w.Host("server"), w.Host("writer"), w.Host("reader")
	dev := open(server)
	server.Go(func(ctx context.Context) error { return serve(ctx, dev) })
	writes, keys := 1+w.Rand.IntN(20), 1+w.Rand.IntN(3)
	length := w.Rand.IntN(slotSize - 100)
	key := func(i int) string { return fmt.Sprint("key", i%keys) }
	value := func(i int) string { return fmt.Sprint(i, strings.Repeat(" "+fmt.Sprint(i), length)[:length]) }

	// connected runs a client on a host, which waits no longer for an answer than the program does.
	connected := func(h *rdmatest.Host, f func(ctx context.Context, conn *cm.Conn) error) *rdmatest.Task {
		dev := open(h)
		return h.Go(func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			conn, err := cm.Dial(ctx, dev, server.Addr().String()+port)
			if err != nil {
				return err
			}
			defer conn.Close()
			return f(ctx, conn)
		})
	}
	// look gets the value of a key, and returns its number.
	look := func(ctx context.Context, conn *cm.Conn, k string) (number int, err error) {
		got, err := get(ctx, conn, k)
		if err != nil {
			return 0, err
		}
		fmt.Sscan(got, &number)
		if got != value(number) {
			w.Errorf("a reader sees a value that is not number %d as a whole", number)
		}
		return number, nil
	}
	wrote := connected(writer, func(ctx context.Context, conn *cm.Conn) error {
		for i := range writes {
			if err := conn.Send(ctx, []byte(key(i)+"\x00"+value(i))); err != nil {
				return err
			}
			answer, err := conn.Recv(ctx)
			if err != nil {
				return err
			}
			answer.Release()
			switch got, err := look(ctx, conn, key(i)); {
			case errors.Is(err, errNone):
				w.Errorf("value %d has gone", i)
			case err != nil:
				return err
			case got != i:
				w.Errorf("after value %d it reads %d", i, got)
			}
		}
		return nil
	})
	read := connected(reader, func(ctx context.Context, conn *cm.Conn) error {
		last := make(map[string]int)
		for i := range 30 {
			number, err := look(ctx, conn, key(i))
			if _, seen := last[key(i)]; seen && errors.Is(err, errNone) && !reader.Died() {
				w.Errorf("a key that was there has gone")
				return nil
			}
			if err != nil {
				w.Sleep(100 * time.Microsecond) // there is no such key yet, or one of the two has died
				continue
			}
			if number < last[key(i)] {
				w.Errorf("value %d follows value %d", number, last[key(i)])
			}
			last[key(i)] = number
		}
		return nil
	})
	w.Draw(rdmatest.Packets | rdmatest.Passing)
	w.Draw(rdmatest.Fatal, server, reader)
	if err := wrote.Wait(); err != nil && !server.Died() {
		w.Fatalf("the writer: %v", err)
	}
	if err := read.Wait(); err != nil && !server.Died() && !reader.Died() {
		w.Fatalf("the reader: %v", err)
	}
}
