// SPDX-License-Identifier: Apache-2.0

// Package loopback gives tests addresses of the loopback interface, and devices of them. On
// Linux the whole of 127.0.0.0/8 is local, so that each device has an address of its own.
package loopback

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// taken counts the addresses that tests of this process have taken. Other processes start
// elsewhere; a test that meets a used address goes on to the next.
var taken atomic.Uint32

// Processes with numbers close to each other start far apart, as a suite takes thousands: the golden
// ratio's multiples spread best.
func init() { taken.Store(uint32(os.Getpid()) * 0x9e3779b1 >> 10) }

// Next returns an address of 127.128.0.0/10 that no other test of the process has.
func Next() netip.Addr {
	n := taken.Add(1)
	for byte(n) == 0 { // a host's part of zeros is not used
		n = taken.Add(1)
	}
	return netip.AddrFrom4([4]byte{127, 128 | byte(n>>16)&63, byte(n >> 8), byte(n)})
}

// NextGroup returns a multicast group of 239.128.0.0/10 that no other test of the process has. Those of other processes
// most likely have other ones, as they would hear each other.
func NextGroup() netip.Addr {
	group := Next().As4()
	group[0] = 239
	return netip.AddrFrom4(group)
}

// Open opens a device of an address of its own, and closes it with the test, which it skips
// where there are no such addresses.
func Open(t testing.TB, open func(addr string) (*verbs.Device, error)) (*verbs.Device, netip.Addr) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("127.0.0.0/8 is local as a whole on Linux only")
	}
	for {
		addr := Next()
		dev, err := open(addr.String())
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		return dev, addr
	}
}

// Alone waits until no other package's test has use for UDP port 4791 of 127.0.0.1 or ::1 alone: such a
// test holds the TCP port of that number, as this one does then to its end.
func Alone(t testing.TB) {
	t.Helper()
	for until := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		l, err := net.Listen("tcp", "127.0.0.1:4791")
		if err == nil {
			t.Cleanup(func() { l.Close() })
			return
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
	}
}

// Counter returns the metric of a device that has a flat name, and fails the test if there is none.
func Counter(tb testing.TB, dev *verbs.Device, name string) uint64 {
	tb.Helper()
	list, err := dev.Metrics()
	for _, m := range list {
		if m.FlatName() == name {
			return m.Value
		}
	}
	tb.Fatalf("no metric %q, %v", name, err)
	return 0
}
