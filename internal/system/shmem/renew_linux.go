// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Commands of membarrier(2).
const (
	barrierOfAll = 1 << 1 // MEMBARRIER_CMD_GLOBAL_EXPEDITED
	joinBarriers = 1 << 2 // MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED
)

// JoinBarriers has the [Barrier] of other processes reach this one, where the system has that.
func JoinBarriers() { unix.Syscall(unix.SYS_MEMBARRIER, joinBarriers, 0, 0) }

// Barrier has the processors finish the stores that threads of processes that called [JoinBarriers] have made: these
// threads make later stores after they could see this thread's earlier ones. Without the system call
// (Linux before 4.16, some sandboxes) it waits, as stores do not stay in a processor for long.
func Barrier() {
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, barrierOfAll, 0, 0); errno != 0 {
		time.Sleep(storesTime)
	}
}

// storesTime is far more than a processor takes to finish its stores.
const storesTime = 100 * time.Microsecond

// Renew replaces the pages of length bytes from off on by new pages with the same contents, at the same addresses.
// Peers keep the old pages, which this process does not use any more: their stores there are not seen. Threads of this
// process may use the memory meanwhile, and their stores stay. Pages that were replaced before stay, too.
func (s *Segment) Renew(off, length int) error {
	page := os.Getpagesize()
	if s.renewed == nil {
		s.renewed = make(map[int]struct{})
	}
	for first, end := off/page, (off+length+page-1)/page; first < end; first++ {
		last := first
		for ; last < end; last++ {
			if _, done := s.renewed[last]; done {
				break
			}
		}
		if last == first {
			continue
		}
		if err := s.renew(first*page, (last-first)*page); err != nil {
			return err
		}
		for ; first < last; first++ {
			s.renewed[first] = struct{}{}
		}
	}
	return nil
}

// Renewed reports whether peers have other pages than this process.
func (s *Segment) Renewed() bool { return len(s.renewed) > 0 }

func (s *Segment) renew(off, length int) error {
	size := uintptr(length)
	live := s.mem[off:][:length]
	was, err := unix.MmapPtr(s.fd, int64(off), nil, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	defer unix.MunmapPtr(was, size)
	fresh, err := unix.MmapPtr(-1, 0, nil, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	before := append([]byte(nil), live...)
	copy(unsafe.Slice((*byte)(fresh), length), before)
	if _, err := unix.MremapPtr(fresh, size, unsafe.Pointer(unsafe.SliceData(live)), size,
		unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED); err != nil {
		unix.MunmapPtr(fresh, size)
		return os.NewSyscallError("mremap", err)
	}
	Barrier()
	const word = 8
	for i := 0; i < length; i += word { // words that were stored between the copy and the change
		from, to := (*uint64)(unsafe.Pointer(&before[i])), (*uint64)(unsafe.Add(was, i))
		if old, now := *from, atomic.LoadUint64(to); now != old {
			atomic.CompareAndSwapUint64((*uint64)(unsafe.Pointer(&live[i])), old, now)
		}
	}
	return nil
}
