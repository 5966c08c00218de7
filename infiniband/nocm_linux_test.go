// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
)

// An adapter without a program, or whose programs have no connection manager, refuses connections at once.
func TestNoConnectionManager(t *testing.T) {
	f := softfabric.Start(t, "star:3")
	client := device(t, f, "host-1")
	device(t, f, "host-3") // it is open, without a listener
	for _, ip := range []string{"198.18.0.2", "198.18.0.3"} {
		var why *cm.RejectError
		if _, err := cm.Dial(within(t), client, ip+":7777"); !errors.As(err, &why) ||
			why.Reason != cm.ReasonInvalidService {
			t.Errorf("%s: %v, want that the service is unknown", ip, err)
		}
		s := newDatagrams(t, client)
		s.ok(s.id.ResolveAddr(netip.AddrPort{}, netip.MustParseAddrPort(ip+":7777"), time.Minute))
		s.event(cm.AddrResolved)
		s.open(s.id)
		s.ok(s.id.ResolveRoute(time.Minute))
		s.event(cm.RouteResolved)
		s.ok(s.id.Connect(nil))
		if e, err := s.ch.Get(within(t)); err != nil || e.Type != cm.Unreachable && e.Type != cm.Rejected {
			t.Errorf("%s: %v, %+v", ip, err, e)
		}
	}
}
