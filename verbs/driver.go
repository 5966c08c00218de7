// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs/internal/hook"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// These are the interfaces of package verbs/driver, which documents them. That package imports this one. So they stand
// here once more, as type literals: Go compares the methods of type literals, not their names (decision 31). Package
// verbs/driver does not compile if the two differ.
type (
	deviceDriver = interface {
		QueryDevice() DeviceAttr
		QueryPort(port int) (PortAttr, error)
		GIDs(port int) ([]GIDEntry, error)
		PKeys(port int) ([]PKey, error)
		Clock() uint64
		Metrics() ([]metric.Metric, error)
		QPStats() ([]QPStats, error)
		Latencies() ([]Latency, error)
		SetFailureSink(func(*Failure)) error
		SetEventSink(func(EventType, int))
		AllocPD() (pdDriver, error)
		CreateCQ(cqe int, ev cqDriverEvents) (cqDriver, error)
		OpenXRCD() (xrcdDriver, error)
		Drain()
		Close() error
	}

	cqDriverEvents = struct {
		Completion func()
		Error      func()
	}

	pdDriver = interface {
		RegMR(buf []byte, access Access) (mrDriver, error)
		RegMROptions(buf []byte, access Access, opt driverRegOptions) (mrDriver, error)
		RegExternal(buf []byte, iova uint64, access Access) (mrDriver, error)
		RegShared(fd uintptr, offset int64, size int, access Access) (mrDriver, error)
		ReregMR(mr mrDriver, flags ReregFlags, buf []byte, access Access) error
		AllocMR(size int, access Access) (mrDriver, error)
		AllocMW(t MWType) (mwDriver, error)
		CreateAH(attr AHAttr) (ahDriver, error)
		CreateSRQ(init *SRQInit, events func(EventType)) (srqDriver, error)
		CreateQP(init *QPInit, events func(EventType)) (qpDriver, error)
		Dealloc() error
	}

	xrcdDriver = interface {
		CreateTargetQP(init *QPInit, events func(EventType)) (qpDriver, error)
		Close() error
	}

	mrDriver = interface {
		Addr() uint64
		LKey() Key
		RKey() Key
		Bytes() []byte
		Prefetch(off, n int, write bool) error
		WaitPinned(ctx context.Context) error
		Dereg() error
	}

	mwDriver = interface {
		RKey() Key
		Dealloc() error
	}

	ahDriver = interface{ Destroy() error }

	cqDriver = interface {
		Poll(wcs []WC) int
		ReqNotify(solicitedOnly bool) error
		Resize(cqe int) error
		Capacity() int
		Empty() bool
		Err() error
		Yields() bool
		OmitTimestamps()
		Defer()
		Destroy() error
	}

	srqDriver = interface {
		PostRecv(wrs []RecvWR) (int, error)
		Modify(attr SRQAttr, mask SRQMask) error
		Query() SRQAttr
		Num() uint32
		Destroy() error
	}

	qpDriver = interface {
		Num() QPN
		Modify(attr *QPAttr, mask QPMask) error
		Query() QPAttr
		Stats() (QPStats, error)
		Failure() *Failure
		PostSend(wrs []SendWR) (int, error)
		PostSendAll(wrs []SendWR) error
		PostRecv(wrs []RecvWR) (int, error)
		AttachMulticast(gid GID, lid uint16) error
		DetachMulticast(gid GID, lid uint16) error
		Destroy() error
	}
)

// callLog is the log of a device's calls, CallLog of package verbs/driver.
type callLog = interface {
	Wants(call string) bool
	Begin(call string, args ...callArg) (end func(result any, err error, out ...callArg))
}

// callArg is an argument of a call by its name in C.
type callArg = struct {
	Name  string
	Value any
}

// checker checks work requests and completions, Checker of package verbs/driver.
type checker = interface {
	PostSend(qp *QP, wrs []SendWR, all bool) (int, error)
	PostRecv(qp *QP, srq *SRQ, wrs []RecvWR) (int, error)
	Polled(cq *CQ, wcs []WC)
	Name(f *Failure) *Failure
	Look(mr *MR, off, n int, cond func(b []byte) bool) (watched func(b []byte) bool, seen func())
}

// Only some drivers implement these interfaces.
type (
	watcher interface {
		Do(f func(b []byte))
		WaitFor(ctx context.Context, cond func(b []byte) bool) error
	}

	sleeper interface {
		Sleeps() bool
		SleepsAtOnce() bool
		Sleep(awake func() bool, armed func() int, spin time.Duration) bool
		WakeSleeper()
	}
)

func init() {
	hook.NewDevice = newDevice
	hook.CheckTransition = checkTransition
	hook.DeviceOf = func(d *Device) deviceDriver { return d.drv }
	hook.PDOf = func(pd *PD) pdDriver { return pd.drv }
	hook.XRCDOf = func(x *XRCD) xrcdDriver { return x.drv }
	hook.MROf = func(mr *MR) mrDriver { return mr.drv }
	hook.MWOf = func(mw *MW) mwDriver { return mw.drv }
	hook.AHOf = func(ah *AH) ahDriver { return ah.drv }
	hook.CQOf = func(cq *CQ) cqDriver { return cq.drv }
	hook.SRQOf = func(s *SRQ) srqDriver { return s.drv }
	hook.QPOf = func(qp *QP) qpDriver { return qp.drv }
	hook.DriverOf = func(d *Device) any { return d.drv }
	hook.Use = (*Device).useBy
	hook.Wrap = wrap
	hook.Local = (*Device).local
	hook.OnClose = (*Device).registerOnClose
	hook.OnEvent = func(d *Device, f func(t EventType, port int)) { d.events.watch(f) }
	hook.Watch = (*QP).watchEvents
	hook.ForwardEvents = (*CompChannel).forwardEvents
	hook.RegOptionsOf = func(opts []RegOption) (driverRegOptions, error) {
		o, err := combine(opts)
		return o.driver, err
	}
	hook.LogCalls = func(d *Device, l callLog) { d.calls = l }
	hook.CallsOf = func(d *Device) callLog { return d.calls }
	hook.CheckWith = func(d *Device, l callLog, c checker) { d.calls, d.checks = l, c }
}
