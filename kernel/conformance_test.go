// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel_test

import (
	"maps"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/conformance"
	"github.com/ramjet-rdma/ramjet/kernel"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// deviceVariable names the device under test by the kernel's name, such as rxe0, where there is one.
const deviceVariable = "RAMJET_KERNEL_DEVICE"

var groups atomic.Uint32

func group() verbs.GID {
	n := groups.Add(1)
	return verbs.GID{10: 0xff, 11: 0xff, 12: 239, 13: 255, 14: byte(n >> 8), 15: byte(n)}
}

// TestConformance runs the suite on Ramjet's own libibverbs, whose devices are of software: the library under
// test is on both sides of the call.
func TestConformance(t *testing.T) {
	names := ownDevices(t)
	var next atomic.Uint32
	missing, differs := ofKernel()
	conformance.Run(t, conformance.Fixture{Missing: missing, Differs: differs, Group: group, Serial: true, Open: func(t testing.TB) *verbs.Device {
		return open(t, names[int(next.Add(1))%len(names)])
	}})
}

func open(t testing.TB, name string) *verbs.Device {
	t.Helper()
	dev, err := kernel.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// ofKernel returns what a device of the kernel is without, and what it does otherwise.
func ofKernel() (missing map[conformance.Ability]string, differs map[string]string) {
	missing = map[conformance.Ability]string{
		conformance.GeneralServices: "the kernel owns QP1",
		conformance.AtomicFlush:     "the headers of rdma-core 44 do not have them",
	}
	missing[conformance.Metrics] = "Ramjet's library has no counters in sysfs"
	return missing, map[string]string{
		"MR/Empty":       "ibv_rereg_mr takes no region of no bytes",
		"MR/ReregAll":    "ibv_rereg_mr makes no region zero-based",
		"MW/BindRefused": "a bind may be refused when it is posted",
		"Metrics/QP":     "the device does not count what each queue pair does",

		"Refused/Why":      "a completion has the status, and no more is known",
		"Refused/WhyLocal": "a completion has the status, and no more is known",
	}
}

// ownDevices returns the names of devices of Ramjet's libibverbs.
func ownDevices(t *testing.T) (names []string) {
	t.Helper()
	if os.Getenv("RAMJET_LIBIBVERBS") == "" {
		t.Skip("RAMJET_LIBIBVERBS does not name Ramjet's libibverbs.so.1, as cabi/build.sh builds it")
	}
	for _, d := range strings.Split(os.Getenv("RAMJET_DEVICES"), ",") {
		names = append(names, strings.ReplaceAll(d, ":", "_"))
	}
	return names
}

// ofRXE is what rxe of Linux 6.12, with rdma-core 56, does otherwise than the suite expects.
var ofRXE = map[string]string{
	"Attributes/Port":        "rows of the GID table are empty",
	"CQ/Overflow":            "it raises no event",
	"Channel/SolicitedError": "a failed work request raises no solicited event",
	"Event/CommEstablished":  "it raises no such event",
	"MR/ZeroBased":           "the kernel has zero-based regions begin at a page",
	"MR/Keys":                "keys follow each other",
	"MR/DeregPosted":         "another status",
	"MR/DeregReceive":        "another status",
	"MR/ReregMemory":         "it cannot change the memory of a region",
	"MR/ReregAccess":         "the device answers that it cannot",
	"MR/ReregDomain":         "the device answers that it cannot",
	"MR/Modes":               "it cannot change the memory of a region",
	"MW/Type1":               "EINVAL for a region with a window",
	"MW/Type2":               "a bind that fails is flushed",
	"MW/KeyPortion":          "rdma-core posts no local invalidation to it",
	"MW/LocalInvalidate":     "rdma-core posts no local invalidation to it",
	"MW/RemoteInvalidate":    "the flag of the completion is the kernel's, 1<<2, which is another one for programs",
	"MW/Bounds":              "an address before the window is permitted",
	"SRQ/Shared":             "queues are longer than they have to be",
	"SRQ/Attributes":         "any limit is taken, also above the length",
	"State/RC":               "the kernel's table has no way from RESET to ERR",
	"State/UC":               "the kernel's table has no way from RESET to ERR",
	"State/UD":               "the kernel's table has no way from RESET to ERR",
	"State/Query":            "MaxDestRdAtomic becomes a power of two",
	"State/Posting":          "the kernel's table has no way from RESET to ERR",
	"State/BadValues":        "it takes values beyond its tables",
	"Flush/Order":            "what is posted in ERR waits for ever",
	"Flush/AfterFailure":     "it raises no event",
	"Flush/SQE":              "a send that fails is flushed, without a status of its own",
	"Drain/Waits":            "what is posted in SQD does not start in RTS",
	"Atomic/Refused":         "rdma-core refuses it when it is posted",
	"Refused/Remote":         "it raises no event",
	"UD/HopLimit":            "its packets to the same host have a hop limit of their own",
	"UD/QKey":                "a Q_Key with its top bit set does not stand for the queue pair's own",
	"UD/TooLong":             "a datagram longer than the MTU completes with success",
	"UD/ReceiveTooSmall/SRQ": "a datagram that does not fit has the sender fail",
	"UD/Multicast":           "the group's address and the GID of row 0 are of two families",
	"UD/MulticastToSelf":     "rdma-core creates no queue pairs with this flag on it",
	"Close/OtherDevice":      "a bind that fails is flushed",
	"Numbers":                "numbers and keys follow each other",
	"Shape/Inline":           "the device takes less inline",
	"Scattered/SRQ":          "the device has fewer SGEs in shared queues",
	"MW/Busy":                "EINVAL for a region with a window",
	"MW/Invalidates":         "an invalidation that fails is flushed",
}

// TestConformanceKernel runs the suite on a device of the kernel, which RAMJET_KERNEL_DEVICE names: in the guest
// machine of interop.
func TestConformanceKernel(t *testing.T) {
	name := os.Getenv(deviceVariable)
	if name == "" {
		t.Skipf("%s names no device", deviceVariable)
	}
	dev := open(t, name)
	a := dev.Query()
	if a.Transport == verbs.TransportIWARP {
		t.Skip("queue pairs of iWARP are connected by package cm, and the suite connects them by their numbers")
	}
	missing, differs := ofKernel()
	if strings.HasPrefix(name, "rxe") {
		maps.Copy(differs, ofRXE)
	}
	missing[conformance.Metrics] = "its counters are the kernel's: TestMetrics"
	lacks := func(c verbs.DeviceCap, ability conformance.Ability, why string) {
		if a.Caps&c == 0 {
			missing[ability] = why
		}
	}
	lacks(verbs.CapXRC, conformance.XRC, "the device has no XRC")
	lacks(verbs.CapUC, conformance.Unreliable, "the device has no UC")
	lacks(verbs.CapUD, conformance.Datagrams, "the device has no UD")
	lacks(verbs.CapUDMulticast, conformance.Multicast, "the device has no multicast")
	lacks(verbs.CapSRQ, conformance.SharedRecvs, "the device has no shared receive queues")
	lacks(verbs.CapMWType2B, conformance.Windows, "the device has no memory windows of type 2B")
	conformance.Run(t, conformance.Fixture{Missing: missing, Differs: differs, Group: group, Serial: true, Open: func(t testing.TB) *verbs.Device {
		return open(t, name)
	}})
}
