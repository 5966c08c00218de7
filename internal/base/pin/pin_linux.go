// SPDX-License-Identifier: Apache-2.0

package pin

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// lockOnFault marks pages as locked: present pages at once, the others when they come. On a
// system without mlock2 it does nothing, see canWait.
func lockOnFault(from, to uintptr) error {
	_, _, e := unix.Syscall(unix.SYS_MLOCK2, from, to-from, unix.MLOCK_ONFAULT)
	if e == 0 || e == unix.ENOSYS {
		return nil
	}
	return e
}

// canWait reports whether pages can be pinned when they are used: since Linux 4.4.
var canWait = sync.OnceValue(func() error {
	if _, _, e := unix.Syscall(unix.SYS_MLOCK2, 0, 0, unix.MLOCK_ONFAULT); e == unix.ENOSYS {
		return &verbs.OpError{Op: "reg_mr", Err: verbs.ErrNotSupported,
			Detail: "pinning pages when they are used needs mlock2"}
	}
	return nil
})

// lock brings pages in and locks them.
func lock(from, to uintptr) error {
	if _, _, e := unix.Syscall(unix.SYS_MLOCK, from, to-from, 0); e != 0 {
		return e
	}
	return nil
}

// unlock unlocks pages. It fails if the memory is unmapped, which unlocks them, too.
func unlock(from, to uintptr) { unix.Syscall(unix.SYS_MUNLOCK, from, to-from, 0) }

// refused explains why pages cannot be locked. held is how many bytes this package has locked.
func refused(err error, from, to, held uintptr) error {
	n := uint64(to - from)
	switch err {
	case unix.EPERM:
		return limited(n, 0, 0)
	case unix.EAGAIN:
		return &verbs.OpError{Op: "reg_mr", Err: verbs.ErrNoMemory,
			Detail: fmt.Sprintf("pinning %d bytes: there is not so much memory free", n)}
	case unix.ENOMEM:
		// Three reasons have this number: a hole, the limit, and too many mappings. MS_ASYNC does nothing
		// but look for holes.
		if _, _, e := unix.Syscall(unix.SYS_MSYNC, from, to-from, unix.MS_ASYNC); e == unix.ENOMEM {
			return &verbs.OpError{Op: "reg_mr", Err: verbs.ErrFault,
				Detail: fmt.Sprintf("pinning %d bytes: not all of them are mapped", n)}
		}
		var r unix.Rlimit
		all := max(uint64(held), inUse())
		if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r) == nil && all+n > r.Cur && all+n > all {
			return limited(n, all, r.Cur)
		}
	}
	return &verbs.OpError{Op: "reg_mr", Err: verbs.ErrNoMemory, Detail: fmt.Sprintf("pinning %d bytes: %v", n, err)}
}

// inUse returns how many bytes count against the limit of this process, or 0.
func inUse() uint64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("\nVmLck:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseUint(string(fields[0]), 10, 64)
	return kib << 10
}

// Prefetch brings in the pages of b, for writing if write says so. On Linux before 5.14 it does
// nothing: pages come when they are used.
func Prefetch(b []byte, write bool) error {
	from, to := pages(b)
	if from == to {
		return nil
	}
	advice := unix.MADV_POPULATE_READ
	if write {
		advice = unix.MADV_POPULATE_WRITE
	}
	switch _, _, e := unix.Syscall(unix.SYS_MADVISE, from, to-from, uintptr(advice)); e {
	case 0:
		return nil
	case unix.EINVAL:
		if !canPopulate() {
			return nil
		}
		return &verbs.OpError{Op: "advise_mr", Err: verbs.ErrFault, Detail: "the memory cannot be accessed so"}
	case unix.ENOMEM, unix.EFAULT:
		return &verbs.OpError{Op: "advise_mr", Err: verbs.ErrFault, Detail: "not all of the memory is mapped"}
	default:
		return &verbs.OpError{Op: "advise_mr", Err: verbs.ErrNoMemory, Detail: e.Error()}
	}
}

// canPopulate reports whether the system knows the advice.
var canPopulate = sync.OnceValue(func() bool {
	_, _, e := unix.Syscall(unix.SYS_MADVISE, 0, 0, uintptr(unix.MADV_POPULATE_READ))
	return e == 0
})
