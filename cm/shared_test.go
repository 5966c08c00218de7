// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A domain that is in use when the last connection goes is not lost: the next ones have it,
// or it is closed later.
func TestSharedDomainInUse(t *testing.T) {
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	var s shared
	pd, err := s.domain(dev)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.pool(64).Get(1)
	if err != nil {
		t.Fatal(err)
	}
	s.close() // the buffer is on its way back
	if again, err := s.domain(dev); again != pd || err != nil {
		t.Errorf("another domain, while the first is open: %v", err)
	}
	b.Release()
	if s.close(); s.pd != nil {
		t.Error("the domain stays")
	}
	if _, err := pd.RegMR(make([]byte, 1), 0); err == nil {
		t.Error("it is not closed")
	}
}
