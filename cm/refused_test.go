// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"errors"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
)

// If the host reports that the address has no device, connecting fails at once as refused, and not
// after all retries as a timeout.
func TestNobodyThere(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has another error for it")
	}
	t.Parallel()
	a := open(t)
	to := netip.AddrPortFrom(loopback.Next(), 7471).String()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			_, err := cm.Dial(within(t), a, to)
			var reject *cm.RejectError
			if !errors.As(err, &reject) || !errors.Is(err, syscall.ECONNREFUSED) || reject.Address != to {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	asker := newSide(t, a, cm.UDP)
	asker.addQP(asker.id)
	asker.resolve(netip.MustParseAddrPort(to))
	ok(t, asker.id.Connect(nil))
	if e := asker.event(cm.Unreachable); !errors.Is(e.Err, syscall.ECONNREFUSED) {
		t.Error(e.Err)
	}
}
