// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"context"
	"sync"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Echo has a device take connections at an address, and send back each message, until the test ends.
func Echo(t testing.TB, d *verbs.Device, address string) *cm.Listener {
	t.Helper()
	l, err := cm.Listen(t.Context(), d, address)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	serving.Go(func() {
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				for {
					b, err := c.Recv(ctx)
					if err != nil {
						return
					}
					err = c.Send(ctx, b.Bytes())
					b.Release()
					if err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		l.Close()
		serving.Wait()
	})
	return l
}

// EchoAddress is Echo at any port. It returns the address.
func EchoAddress(t testing.TB, d *verbs.Device) string {
	t.Helper()
	return Echo(t, d, ":0").Addr().String()
}
