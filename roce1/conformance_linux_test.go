// SPDX-License-Identifier: Apache-2.0

package roce1_test

import (
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/conformance"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

func TestMain(m *testing.M) {
	testrun.Waits()
	os.Exit(m.Run())
}

// groups counts the multicast groups that tests have taken.
var groups atomic.Uint32

func group() verbs.GID {
	return ib.GIDFromAddr(netip.MustParseAddr(fmt.Sprintf("ff15::8:%x", groups.Add(1))))
}

// TestConformance runs the suite between interfaces of two network namespaces, which a bridge connects.
func TestConformance(t *testing.T) {
	if !needNetworks(t) {
		return
	}
	conformance.Run(t, conformance.Fixture{Open: newBridge(t).open, Group: group, Long: !raceDetector})
}
