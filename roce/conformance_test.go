// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/conformance"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

func TestMain(m *testing.M) {
	testrun.Waits()
	os.Exit(m.Run())
}

// open opens a device of a loopback address of its own.
func open(t testing.TB, opt *roce.Options) (*verbs.Device, netip.Addr) {
	t.Helper()
	return loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, opt) })
}

// addresses6 counts the IPv6 addresses that were added to the namespace.
var addresses6 atomic.Uint32

// groups6 counts the IPv6 multicast groups that tests have taken.
var groups6 atomic.Uint32

func group4() verbs.GID { return ib.GIDFromAddr(loopback.NextGroup()) }

func group6() verbs.GID {
	return ib.GIDFromAddr(netip.MustParseAddr(fmt.Sprintf("ff15::4:%x", groups6.Add(1))))
}

func TestConformanceIPv4(t *testing.T) {
	f := fixture4(t, nil)
	f.Long = !raceDetector
	conformance.Run(t, f)
}

func TestConformancePlain(t *testing.T) {
	f := fixture4(t, &roce.Options{Plain: true})
	f.Variant = true
	f.Missing[conformance.MarkedSends] = "a plain socket has one for all its packets"
	conformance.Run(t, f)
}

// TestConformanceCongestion runs the suite on devices with each congestion control that is not the default.
func TestConformanceCongestion(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector sees the same code in the other runs, and in those of the engine")
	}
	for _, control := range []string{"dcqcn", "swift"} {
		t.Run(control, func(t *testing.T) { conformance.Run(t, fixture4(t, &roce.Options{Congestion: control})) })
	}
}

// TestConformanceIPv6 runs the suite between two IPv6 addresses. A machine has one on its
// loopback interface: a network namespace made for the test has as many as are needed.
func TestConformanceIPv6(t *testing.T) {
	loopback.Beside(t)
	if !inNamespace(t) {
		return
	}
	f := conformance.Fixture{Open: open6, Group: group6, Variant: true}
	open6(t) // adds an address, which sending to a group takes
	f.Missing = withoutMulticast(namespaceLink, f.Group)
	conformance.Run(t, f)
}

// TestConformanceIPv6Self runs it over the one IPv6 address that every machine has: each
// device is its own peer.
func TestConformanceIPv6Self(t *testing.T) {
	if raceDetector {
		t.Skip("one test after the other takes long with the race detector, which sees the same code in the other runs")
	}
	loopback.Alone(t)
	f := conformance.Fixture{Open: openLoopback6, Group: group6, Serial: true, Variant: true}
	f.Missing = withoutMulticast("", f.Group)
	f.Missing[conformance.TwoDevices] = "::1 is the only IPv6 address of the loopback interface"
	conformance.Run(t, f)
}

func openLoopback6(t testing.TB) *verbs.Device {
	t.Helper()
	dev, err := roce.Open("::1", nil)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		t.Skipf("somebody else uses it: %v", err)
	case err != nil:
		t.Skipf("no IPv6 here: %v", err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// open6 opens a device of an address that it adds to the namespace.
func open6(t testing.TB) *verbs.Device {
	t.Helper()
	n := addresses6.Add(1)
	addr := netip.MustParseAddr(fmt.Sprintf("fd00::%x:%x", n>>16, n&0xffff))
	if err := addAddress(addr); err != nil {
		t.Fatal(err)
	}
	dev, err := roce.Open(addr.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

func fixture4(t *testing.T, opt *roce.Options) conformance.Fixture {
	f := conformance.Fixture{
		Open:  func(t testing.TB) *verbs.Device { dev, _ := open(t, opt); return dev },
		Group: group4,
	}
	f.Missing = withoutMulticast("", f.Group)
	return f
}

// withoutMulticast are the abilities that a device is without: nothing where a plain socket can join a group.
// No link stands for the loopback interface.
func withoutMulticast(link string, group func() verbs.GID) map[conformance.Ability]string {
	missing := map[conformance.Ability]string{}
	if err := loopback.JoinGroup(link, group().Addr()); err != nil {
		missing[conformance.Multicast] = err.Error()
	}
	return missing
}
