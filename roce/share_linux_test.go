// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/conformance"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestConformanceShared runs the suite between devices that all have one address.
func TestConformanceShared(t *testing.T) {
	_, addr := open(t, nil) // which nobody else uses
	f := conformance.Fixture{Group: group4, Serial: true}
	f.Open = func(t testing.TB) *verbs.Device {
		t.Helper()
		dev, err := roce.Open(addr.String(), nil)
		if errors.Is(err, syscall.EADDRINUSE) { // some tests open more devices than can have one address
			_, addr = open(t, nil)
			return f.Open(t)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		return dev
	}
	f.Missing = withoutMulticast(t, f)
	conformance.Run(t, f)
}
