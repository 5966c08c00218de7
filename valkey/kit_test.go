// SPDX-License-Identifier: Apache-2.0

package valkey_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/valkey"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// patience bounds a wait for something that must happen.
const patience = time.Minute

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var taken atomic.Uint32

func init() { taken.Store(uint32(os.Getpid()) * 0x9e3779b1 >> 10) }

// open opens a device of a loopback address that no other has.
func open(t testing.TB, kind string) *verbs.Device {
	t.Helper()
	for {
		n := taken.Add(1)
		if byte(n) == 0 { // a host's part of zeros is not used
			continue
		}
		dev, err := ramjet.Open(fmt.Sprintf("%s:127.%d.%d.%d", kind, 64|n>>16&63, n>>8&255, n&255))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		ok(t, err)
		t.Cleanup(func() { dev.Close() })
		return dev
	}
}

// kinds runs a test over each kind of device.
func kinds(t *testing.T, f func(t *testing.T, kind string)) {
	if runtime.GOOS != "linux" {
		t.Skip("127.0.0.0/8 is local as a whole on Linux only")
	}
	for _, kind := range []string{"roce", "iwarp", "shm"} {
		t.Run(kind, func(t *testing.T) { f(t, kind) })
	}
}

// pair returns both sides of a connection, the server's first.
func pair(t testing.TB, server, client *verbs.Device, o valkey.Options) (a, b *valkey.Conn) {
	t.Helper()
	l, err := (&valkey.ListenConfig{Device: server, Options: o}).Listen(t.Context(), ":0")
	ok(t, err)
	defer l.Close()
	dialed := make(chan net.Conn, 1)
	go func() {
		c, err := (&valkey.Dialer{Device: client, Options: o}).Dial("rdma", l.Addr().String())
		if err != nil {
			t.Error(err)
			c = nil
			l.Close()
		}
		dialed <- c
	}()
	a, err = l.AcceptConn()
	c := <-dialed
	ok(t, err)
	b = c.(*valkey.Conn)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func write(t testing.TB, c net.Conn, b []byte) {
	if _, err := c.Write(b); err != nil {
		t.Error(err)
	}
}
