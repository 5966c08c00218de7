// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"time"
)

// Driver is what a kind of device implements; programs use [Device]. A driver checks
// what only it can know (keys, queue space, limits) and returns the sentinels of this
// package. Closing in the right order is seen to above it.
//
// A driver embeds [Unsupported] and overrides what it can do.
type Driver interface {
	QueryDevice() DeviceAttr
	QueryPort(port int) (PortAttr, error)
	GIDs(port int) ([]GIDEntry, error)
	PKeys(port int) ([]PKey, error)
	Clock() uint64 // now, in the nanoseconds of WC.Timestamp
	Counters() []Counter

	AllocPD() (PDDriver, error)
	CreateCQ(cqe int, ev CQEvents) (CQDriver, error)
	OpenXRCD() (XRCDDriver, error)

	// SetEventSink says where events of the device as a whole go.
	SetEventSink(func(EventType, int))
	Close() error
}

// CQEvents are the calls that a driver makes for a completion queue. They do not block
// and may come from any goroutine, also from within another call of the driver.
type CQEvents struct {
	Completion func() // a completion of the kind that was asked for has arrived
	Error      func() // the queue overflowed
}

// PDDriver is a protection domain of a driver.
type PDDriver interface {
	RegMR(buf []byte, access Access) (MRDriver, error)
	AllocMR(size int, access Access) (MRDriver, error)
	AllocMW(t MWType) (MWDriver, error)
	CreateAH(attr AHAttr) (AHDriver, error)
	CreateSRQ(init SRQSpec) (SRQDriver, error)
	CreateQP(init QPSpec) (QPDriver, error)
	Dealloc() error
}

// ExternalRegistrar is a [PDDriver] that copes with memory that vanishes, see
// [PD.RegExternal].
type ExternalRegistrar interface {
	RegExternal(buf []byte, iova uint64, access Access) (MRDriver, error)
}

// XRCDDriver is an XRC domain of a driver.
type XRCDDriver interface {
	CreateTargetQP(init QPSpec) (QPDriver, error)
	Close() error
}

// MRDriver is a memory region of a driver.
type MRDriver interface {
	Addr() uint64
	LKey() Key
	RKey() Key
	Bytes() []byte
	// Rereg changes what the flags name; pd is nil and buf is ignored where they do not.
	Rereg(flags ReregFlags, pd PDDriver, buf []byte, access Access) error
	// Do runs f while the device touches no memory of the region.
	Do(f func(b []byte))
	// WaitFor runs cond as Do does, at first and then after remote accesses that
	// changed the region, until it returns true.
	WaitFor(ctx context.Context, cond func(b []byte) bool) error
	// Dereg returns after the last access of the device to the region. ErrBusy while a
	// memory window is bound to it.
	Dereg() error
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
	PostSend(wrs []SendWR) (int, error)
	PostSendAll(wrs []SendWR) error
	PostRecv(wrs []RecvWR) (int, error)
	AttachMulticast(gid GID, lid uint16) error
	DetachMulticast(gid GID, lid uint16) error
	Destroy() error
}

// QPSpec is QPInit as drivers get it.
type QPSpec struct {
	QPInit
	SendCQ, RecvCQ CQDriver
	SRQ            SRQDriver // nil: none
	Events         func(EventType)
}

// SRQSpec is SRQInit as drivers get it.
type SRQSpec struct {
	SRQInit
	XRCD   XRCDDriver // nil: not an XRC queue
	CQ     CQDriver   // XRC only
	Events func(EventType)
}

// Unsupported answers every optional call of a Driver with ErrNotSupported.
type Unsupported struct{}

func (Unsupported) PKeys(int) ([]PKey, error)     { return nil, ErrNotSupported }
func (Unsupported) OpenXRCD() (XRCDDriver, error) { return nil, ErrNotSupported }
func (Unsupported) Clock() uint64                 { return uint64(time.Now().UnixNano()) }
func (Unsupported) Counters() []Counter           { return nil }
func (Unsupported) SetEventSink(func(EventType, int)) {
}
