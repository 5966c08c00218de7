// SPDX-License-Identifier: Apache-2.0

package verbs

import "fmt"

// PD is a protection domain (IBTA 10.2.3): regions, windows and queue pairs can be used together
// only within one.
type PD struct {
	object
	dev *Device
	drv PDDriver
}

// Device returns the device of the domain.
func (pd *PD) Device() *Device { return pd.dev }

// RegMR registers buf, which may be any memory of the program, with any length, including 0, and
// any alignment. The region keeps buf alive until it is closed. Options say whether and when the
// memory is pinned; without one the device does as it does by itself.
func (pd *PD) RegMR(buf []byte, access Access, opts ...RegOption) (*MR, error) {
	opt, err := regOptions(buf, access, opts)
	if err != nil {
		return nil, err
	}
	if opt.Mode == RegOnDemand {
		if pd.dev.Query().Caps&CapOnDemand == 0 && access&OnDemand == 0 {
			return nil, opErr("reg_mr", ErrNotSupported, "the device has no on-demand paging")
		}
		access |= OnDemand
		opt.Mode = RegDefault
	}
	return pd.newMR("reg_mr", access, func() (MRDriver, error) {
		if opt == (RegOptions{}) {
			return pd.drv.RegMR(buf, access)
		}
		if r, ok := pd.drv.(OptionRegistrar); ok {
			return r.RegMROptions(buf, access, opt)
		}
		return nil, ErrNotSupported
	})
}

// RegExternal registers memory that Go does not keep alive, such as that of a C program or of a
// mapped file. It may be unmapped while it is registered, which makes every later access an access
// error. Its first byte has the address iova in SGEs and at peers (ibv_reg_mr_iova).
// ErrNotSupported means that the device cannot do so.
func (pd *PD) RegExternal(buf []byte, iova uint64, access Access) (*MR, error) {
	return pd.newMR("reg_mr_iova", access, func() (MRDriver, error) {
		if r, ok := pd.drv.(ExternalRegistrar); ok {
			return r.RegExternal(buf, iova, access)
		}
		return nil, ErrNotSupported
	})
}

// RegShared registers memory that processes share: size bytes from offset on, a multiple of the page
// size, of what the descriptor fd is open for, such as a memfd or a file in /dev/shm. The region maps
// it, for writing if access has LocalWrite. [MR.Bytes] is the mapping, which is freed with the region:
// touching it after [MR.Close] crashes the program. The descriptor stays the caller's, and can be closed.
//
// Any number of processes can register the same memory. A table that a server fills can so be served by
// other processes, and be read by clients with one-sided READs. If a file becomes shorter, accesses to
// what is missing are access errors for peers, and crash a program that touches it. ErrNotSupported means
// that the device, or the system, cannot do so.
func (pd *PD) RegShared(fd uintptr, offset int64, size int, access Access) (*MR, error) {
	if size <= 0 || offset < 0 {
		return nil, opErr("reg_shared_mr", ErrInvalid, fmt.Sprintf("%d bytes from %d on", size, offset))
	}
	return pd.newMR("reg_shared_mr", access, func() (MRDriver, error) {
		if r, ok := pd.drv.(SharedRegistrar); ok {
			return r.RegShared(fd, offset, size, access)
		}
		return nil, ErrNotSupported
	})
}

// AllocMR registers size bytes of memory that the device allocates: page-aligned, outside the Go
// heap, in huge pages if access has HugePages. [MR.Bytes] is the memory. It is freed with the
// region, and touching it after [MR.Close] crashes the program.
func (pd *PD) AllocMR(size int, access Access) (*MR, error) {
	if size <= 0 {
		return nil, opErr("alloc_mr", ErrInvalid, fmt.Sprintf("size is %d bytes", size))
	}
	return pd.newMR("alloc_mr", access, func() (MRDriver, error) { return pd.drv.AllocMR(size, access) })
}

func (pd *PD) newMR(op string, access Access, make func() (MRDriver, error)) (*MR, error) {
	if err := checkAccess(op, access); err != nil {
		return nil, err
	}
	mr := &MR{pd: pd}
	if err := mr.use(op, &pd.object); err != nil {
		return nil, err
	}
	var err error
	if mr.drv, err = make(); err != nil {
		mr.unuse()
		return nil, wrap(op, err)
	}
	return mr, nil
}

// checkAccess refuses flags that do not exist, and remote write access without local write access
// (IBTA 10.6.3).
func checkAccess(op string, a Access) error {
	if unknown := a &^ (FlushPersistent<<1 - 1); unknown != 0 {
		return opErr(op, ErrInvalid, fmt.Sprintf("there are no access flags %#x", uint32(unknown)))
	}
	if a&(RemoteWrite|RemoteAtomic) != 0 && a&LocalWrite == 0 {
		return opErr(op, ErrInvalid, "RemoteWrite and RemoteAtomic need LocalWrite")
	}
	return nil
}

// Close deallocates the domain; ErrBusy while anything made from it is open.
func (pd *PD) Close() error {
	return pd.close("dealloc_pd", func() error { return wrap("dealloc_pd", pd.drv.Dealloc()) })
}
