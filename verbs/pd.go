// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs/internal/hook"
)

// PD is a protection domain (IBTA 10.2.3): regions, windows and queue pairs can be used together
// only within one.
type PD struct {
	object
	dev *Device
	drv pdDriver
}

// Device returns the device of the domain.
func (pd *PD) Device() *Device { return pd.dev }

// RegMR registers buf, which may be any memory of the program, with any length, including 0, and
// any alignment. The region keeps buf alive until it is closed. Options say whether and when the
// memory is pinned; without one the device does as it does by itself. [External] is for memory that
// is not Go's.
func (pd *PD) RegMR(buf []byte, access Access, opts ...RegOption) (*MR, error) {
	if pd.dev.calls != nil {
		args := []callArg{{"addr", address(buf)}, {"length", len(buf)}, {"access", access}}
		return pd.logRegistration("ibv_reg_mr", args, func() (*MR, error) { return pd.regMR(buf, access, opts) })
	}
	return pd.regMR(buf, access, opts)
}

func (pd *PD) regMR(buf []byte, access Access, opts []RegOption) (*MR, error) {
	opt, err := checkOptions(buf, access, opts)
	if err != nil {
		return nil, err
	}
	if opt.driver.Mode == hook.RegOnDemand {
		if pd.dev.Query().Caps&CapOnDemand == 0 && access&OnDemand == 0 {
			return nil, opErr("reg_mr", ErrNotSupported, "the device has no on-demand paging")
		}
		access |= OnDemand
		opt.driver.Mode = hook.RegDefault
	}
	if opt.external {
		return pd.newMR("reg_mr_iova", access, func() (mrDriver, error) {
			return pd.drv.RegExternal(buf, opt.iova, access)
		})
	}
	return pd.newMR("reg_mr", access, func() (mrDriver, error) {
		if opt.driver == (driverRegOptions{}) {
			return pd.drv.RegMR(buf, access)
		}
		return pd.drv.RegMROptions(buf, access, opt.driver)
	})
}

// RegShared registers memory that processes share: size bytes from offset on, a multiple of the page
// size, of the file that the descriptor fd has open, such as a memfd or a file in /dev/shm. The region maps
// it, for writing if access has LocalWrite. [MR.Bytes] is the mapping, which is freed with the region:
// touching it after [MR.Close] crashes the program. The descriptor stays the caller's, and can be closed.
//
// Any number of processes can register the same memory. A table that a server fills can so be served by
// other processes, and be read by clients with one-sided READs. If a file becomes shorter, accesses to
// the missing part are access errors for peers, and crash a program that touches it. ErrNotSupported means
// that the device, or the system, cannot do so.
func (pd *PD) RegShared(fd uintptr, offset int64, size int, access Access) (*MR, error) {
	if pd.dev.calls != nil {
		args := []callArg{{"fd", int(fd)}, {"offset", offset}, {"length", size}, {"access", access}}
		return pd.logRegistration("ibv_reg_shared_mr", args,
			func() (*MR, error) { return pd.regShared(fd, offset, size, access) })
	}
	return pd.regShared(fd, offset, size, access)
}

func (pd *PD) regShared(fd uintptr, offset int64, size int, access Access) (*MR, error) {
	if size <= 0 || offset < 0 {
		return nil, opErr("reg_shared_mr", ErrInvalid, fmt.Sprintf("%d bytes from %d on", size, offset))
	}
	return pd.newMR("reg_shared_mr", access, func() (mrDriver, error) {
		return pd.drv.RegShared(fd, offset, size, access)
	})
}

// AllocMR registers size bytes of memory that the device allocates: page-aligned, outside the Go
// heap, in huge pages if access has HugePages. [MR.Bytes] is the memory. It is freed with the
// region, and touching it after [MR.Close] crashes the program.
func (pd *PD) AllocMR(size int, access Access) (*MR, error) {
	if pd.dev.calls != nil {
		args := []callArg{{"length", size}, {"access", access}}
		return pd.logRegistration("ibv_alloc_mr", args, func() (*MR, error) { return pd.allocMR(size, access) })
	}
	return pd.allocMR(size, access)
}

func (pd *PD) allocMR(size int, access Access) (*MR, error) {
	if size <= 0 {
		return nil, opErr("alloc_mr", ErrInvalid, fmt.Sprintf("size is %d bytes", size))
	}
	return pd.newMR("alloc_mr", access, func() (mrDriver, error) { return pd.drv.AllocMR(size, access) })
}

func (pd *PD) newMR(op string, access Access, make func() (mrDriver, error)) (*MR, error) {
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
	return pd.dev.logClose("ibv_dealloc_pd", "pd", pd, func() error {
		return pd.close("dealloc_pd", func() error { return wrap("dealloc_pd", pd.drv.Dealloc()) })
	})
}
