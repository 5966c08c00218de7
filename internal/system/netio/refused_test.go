// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// A port without a socket is reported; with a socket Refused waits until its context ends.
func TestRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has another error for it")
	}
	ask := func(netip.AddrPort) []byte { return []byte("?") }
	for _, kind := range kinds {
		for _, addr := range []string{"127.0.0.1", "::1"} {
			s := listen(t, netip.MustParseAddr(addr), kind.a)
			there, err := net.ListenUDP("udp",
				net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 0)))
			if err != nil {
				t.Skip(err)
			}
			to := there.LocalAddr().(*net.UDPAddr).AddrPort()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if err := s.Refused(ctx, to, ask); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: somebody is there: %v", to, err)
			}
			cancel()
			there.Close()
			if err := s.Refused(t.Context(), to, ask); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s: nobody is there: %v", to, err)
			}
		}
	}
}
