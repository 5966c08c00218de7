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

// Constants that are converted by number have the same number on both sides.
func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		what      string
		ours, ibv uint32
	}{
		{"RESET", uint32(verbs.StateReset), uint32(ibverbs.QpsReset)},
		{"INIT", uint32(verbs.StateInit), uint32(ibverbs.QpsInit)},
		{"RTR", uint32(verbs.StateRTR), uint32(ibverbs.QpsRtr)},
		{"RTS", uint32(verbs.StateRTS), uint32(ibverbs.QpsRts)},
		{"SQD", uint32(verbs.StateSQD), uint32(ibverbs.QpsSqd)},
		{"SQE", uint32(verbs.StateSQE), uint32(ibverbs.QpsSqe)},
		{"ERR", uint32(verbs.StateError), uint32(ibverbs.QpsErr)},
		{"State", uint32(verbs.MaskState), uint32(ibverbs.MaskQPState)},
		{"CurState", uint32(verbs.MaskCurState), uint32(ibverbs.MaskQPCurState)},
		{"SQDAsyncNotify", uint32(verbs.MaskSQDAsyncNotify), uint32(ibverbs.MaskQPEnSqdAsyncNotify)},
		{"Access", uint32(verbs.MaskAccess), uint32(ibverbs.MaskQPAccessFlags)},
		{"PKeyIndex", uint32(verbs.MaskPKeyIndex), uint32(ibverbs.MaskQPPkeyIndex)},
		{"Port", uint32(verbs.MaskPort), uint32(ibverbs.MaskQPPort)},
		{"QKey", uint32(verbs.MaskQKey), uint32(ibverbs.MaskQPQkey)},
		{"AH", uint32(verbs.MaskAH), uint32(ibverbs.MaskQPAv)},
		{"PathMTU", uint32(verbs.MaskPathMTU), uint32(ibverbs.MaskQPPathMTU)},
		{"Timeout", uint32(verbs.MaskTimeout), uint32(ibverbs.MaskQPTimeout)},
		{"RetryCount", uint32(verbs.MaskRetryCount), uint32(ibverbs.MaskQPRetryCnt)},
		{"RNRRetry", uint32(verbs.MaskRNRRetry), uint32(ibverbs.MaskQPRNRRetry)},
		{"RQPSN", uint32(verbs.MaskRQPSN), uint32(ibverbs.MaskQPRqPSN)},
		{"MaxRdAtomic", uint32(verbs.MaskMaxRdAtomic), uint32(ibverbs.MaskQPMaxQPRDAtomic)},
		{"MinRNRTimer", uint32(verbs.MaskMinRNRTimer), uint32(ibverbs.MaskQPMinRNRTimer)},
		{"SQPSN", uint32(verbs.MaskSQPSN), uint32(ibverbs.MaskQPSqPSN)},
		{"MaxDestRdAtomic", uint32(verbs.MaskMaxDestRdAtomic), uint32(ibverbs.MaskQPMaxDestRDAtomic)},
		{"DestQPN", uint32(verbs.MaskDestQPN), uint32(ibverbs.MaskQPDestQpn)},
		{"LOCAL_WRITE", uint32(verbs.LocalWrite), uint32(ibverbs.AccessLocalWrite)},
		{"REMOTE_WRITE", uint32(verbs.RemoteWrite), uint32(ibverbs.AccessRemoteWrite)},
		{"REMOTE_READ", uint32(verbs.RemoteRead), uint32(ibverbs.AccessRemoteRead)},
		{"REMOTE_ATOMIC", uint32(verbs.RemoteAtomic), uint32(ibverbs.AccessRemoteAtomic)},
		{"MW_BIND", uint32(verbs.MWBind), uint32(ibverbs.AccessMWBind)},
		{"ZERO_BASED", uint32(verbs.ZeroBased), uint32(ibverbs.AccessZeroBased)},
		{"ON_DEMAND", uint32(verbs.OnDemand), uint32(ibverbs.AccessOnDemand)},
		{"HUGETLB", uint32(verbs.HugePages), uint32(ibverbs.AccessHugetlb)},
		{"success", uint32(verbs.StatusSuccess), uint32(ibverbs.WCSuccess)},
		{"length", uint32(verbs.StatusLocalLengthError), uint32(ibverbs.WCLocLenErr)},
		{"flushed", uint32(verbs.StatusWRFlushError), uint32(ibverbs.WCWRFlushErr)},
		{"remote access", uint32(verbs.StatusRemoteAccessError), uint32(ibverbs.WCRemAccessErr)},
		{"retries", uint32(verbs.StatusRetryExceeded), uint32(ibverbs.WCRetryExcErr)},
		{"RNR retries", uint32(verbs.StatusRNRRetryExceeded), uint32(ibverbs.WCRNRRetryExcErr)},
		{"general", uint32(verbs.StatusGeneralError), uint32(ibverbs.WCGeneralErr)},
		{"CQ error", uint32(verbs.EventCQError), uint32(ibverbs.EventCQErr)},
		{"SRQ limit", uint32(verbs.EventSRQLimitReached), uint32(ibverbs.EventSRQLimitReached)},
		{"last WQE", uint32(verbs.EventQPLastWQEReached), uint32(ibverbs.EventQPLastWqeReached)},
		{"port active", uint32(verbs.EventPortActive), uint32(ibverbs.EventPortActive)},
		{"GID change", uint32(verbs.EventGIDChange), uint32(ibverbs.EventGIDChange)},
		{"window 1", uint32(verbs.MWType1), uint32(ibverbs.MWType1)},
		{"window 2", uint32(verbs.MWType2), uint32(ibverbs.MWType2)},
		{"rereg translation", uint32(verbs.ReregTranslation), uint32(ibverbs.ReregMRChangeTranslation)},
		{"rereg PD", uint32(verbs.ReregPD), uint32(ibverbs.ReregMRChangePD)},
		{"rereg access", uint32(verbs.ReregAccess), uint32(ibverbs.ReregMRChangeAccess)},
		{"SRQ size", uint32(verbs.SRQMaxWR), uint32(ibverbs.MaskSRQMaxWR)},
		{"limit", uint32(verbs.SRQLimit), uint32(ibverbs.MaskSRQLimit)},
		{"atomic", uint32(verbs.AtomicGlobal), uint32(ibverbs.AtomicGlob)},
		{"MTU", uint32(verbs.MTU4096), uint32(ibverbs.MTU4096)},
	} {
		if c.ours != c.ibv {
			t.Errorf("%s is %d in package verbs, and %d in C", c.what, c.ours, c.ibv)
		}
	}
}

// The interface of an iWARP device is that of its GID.
func TestOfHardware(t *testing.T) {
	all := []net.Interface{{Name: "lo"}, {Name: "eth0", HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}},
		{Name: "eth1", HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 2}}}
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
		if c.err == "" && (err != nil || i != c.index) ||
			c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
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
