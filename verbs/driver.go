// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"time"
)

// Driver is what a kind of device implements; programs use [Device]. A driver checks what only it
// can know (keys, queue space, limits) and returns the sentinels of this package. Its caller takes
// care of closing objects in the right order.
//
// A driver embeds [Unsupported] and overrides what it supports; its objects embed [UnsupportedPD]
// and so on. What not every device can do is an interface of its own that a driver's object may
// implement, such as [Excluder]. Package verbs does without it where possible. docs/driver.md names
// the call of libibverbs that would carry out each call here.
type Driver interface {
	QueryDevice() DeviceAttr
	QueryPort(port int) (PortAttr, error)
	GIDs(port int) ([]GIDEntry, error)
	PKeys(port int) ([]PKey, error)
	Clock() uint64 // now, in the nanoseconds of WC.Timestamp
	// Metrics may be called at any time, also by what a call of the driver has called, and does not
	// wait for other calls.
	Metrics() ([]Metric, error)
	// QPStats tells of all queue pairs. It is called as Metrics is.
	QPStats() ([]QPStats, error)

	AllocPD() (PDDriver, error)
	CreateCQ(cqe int, ev CQEvents) (CQDriver, error)
	OpenXRCD() (XRCDDriver, error)

	// SetEventSink sets the function that receives events of the device as a whole.
	SetEventSink(func(EventType, int))
	Close() error
}

// CQEvents are the calls that a driver makes for a completion queue. They do not block
// and may come from any goroutine, also from within another call of the driver.
type CQEvents struct {
	Completion func() // a completion of the requested kind has arrived
	Error      func() // the queue overflowed
}

// Drainer is a [Driver] that sends in the background. Drain is called before Close, while the device
// still works. It sends what can be sent at once.
type Drainer interface{ Drain() }

// PDDriver is a protection domain of a driver.
type PDDriver interface {
	RegMR(buf []byte, access Access) (MRDriver, error)
	AllocMR(size int, access Access) (MRDriver, error)
	AllocMW(t MWType) (MWDriver, error)
	CreateAH(attr AHAttr) (AHDriver, error)
	// CreateSRQ and CreateQP report what happens to the queue by calling events, which does not
	// block and may be called from any goroutine. The driver retains no reference to init.
	CreateSRQ(init *SRQInit, events func(EventType)) (SRQDriver, error)
	CreateQP(init *QPInit, events func(EventType)) (QPDriver, error)
	Dealloc() error
}

// SharedRegistrar is a [PDDriver] that maps memory which processes share, see [PD.RegShared].
type SharedRegistrar interface {
	RegShared(fd uintptr, offset int64, size int, access Access) (MRDriver, error)
}

// ExternalRegistrar is a [PDDriver] that copes with memory that is unmapped, see [PD.RegExternal].
type ExternalRegistrar interface {
	RegExternal(buf []byte, iova uint64, access Access) (MRDriver, error)
}

// XRCDDriver is an XRC domain of a driver.
type XRCDDriver interface {
	CreateTargetQP(init *QPInit, events func(EventType)) (QPDriver, error)
	Close() error
}

// MRDriver is a memory region of a driver.
type MRDriver interface {
	Addr() uint64
	LKey() Key
	RKey() Key
	Bytes() []byte
	// Rereg changes what the flags name; otherwise pd is nil and buf is ignored.
	Rereg(flags ReregFlags, pd PDDriver, buf []byte, access Access) error
	// Dereg returns after the last access of the device to the region. ErrBusy while a
	// memory window is bound to it.
	Dereg() error
}

// Excluder is an [MRDriver] that can keep its device from memory ([CapExclude]).
type Excluder interface {
	// Do runs f while the device touches no memory of the region.
	Do(f func(b []byte))
}

// Watcher is an [MRDriver] that learns of remote accesses ([CapWatch]).
type Watcher interface {
	// WaitFor runs cond, under exclusion as [Excluder] does, once at first and then after each
	// remote access that changed the region, until it returns true.
	WaitFor(ctx context.Context, cond func(b []byte) bool) error
}

// MWDriver is a memory window of a driver.
type MWDriver interface {
	RKey() Key
	Dealloc() error
}

// AHDriver is an address handle of a driver.
type AHDriver interface {
	Destroy() error
}

// CQDriver is a completion queue of a driver.
type CQDriver interface {
	Poll(wcs []WC) int
	ReqNotify(solicitedOnly bool) error
	Resize(cqe int) error
	Capacity() int
	Err() error // ErrOverflow once completions were lost
	Destroy() error
}

// SRQDriver is a shared receive queue of a driver.
type SRQDriver interface {
	PostRecv(wrs []RecvWR) (int, error)
	Modify(attr SRQAttr, mask SRQMask) error
	Query() SRQAttr
	Num() uint32 // XRC: the number that senders name
	Destroy() error
}

// QPDriver is a queue pair of a driver.
type QPDriver interface {
	Num() QPN
	// Modify checks the transition with CheckTransition and carries it out.
	Modify(attr *QPAttr, mask QPMask) error
	Query() (QPAttr, QPCap)
	Stats() (QPStats, error) // called as Driver.Metrics is
	PostSend(wrs []SendWR) (int, error)
	PostSendAll(wrs []SendWR) error
	PostRecv(wrs []RecvWR) (int, error)
	AttachMulticast(gid GID, lid uint16) error
	DetachMulticast(gid GID, lid uint16) error
	Destroy() error
}

// Unsupported answers every optional call of a Driver with ErrNotSupported. Its clock is the system's, in
// nanoseconds, and it raises no events.
type Unsupported struct{}

func (Unsupported) PKeys(int) ([]PKey, error)     { return nil, ErrNotSupported }
func (Unsupported) OpenXRCD() (XRCDDriver, error) { return nil, ErrNotSupported }
func (Unsupported) Clock() uint64                 { return uint64(time.Now().UnixNano()) }
func (Unsupported) Metrics() ([]Metric, error)    { return nil, ErrNotSupported }
func (Unsupported) QPStats() ([]QPStats, error)   { return nil, ErrNotSupported }
func (Unsupported) SetEventSink(func(EventType, int)) {
}

// UnsupportedPD answers every optional call of a PDDriver with ErrNotSupported.
type UnsupportedPD struct{}

func (UnsupportedPD) AllocMR(int, Access) (MRDriver, error) { return nil, ErrNotSupported }
func (UnsupportedPD) AllocMW(MWType) (MWDriver, error)      { return nil, ErrNotSupported }
func (UnsupportedPD) CreateAH(AHAttr) (AHDriver, error)     { return nil, ErrNotSupported }
func (UnsupportedPD) CreateSRQ(*SRQInit, func(EventType)) (SRQDriver, error) {
	return nil, ErrNotSupported
}

// UnsupportedMR answers every optional call of an MRDriver with ErrNotSupported.
type UnsupportedMR struct{}

func (UnsupportedMR) Rereg(ReregFlags, PDDriver, []byte, Access) error { return ErrNotSupported }

// UnsupportedCQ answers every optional call of a CQDriver with ErrNotSupported.
type UnsupportedCQ struct{}

func (UnsupportedCQ) Resize(int) error { return ErrNotSupported }

// UnsupportedSRQ answers every optional call of an SRQDriver with ErrNotSupported; its queues are not for XRC.
type UnsupportedSRQ struct{}

func (UnsupportedSRQ) Modify(SRQAttr, SRQMask) error { return ErrNotSupported }
func (UnsupportedSRQ) Num() uint32                   { return 0 }

// UnsupportedQP answers every optional call of a QPDriver with ErrNotSupported.
type UnsupportedQP struct{}

func (UnsupportedQP) Stats() (QPStats, error)           { return QPStats{}, ErrNotSupported }
func (UnsupportedQP) AttachMulticast(GID, uint16) error { return ErrNotSupported }
func (UnsupportedQP) DetachMulticast(GID, uint16) error { return ErrNotSupported }
