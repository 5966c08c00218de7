// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/system/ibverbs"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// What is converted by its number has the same one on both sides.
func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		what      string
		ours, ibv uint32
	}{
		{"RESET", uint32(verbs.StateReset), ibverbs.QpsReset}, {"INIT", uint32(verbs.StateInit), ibverbs.QpsInit}, {"RTR", uint32(verbs.StateRTR), ibverbs.QpsRtr},
		{"RTS", uint32(verbs.StateRTS), ibverbs.QpsRts}, {"SQD", uint32(verbs.StateSQD), ibverbs.QpsSqd}, {"SQE", uint32(verbs.StateSQE), ibverbs.QpsSqe}, {"ERR", uint32(verbs.StateError), ibverbs.QpsErr},
		{"State", uint32(verbs.MaskState), ibverbs.QPState}, {"CurState", uint32(verbs.MaskCurState), ibverbs.QPCurState},
		{"SQDAsyncNotify", uint32(verbs.MaskSQDAsyncNotify), ibverbs.QPEnSqdAsyncNotify}, {"Access", uint32(verbs.MaskAccess), ibverbs.QPAccessFlags},
		{"PKeyIndex", uint32(verbs.MaskPKeyIndex), ibverbs.QPPkeyIndex}, {"Port", uint32(verbs.MaskPort), ibverbs.QPPort}, {"QKey", uint32(verbs.MaskQKey), ibverbs.QPQkey},
		{"AH", uint32(verbs.MaskAH), ibverbs.QPAv}, {"PathMTU", uint32(verbs.MaskPathMTU), ibverbs.QPPathMTU}, {"Timeout", uint32(verbs.MaskTimeout), ibverbs.QPTimeout},
		{"RetryCount", uint32(verbs.MaskRetryCount), ibverbs.QPRetryCnt}, {"RNRRetry", uint32(verbs.MaskRNRRetry), ibverbs.QPRNRRetry},
		{"RQPSN", uint32(verbs.MaskRQPSN), ibverbs.QPRqPSN}, {"MaxRdAtomic", uint32(verbs.MaskMaxRdAtomic), ibverbs.QPMaxQPRDAtomic},
		{"MinRNRTimer", uint32(verbs.MaskMinRNRTimer), ibverbs.QPMinRNRTimer}, {"SQPSN", uint32(verbs.MaskSQPSN), ibverbs.QPSqPSN},
		{"MaxDestRdAtomic", uint32(verbs.MaskMaxDestRdAtomic), ibverbs.QPMaxDestRDAtomic}, {"DestQPN", uint32(verbs.MaskDestQPN), ibverbs.QPDestQpn},
		{"LOCAL_WRITE", uint32(verbs.LocalWrite), ibverbs.AccessLocalWrite}, {"REMOTE_WRITE", uint32(verbs.RemoteWrite), ibverbs.AccessRemoteWrite},
		{"REMOTE_READ", uint32(verbs.RemoteRead), ibverbs.AccessRemoteRead}, {"REMOTE_ATOMIC", uint32(verbs.RemoteAtomic), ibverbs.AccessRemoteAtomic},
		{"MW_BIND", uint32(verbs.MWBind), ibverbs.AccessMWBind}, {"ZERO_BASED", uint32(verbs.ZeroBased), ibverbs.AccessZeroBased},
		{"ON_DEMAND", uint32(verbs.OnDemand), ibverbs.AccessOnDemand}, {"HUGETLB", uint32(verbs.HugePages), ibverbs.AccessHugetlb},
		{"success", uint32(verbs.StatusSuccess), ibverbs.WCSuccess}, {"length", uint32(verbs.StatusLocalLengthError), ibverbs.WCLocLenErr}, {"flushed", uint32(verbs.StatusWRFlushError), ibverbs.WCWRFlushErr},
		{"remote access", uint32(verbs.StatusRemoteAccessError), ibverbs.WCRemAccessErr}, {"retries", uint32(verbs.StatusRetryExceeded), ibverbs.WCRetryExcErr},
		{"RNR retries", uint32(verbs.StatusRNRRetryExceeded), ibverbs.WCRNRRetryExcErr}, {"general", uint32(verbs.StatusGeneralError), ibverbs.WCGeneralErr},
		{"CQ error", uint32(verbs.EventCQError), ibverbs.EventCQErr}, {"SRQ limit", uint32(verbs.EventSRQLimitReached), ibverbs.EventSRQLimitReached},
		{"last WQE", uint32(verbs.EventQPLastWQEReached), ibverbs.EventQPLastWqeReached}, {"port active", uint32(verbs.EventPortActive), ibverbs.EventPortActive},
		{"GID change", uint32(verbs.EventGIDChange), ibverbs.EventGIDChange}, {"window 1", uint32(verbs.MWType1), ibverbs.MWType1}, {"window 2", uint32(verbs.MWType2), ibverbs.MWType2},
		{"rereg translation", uint32(verbs.ReregTranslation), ibverbs.ReregMRChangeTranslation}, {"rereg PD", uint32(verbs.ReregPD), ibverbs.ReregMRChangePD},
		{"rereg access", uint32(verbs.ReregAccess), ibverbs.ReregMRChangeAccess}, {"SRQ size", uint32(verbs.SRQMaxWR), ibverbs.SRQMaxWR}, {"limit", uint32(verbs.SRQLimit), ibverbs.SRQLimit},
		{"atomic", uint32(verbs.AtomicGlobal), ibverbs.AtomicGlob}, {"MTU", uint32(verbs.MTU4096), ibverbs.MTU4096},
	} {
		if c.ours != c.ibv {
			t.Errorf("%s is %d in package verbs, and %d in C", c.what, c.ours, c.ibv)
		}
	}
}

// The interface of an iWARP device is that of its GID.
func TestOfHardware(t *testing.T) {
	all := []net.Interface{{Name: "lo"}, {Name: "eth0", HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}, {Name: "eth1", HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 2}}}
	if got := ofHardware(&verbs.GID{2, 0, 0, 0, 0, 2}, all); got != "eth1" {
		t.Errorf("%q", got)
	}
	if got := ofHardware(&verbs.GID{}, all); got != "" {
		t.Errorf("%q of no GID", got)
	}
}

// Without a name there must be one device; errors list what there is.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		names, want string
		index       int
		err         string
	}{
		{"mlx5_0", "", 0, ""},
		{"mlx5_0 rxe0", "rxe0", 1, ""},
		{"", "", 0, "no RDMA device"},
		{"", "mlx5_0", 0, `no device "mlx5_0"`},
		{"mlx5_0 mlx5_1 rxe0", "", 0, "kernel:mlx5_0, kernel:mlx5_1 and kernel:rxe0"},
		{"mlx5_0", "mlx5", 0, `no device "mlx5", but kernel:mlx5_0`},
	} {
		i, err := choose(strings.Fields(c.names), c.want)
		if c.err == "" && (err != nil || i != c.index) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q of %q: %d, %v", c.want, c.names, i, err)
		}
		ambiguous := c.want == "" && c.names != ""
		if c.err != "" && errors.Is(err, verbs.ErrNotFound) == ambiguous {
			t.Errorf("%q of %q: errors.Is(%v, ErrNotFound) is %t", c.want, c.names, err, !ambiguous)
		}
	}
}

// Work requests are counted until the completion of a signaled one after them.
func TestOutstanding(t *testing.T) {
	var o outstanding
	o.init(4)
	for round := range 10 {
		for i := range 4 {
			o.post(i == 1 || i == 3)
		}
		if o.count() != 4 {
			t.Fatalf("round %d: %d, want 4", round, o.count())
		}
		o.complete()
		if o.count() != 2 {
			t.Fatalf("round %d: %d after the first completion, want 2", round, o.count())
		}
		o.post(true)
		o.undo(true)
		o.post(false)
		o.undo(false)
		o.complete()
		o.complete() // of before a reset
		if o.count() != 0 {
			t.Fatalf("round %d: %d at the end, want 0", round, o.count())
		}
	}
	o.post(true)
	if o.reset(); o.count() != 0 {
		t.Errorf("%d after a reset", o.count())
	}
}
