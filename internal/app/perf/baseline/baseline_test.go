// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
)

func TestEveryKind(t *testing.T) {
	for kind := range Kind(len(names)) {
		for _, c := range []Config{
			{Kind: kind, Size: 64, Duration: 20 * time.Millisecond},
			{Kind: kind, Size: 64, Count: 50, Duration: time.Second},
			{Kind: kind, Size: 4000, Duration: 20 * time.Millisecond, Congestion: "cubic"},
		} {
			if kind == UDPPackets {
				c.Duration = 20 * time.Millisecond
			}
			t.Run(kind.String(), func(t *testing.T) {
				local := netip.MustParseAddrPort("127.0.0.1:0")
				if runtime.GOOS == "linux" { // on 127.0.0.1 other tests dial ports that they expect to be free
					local = netip.AddrPortFrom(loopback.Next(), 0)
				}
				s, err := Listen(c, local)
				if errors.Is(err, errors.ErrUnsupported) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				// A test that ends before its client connects has Serve return before Close: a later test's
				// socket gets the number of the closed one.
				ctx, cancel := context.WithCancel(t.Context())
				served := make(chan error, 1)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					served <- s.Serve(ctx)
				}()
				defer func() {
					cancel()
					<-ended
					s.Close()
				}()
				r, err := Run(t.Context(), c, local, s.Addr())
				if errors.Is(err, errors.ErrUnsupported) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := <-served; err != nil {
					t.Fatal(err)
				}
				if r.Messages == 0 || r.Bytes != int64(r.Messages*c.Size) || r.Elapsed <= 0 ||
					r.MessagesPerSecond() <= 0 || r.BytesPerSecond() <= 0 {
					t.Errorf("%+v", r)
				}
				if kind != UDPPackets && c.Count > 0 && r.Messages > c.Count {
					t.Errorf("%d messages, want at most %d", r.Messages, c.Count)
				}
				if r.Min > r.Median || r.Median > r.P99 || r.P99 > r.Max {
					t.Errorf("percentiles out of order: %+v", r)
				}
			})
		}
	}
}

// A congestion control that cannot be used is an error with the reason.
func TestPermitsCongestion(t *testing.T) {
	err := PermitsCongestion("no-such-thing")
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "no-such-thing") {
		t.Errorf("%v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	local := netip.MustParseAddrPort("127.0.0.1:0")
	for _, c := range []Config{
		{Kind: UDPPolled, Size: 0, Count: 1},
		{Kind: UDPPolled, Size: 65508, Count: 1},
		{Kind: TCPStream, Size: 1},
		{Kind: UDPPackets, Size: 1, Count: 1},
	} {
		if _, err := Listen(c, local); err == nil {
			t.Errorf("Listen takes %+v", c)
		}
		if _, err := Run(t.Context(), c, local, local); err == nil {
			t.Errorf("Run takes %+v", c)
		}
	}
}
