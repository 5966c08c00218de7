// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
)

// routeless is a network without a route to anywhere.
type routeless struct{ streamdev.Network }

var errRouteless = errors.New("no route")

func (routeless) CheckRoute(from, to netip.Addr) error { return errRouteless }

// TestWrappedRoutes holds that devices hear of routes also where their network is inside another.
func TestWrappedRoutes(t *testing.T) {
	from, to := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1")
	for _, n := range []streamdev.Network{
		&tlsNetwork{Network: routeless{}},
		&tracedNetwork{Network: routeless{}},
		&tracedNetwork{Network: &tlsNetwork{Network: routeless{}}},
	} {
		r, ok := n.(softdev.Router)
		if !ok {
			t.Errorf("%T knows no routes", n)
			continue
		}
		if err := r.CheckRoute(from, to); !errors.Is(err, errRouteless) {
			t.Errorf("%T: %v, want %v", n, err, errRouteless)
		}
	}
}
