// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/internal/hook"
)

// PD is a protection domain of a driver.
type PD = interface {
	RegMR(buf []byte, access verbs.Access) (MR, error)
	// RegMROptions registers with one of the modes RegPinned, RegPipelined and RegDeferred, or a weak region.
	// RegOnDemand does not get here: it is an access flag.
	RegMROptions(buf []byte, access verbs.Access, opt RegOptions) (MR, error)
	// RegExternal copes with memory that is unmapped, see [verbs.External].
	RegExternal(buf []byte, iova uint64, access verbs.Access) (MR, error)
	// RegShared maps memory that processes share, see [verbs.PD.RegShared].
	RegShared(fd uintptr, offset int64, size int, access verbs.Access) (MR, error)
	// ReregMR changes the properties that the flags name. The domain is the region's new one; without
	// [verbs.ReregPD] the one that it has. Without [verbs.ReregTranslation] buf is ignored.
	ReregMR(mr MR, flags verbs.ReregFlags, buf []byte, access verbs.Access) error
	AllocMR(size int, access verbs.Access) (MR, error)
	AllocMW(t verbs.MWType) (MW, error)
	CreateAH(attr verbs.AHAttr) (AH, error)
	// CreateSRQ and CreateQP report asynchronous events of the queue by calling events, which does not
	// block and may be called from any goroutine. The driver retains no reference to init.
	CreateSRQ(init *verbs.SRQInit, events func(verbs.EventType)) (SRQ, error)
	CreateQP(init *verbs.QPInit, events func(verbs.EventType)) (QP, error)
	Dealloc() error
}

// RegOptions are the options of a registration that a driver carries out.
type RegOptions = struct {
	Mode  RegMode
	Chunk int  // RegPipelined: how many bytes are pinned at a time
	Weak  bool // the region does not keep the memory alive
}

// RegMode says when the memory of a region is pinned: kept from being paged out, so that the device
// always finds it.
type RegMode = hook.RegMode

const (
	RegDefault   = hook.RegDefault   // as the device does by itself: hardware pins, Ramjet's own devices do not
	RegPinned    = hook.RegPinned    // before RegMR returns
	RegPipelined = hook.RegPipelined // the first pages before RegMR returns, the others in the background
	RegDeferred  = hook.RegDeferred  // each page when it is used for the first time
	RegOnDemand  = hook.RegOnDemand  // never
)

// RegOptionsOf puts the options of a registration together, for packages that register in the place of a program.
func RegOptionsOf(opts []verbs.RegOption) (RegOptions, error) { return regOptionsOf(opts) }

// MR is a memory region of a driver.
type MR = interface {
	Addr() uint64
	LKey() verbs.Key
	RKey() verbs.Key
	Bytes() []byte
	// Prefetch brings in n bytes from off on, which are within the region, before they are used.
	Prefetch(off, n int, write bool) error
	// WaitPinned returns when the memory is pinned, see [verbs.MR.WaitPinned].
	WaitPinned(ctx context.Context) error
	// Dereg returns after the last access of the device to the region. ErrBusy while a
	// memory window is bound to it.
	Dereg() error
}

// Watcher is an [MR] that can keep its device from memory ([verbs.CapExclude]) and that learns of remote
// accesses ([verbs.CapWatch]).
type Watcher interface {
	// Do runs f while the device touches no memory of the region.
	Do(f func(b []byte))
	// WaitFor runs cond, under exclusion as Do does, once at first and then after each
	// remote access that changed the region, until it returns true.
	WaitFor(ctx context.Context, cond func(b []byte) bool) error
}

// Accesses follows the one-sided operations of peers while they are carried out, and datagrams that are dropped. Its
// methods neither block nor call the device.
type Accesses = interface {
	// Begin is called before the first byte of memory b is touched.
	Begin(qpn verbs.QPN, op verbs.SendOp, remote verbs.Remote, b []byte)
	// Extend adds memory to the WRITE that has begun on a queue pair, before it is touched.
	Extend(qpn verbs.QPN, b []byte)
	// Last is called before the last bytes of a WRITE are written, unless Begin was just before.
	Last(qpn verbs.QPN)
	// End is called after the operation on b, of which nil stands for the WRITE that has begun. done is false if it
	// has changed nothing, as a compare-and-swap that did not swap.
	End(qpn verbs.QPN, op verbs.SendOp, b []byte, done bool)
	// TooLong is called when a datagram of n bytes does not fit behind a GRH into the oldest receive, which takes room.
	TooLong(qpn verbs.QPN, n int, room uint64)
}

// AccessWatcher is a [Device] that reports the one-sided operations of peers.
type AccessWatcher interface {
	// WatchAccesses has a follow them. It is called before the device is used.
	WatchAccesses(a Accesses)
}

// MW is a memory window of a driver.
type MW = interface {
	RKey() verbs.Key
	Dealloc() error
}

// AH is an address handle of a driver.
type AH = interface{ Destroy() error }

// UnsupportedPD answers every call of a [PD] that a driver may lack with ErrNotSupported.
type UnsupportedPD struct{}

func (UnsupportedPD) RegMROptions([]byte, verbs.Access, RegOptions) (MR, error) {
	return nil, verbs.ErrNotSupported
}
func (UnsupportedPD) RegExternal([]byte, uint64, verbs.Access) (MR, error) {
	return nil, verbs.ErrNotSupported
}
func (UnsupportedPD) RegShared(uintptr, int64, int, verbs.Access) (MR, error) {
	return nil, verbs.ErrNotSupported
}
func (UnsupportedPD) ReregMR(MR, verbs.ReregFlags, []byte, verbs.Access) error {
	return verbs.ErrNotSupported
}
func (UnsupportedPD) AllocMR(int, verbs.Access) (MR, error) { return nil, verbs.ErrNotSupported }
func (UnsupportedPD) AllocMW(verbs.MWType) (MW, error)      { return nil, verbs.ErrNotSupported }
func (UnsupportedPD) CreateAH(verbs.AHAttr) (AH, error)     { return nil, verbs.ErrNotSupported }
func (UnsupportedPD) CreateSRQ(*verbs.SRQInit, func(verbs.EventType)) (SRQ, error) {
	return nil, verbs.ErrNotSupported
}

// UnsupportedMR answers every call of an [MR] that a driver may lack with ErrNotSupported.
type UnsupportedMR struct{}

func (UnsupportedMR) Prefetch(int, int, bool) error    { return verbs.ErrNotSupported }
func (UnsupportedMR) WaitPinned(context.Context) error { return verbs.ErrNotSupported }

var (
	regOptionsOf = hook.RegOptionsOf.(func([]verbs.RegOption) (RegOptions, error))

	pdOf = hook.PDOf.(func(*verbs.PD) PD)
	mrOf = hook.MROf.(func(*verbs.MR) MR)
	mwOf = hook.MWOf.(func(*verbs.MW) MW)
	ahOf = hook.AHOf.(func(*verbs.AH) AH)
)

// PDOf returns the driver's part of a protection domain.
func PDOf(pd *verbs.PD) PD { return pdOf(pd) }

// MROf returns the driver's part of a memory region.
func MROf(mr *verbs.MR) MR { return mrOf(mr) }

// MWOf returns the driver's part of a memory window.
func MWOf(mw *verbs.MW) MW { return mwOf(mw) }

// AHOf returns the driver's part of an address handle.
func AHOf(ah *verbs.AH) AH { return ahOf(ah) }
