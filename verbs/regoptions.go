// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs/internal/hook"
)

// driverRegOptions is RegOptions of package verbs/driver.
type driverRegOptions = struct {
	Mode  hook.RegMode
	Chunk int
	Weak  bool
}

// regOptions are the options of a registration, put together.
type regOptions struct {
	driver   driverRegOptions
	external bool   // the memory is not Go's
	iova     uint64 // external: the address of the first byte in SGEs and at peers
}

// RegOption is an option of [PD.RegMR]. At most one of [Pinned], [Pipelined], [Deferred] and
// [OnDemandPaging] can be given; docs/memory.md compares them. A device without the ability that an
// option needs answers [ErrNotSupported]. Memory beyond the process's limit of pinned memory is [ErrPinLimit].
type RegOption func(*regOptions) error

func (o *regOptions) mode(m hook.RegMode) error {
	if o.driver.Mode != hook.RegDefault && o.driver.Mode != m {
		return fmt.Errorf("%w: %v and %v exclude each other", ErrInvalid, o.driver.Mode, m)
	}
	o.driver.Mode = m
	return nil
}

// Pinned pins all of the memory before RegMR returns. That takes time for each page, and longer
// if the page has to be made first.
func Pinned() RegOption { return func(o *regOptions) error { return o.mode(hook.RegPinned) } }

// DefaultChunk is how many bytes [Pipelined] pins at a time by default.
const DefaultChunk = 4 << 20

// Pipelined pins the first chunk bytes before RegMR returns, and the rest, from front to back, while
// the region is already in use. An access that is faster than the pinning waits for no more than the
// page it needs. [MR.WaitPinned] waits for the end. A chunk of 0 is [DefaultChunk].
func Pipelined(chunk int) RegOption {
	return func(o *regOptions) error {
		if chunk < 0 {
			return fmt.Errorf("%w: a chunk of %d bytes", ErrInvalid, chunk)
		}
		if o.driver.Chunk = chunk; chunk == 0 {
			o.driver.Chunk = DefaultChunk
		}
		return o.mode(hook.RegPipelined)
	}
}

// Deferred pins each page when it is used for the first time, by the device or by the program. The
// whole region counts as pinned at once, so that the limit is found when the region is registered.
func Deferred() RegOption { return func(o *regOptions) error { return o.mode(hook.RegDeferred) } }

// OnDemandPaging pins nothing, ever. It is the access flag [OnDemand] as an option.
func OnDemandPaging() RegOption { return func(o *regOptions) error { return o.mode(hook.RegOnDemand) } }

// Weak makes a region that does not keep its memory alive, which Go must have allocated. Once the
// memory is collected, each access to the region is an access error, at peers too. So the program
// keeps the memory of a work request until its completion. A queue pair may keep the memory of its
// last requests alive for longer, until others take their place or it is closed.
//
// A weak region is not pinned, because Go would use the pinned pages for something else, and has no
// memory windows.
func Weak() RegOption {
	return func(o *regOptions) error {
		o.driver.Weak = true
		return nil
	}
}

// External is for memory that Go does not keep alive, such as that of a C program or of a mapped file.
// It may be unmapped while it is registered, which makes every later access an access error. Its first
// byte has the address iova in SGEs and at peers (ibv_reg_mr_iova).
//
// With the access flag [OnDemand] the memory may be a whole mapping: an implicit region. Registering it
// takes the same time for any length, so that a program can register a file, or a reserved range of
// addresses that is larger than the memory of the machine, and never register again. Pages may be
// mapped, unmapped and truncated meanwhile. An access to one that is not there is an access error.
func External(iova uint64) RegOption {
	return func(o *regOptions) error {
		o.external, o.iova = true, iova
		return nil
	}
}

// combine puts options together.
func combine(opts []RegOption) (o regOptions, err error) {
	for _, f := range opts {
		if err := f(&o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// checkOptions puts options together and checks them, also against access.
func checkOptions(buf []byte, access Access, opts []RegOption) (regOptions, error) {
	const op = "reg_mr"
	o, err := combine(opts)
	if err != nil {
		return o, opErr(op, err, "")
	}
	if access&OnDemand != 0 {
		if err := o.mode(hook.RegOnDemand); err != nil {
			return o, opErr(op, err, "the access flag OnDemand pins nothing")
		}
	}
	if o.external && (o.driver.Weak || o.driver.Mode != hook.RegDefault && o.driver.Mode != hook.RegOnDemand) {
		return o, opErr(op, ErrInvalid, "memory that is not Go's can be neither weak nor pinned by an option")
	}
	if !o.driver.Weak {
		return o, nil
	}
	switch {
	case o.driver.Mode != hook.RegDefault && o.driver.Mode != hook.RegOnDemand:
		return o, opErr(op, ErrInvalid, "a weak region cannot be pinned")
	case access&MWBind != 0:
		return o, opErr(op, ErrInvalid, "a weak region has no memory windows: leave out MWBind")
	case !allocatedByGo(buf):
		return o, opErr(op, ErrInvalid, "a weak region needs memory that Go has allocated")
	}
	return o, nil
}

// allocatedByGo reports whether Go can tell when buf is no longer in use. AddCleanup panics if not.
func allocatedByGo(buf []byte) (ok bool) {
	if len(buf) == 0 {
		return true
	}
	defer func() { ok = recover() == nil }()
	runtime.AddCleanup(unsafe.SliceData(buf), func(struct{}) {}, struct{}{}).Stop()
	return true
}

// Prefetch brings n bytes from off on into memory before they are used (ibv_advise_mr). write says
// that they will be written to. It returns when they are there.
func (mr *MR) Prefetch(off, n int, write bool) error {
	const op = "advise_mr"
	if size := mr.Len(); off < 0 || n < 0 || off > size || n > size-off {
		return opErr(op, ErrInvalid, fmt.Sprintf("%d bytes from %d on are outside the region, which has %d", n, off,
			size))
	}
	return wrap(op, mr.drv.Prefetch(off, n, write))
}

// WaitPinned waits until all memory of a region with [Pipelined] is pinned. Its error says why some
// of it is not; the region works all the same. For a region with [Pinned] it returns nil at once, and
// ErrInvalid for all others.
func (mr *MR) WaitPinned(ctx context.Context) error {
	return wrap("reg_mr", mr.drv.WaitPinned(ctx))
}
