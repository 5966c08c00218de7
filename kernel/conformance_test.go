// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel_test

import (
	"flag"
	"fmt"
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

// everything runs the tests of the differences, too: the failures show the device's answers.
var everything = flag.Bool("all", false, "run the tests that the device under test cannot pass, too")

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
	conformance.Run(t, conformance.Fixture{Missing: missing, Differs: differs, Group: group, Serial: true,
		Open: func(t testing.TB) *verbs.Device {
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

// ofKernel returns the abilities that a device of the kernel lacks, and its differences.
func ofKernel() (missing map[conformance.Ability]string, differs map[string]string) {
	missing = map[conformance.Ability]string{
		conformance.GeneralServices: "the kernel owns QP1",
		conformance.AtomicFlush:     "the headers of rdma-core 44 do not have them",
	}
	differs = map[string]string{
		"MR/Empty":       "ibv_rereg_mr takes no region of no bytes",
		"MR/ReregAll":    "ibv_rereg_mr makes no region zero-based",
		"MW/BindRefused": "a bind may be refused when it is posted",
		"Metrics/QP":     "the device does not count what each queue pair does",

		"Metrics/Traffic":   "traffic is counted by the kernel, in sysfs, for the ports: TestMetrics",
		"Metrics/Latencies": "the device measures none",
		"Metrics/Windows":   "to what a window is bound, the device knows",

		"Refused/Why":      "a completion has the status, and no more is known",
		"Refused/WhyLocal": "a completion has the status, and no more is known",

		"Fact/Limit/Atomic": "libibverbs says ATOMIC_HCA, which programs ask for",
		"Fact/Limit/Caps":   "the headers of rdma-core 44 have no flags for FLUSH and ATOMIC WRITE, and timestamps are an extended attribute",
	}
	for _, fact := range []string{"Twice", "RegionRight", "RegionOwner", "Bounds", "NoBytes"} {
		differs["Fact/MW/Bind/"+fact] = "the window's key is the one that was posted, whatever becomes of the bind"
	}
	return missing, differs
}

// ownDevices returns the names of devices of Ramjet's libibverbs.
func ownDevices(t *testing.T) (names []string) {
	t.Helper()
	if os.Getenv("RAMJET_LIBIBVERBS") == "" {
		t.Skip("RAMJET_LIBIBVERBS does not name Ramjet's libibverbs.so.1, as cabi/build.sh builds it")
	}
	for i, d := range strings.Split(os.Getenv("RAMJET_DEVICES"), ",") {
		kind, _, _ := strings.Cut(d, ":") // all are of one
		names = append(names, fmt.Sprint(kind, i))
	}
	return names
}

// Differences that several tests meet.
const (
	noRereg   = "rdma-core's driver has no ibv_rereg_mr: EOPNOTSUPP"
	noEvent   = "it raises no asynchronous event"
	noPaging  = "there is no on-demand paging, and asking for it is refused"
	noReset   = "from SQD there is no way to RESET until the queue has drained, of which nothing tells"
	lateFlush = "a receive that is posted in ERR is flushed when something else wakes the responder: posting it is no system call"
	noRestart = "what waits in SQD does not start by itself in RTS"
	inOrder   = "numbers and keys are handed out in order"
	sixSGEs   = "a list has at most 6 SGEs, and that of a READ one"
	noDrain   = "SQD is siw's CLOSING: the stream ends, and there is no way back to RTS"
	notInTime = "a SEND that finds no receive ends the stream: it does not wait"
)

// ofRXE are the answers of rxe of Linux 6.12, with rdma-core 56, that are otherwise than the suite expects.
var ofRXE = map[string]string{
	"Attributes/Port":            "the GID table has 1024 rows, of which three are in use",
	"CQ/Overflow":                "the queue pair's error is no event: only the completion queue's is",
	"Channel/SolicitedError":     "a receive that fails raises no solicited event",
	"Event/CommEstablished":      noEvent,
	"MR/ZeroBased":               "the address in a region has to lie in its page as the memory does: EINVAL for memory that begins within a page",
	"MR/OnDemand":                noPaging,
	"MR/Prefetch":                noPaging,
	"MR/Keys":                    "keys are an index that counts and a random byte: few different steps",
	"MR/Empty":                   noRereg,
	"MR/ReregMemory":             noRereg,
	"MR/ReregAccess":             noRereg,
	"MR/ReregDomain":             noRereg,
	"MR/Modes":                   noRereg,
	"Metrics/Objects":            noRereg,
	"MR/DeregPosted":             noRestart,
	"MR/DeregReceive":            "the status is LOC_QP_OP_ERR",
	"MW/Type1":                   "deregistering a region with a window is EINVAL, not EBUSY",
	"MW/Busy":                    "deregistering a region with a window is EINVAL, not EBUSY",
	"MW/Type2":                   "a bind that fails completes with WR_FLUSH_ERR",
	"MW/Invalidates":             "an invalidation that has nothing to invalidate crashes the kernel: a NULL pointer in __rxe_put",
	"MW/RemoteInvalidate":        "the completion has the kernel's flag for it, 1<<2, which is IBV_WC_IP_CSUM_OK for programs",
	"MW/Bounds":                  "the bounds of a window are not checked, those of its region are",
	"SRQ/Shared":                 "queues are made longer: the work request beyond the 16 that were asked for is taken",
	"SRQ/Attributes":             "any limit is taken, also above the length",
	"State/RC":                   noReset,
	"State/UC":                   noReset,
	"State/UD":                   "a datagram that fails completes with WR_FLUSH_ERR",
	"State/Query":                "MaxDestRdAtomic 6 becomes 8, and a Modify from SQD to SQD is refused while the queue drains",
	"State/BadValues":            "it takes values beyond the tables of InfiniBand",
	"Flush/Order":                lateFlush,
	"State/Posting":              lateFlush,
	"Flush/AfterFailure":         noEvent,
	"Flush/SQE":                  "a SEND of UC that fails completes with WR_FLUSH_ERR",
	"Drain/Waits":                noRestart,
	"Drain/Notify":               noRestart,
	"Atomic/Refused":             "rdma-core refuses an unaligned address when it is posted: EINVAL",
	"Refused/Remote":             noEvent,
	"Refused/QPAccess":           noEvent,
	"Refused/Local":              "a SEND or WRITE of memory that it may not read completes with WR_FLUSH_ERR",
	"Refused/OtherDomain":        "a SEND or WRITE of memory that it may not read completes with WR_FLUSH_ERR",
	"Refused/Receive":            "the status is LOC_QP_OP_ERR",
	"Refused/ReceiveTooSmall":    "the receive completes with LOC_QP_OP_ERR, and the SEND with REM_OP_ERR",
	"Refused/UC/ReceiveTooSmall": "the receive completes with LOC_QP_OP_ERR",
	"UD/HopLimit":                "the kernel takes the hop limit of its route",
	"UD/QKey":                    "a Q_Key with its top bit set goes out as it is",
	"UD/TooLong":                 "a datagram longer than the MTU completes with success",
	"UD/ReceiveTooSmall/SRQ":     "a datagram that does not fit is refused: the sender's next work request fails with REM_INV_REQ_ERR",
	"UD/Multicast":               "a group of IPv4 has no way from the GID of row 0, which is of IPv6",
	"UD/MulticastToSelf":         "rdma-core creates no queue pairs with IBV_QP_CREATE_BLOCK_SELF_MCAST_LB on it",
	"Close/OtherDevice":          "a bind that fails completes with WR_FLUSH_ERR",
	"Numbers":                    inOrder,
	"Shape/Inline":               "512 bytes at most go inline",
	"Scattered/SRQ":              "27 SGEs in shared queues, 32 in others",
}

// ofSIW are the answers of siw of Linux 6.12, with rdma-core 56, that are otherwise than the suite expects.
var ofSIW = map[string]string{
	"Measure/IdleQP":         "with some 70 connected queue pairs rdma-core's driver makes no more, and sets no errno",
	"Concurrent/ManyQPs":     "with some 70 connected queue pairs rdma-core's driver makes no more, and sets no errno",
	"RNR/Late":               notInTime,
	"SRQ/RNR":                notInTime,
	"Retry/PeerCloses":       "work requests that were posted when the stream ended do not all complete",
	"Attributes/Device":      "6 SGEs, and there are no P_Keys",
	"Attributes/Port":        "there are no P_Keys",
	"CQ/Resize":              "there is no ibv_resize_cq",
	"CQ/Overflow":            "the queue pair's error is no event: only the completion queue's is",
	"CQ/Forget":              noDrain,
	"Channel/Solicited":      "a receive is no solicited completion, whatever the SEND says: siw_rqe_complete asks for SIGNALLED",
	"Channel/SolicitedError": "a receive is no solicited completion, whatever the SEND says: siw_rqe_complete asks for SIGNALLED",
	"MR/Empty":               "a region of no bytes is EINVAL",
	"MR/ZeroBased":           "the address in a region is that of the memory: EINVAL",
	"MR/OnDemand":            noPaging,
	"MR/Prefetch":            noPaging,
	"MR/ReregMemory":         noRereg,
	"MR/ReregAccess":         noRereg,
	"MR/ReregDomain":         noRereg,
	"MR/Modes":               noRereg,
	"Metrics/Objects":        noRereg,
	"MR/DeregPosted":         noDrain,
	"MR/DeregReceive":        "the status is IBV_WC_GENERAL_ERR",
	"MR/DeregUnderRead":      "a READ that the peer refuses is flushed",
	"SRQ/Shared":             "rdma-core's driver answers a full queue with EINVAL",
	"SRQ/Attributes":         "ibv_query_srq returns zeros",
	"SRQ/LastWQE":            noEvent,
	"State/Create":           sixSGEs,
	"State/ResetReuse":       "there is no way from RTS to RESET: a queue pair is connected once",
	"Drain/Waits":            noDrain,
	"Drain/Notify":           noDrain,
	"Drain/Idle":             noDrain,
	"Drain/AtOnce":           noDrain,
	"Op/ZeroLength":          "a receive without SGEs is EINVAL",
	"Op/Mixed":               "a SEND completes before the READ that was posted before it",
	"Shape/ScatterGather":    sixSGEs,
	"Shape/ReadScatter":      sixSGEs,
	"Scattered/Read":         sixSGEs,
	"Shape/Inline":           "64 bytes at most go inline",
	"Refused/Remote":         noEvent,
	"Refused/QPAccess":       "the access flags of the queue pair are not looked at: a WRITE succeeds",
	"Refused/OtherDomain":    "the status is LOC_QP_OP_ERR",
	"Refused/Local":          "the status is LOC_QP_OP_ERR",
	"Refused/Receive":        "the status is IBV_WC_GENERAL_ERR",
	"Close/After":            "there are no windows",
	"Numbers":                inOrder,
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
	missing, differs := ofKernel()
	var connect func(testing.TB, *verbs.QP, *verbs.QP, *verbs.ConnectOptions)
	switch {
	case a.Transport == verbs.TransportIWARP:
		lacking, otherwise := conformance.OfIWARP()
		maps.Copy(missing, lacking)
		maps.Copy(differs, otherwise)
		missing[conformance.WriteWithImm] = "siw has no messages with immediate data"
		missing[conformance.Numbered] = "queue pairs of iWARP are connected by addresses and ports"
		maps.Copy(differs, ofSIW)
		connect = byManager
	default:
		missing[conformance.ResetToErr] = "the kernel's table has no way from RESET to ERR"
		maps.Copy(differs, ofRXE)
	}
	missing[conformance.Connections] = "the kernel's connection manager orders its events itself"
	missing[conformance.Alike] = "the kernel's driver is not Ramjet's: the tables here say what it does otherwise"
	if *everything {
		clear(differs)
	}
	lacks := func(c verbs.DeviceCap, ability conformance.Ability, why string) {
		if a.Caps&c == 0 {
			missing[ability] = why
		}
	}
	if a.Atomic == 0 {
		missing[conformance.Atomics] = "the device has no atomic operations"
	}
	lacks(verbs.CapXRC, conformance.XRC, "the device has no XRC")
	lacks(verbs.CapUC, conformance.Unreliable, "the device has no UC")
	lacks(verbs.CapUD, conformance.Datagrams, "the device has no UD")
	lacks(verbs.CapUDMulticast, conformance.Multicast, "the device has no multicast")
	lacks(verbs.CapSRQ, conformance.SharedRecvs, "the device has no shared receive queues")
	lacks(verbs.CapMWType2B, conformance.Windows, "the device has no memory windows of type 2B")
	conformance.Run(t, conformance.Fixture{Missing: missing, Differs: differs, Group: group, Connect: connect,
		Serial: true, Open: func(t testing.TB) *verbs.Device {
			return open(t, name)
		}})
}
