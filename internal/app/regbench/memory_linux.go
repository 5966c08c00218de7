// SPDX-License-Identifier: Apache-2.0

package regbench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// fresh maps memory that was not touched.
func fresh(n int) ([]byte, func(), error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: mapping %d bytes: %v", verbs.ErrNoMemory, n, err)
	}
	return b, func() { unix.Munmap(b) }, nil
}

// present returns how many bytes of mapped memory are in memory.
func present(b []byte) (n int) {
	page := os.Getpagesize()
	state := make([]byte, (len(b)+page-1)/page)
	if _, _, e := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		uintptr(unsafe.Pointer(&state[0]))); e != 0 {
		return 0
	}
	for _, s := range state {
		n += int(s&1) * page
	}
	return min(n, len(b))
}

// locked returns how much memory of the process is locked.
func locked() int {
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := bytes.Cut(status, []byte("\nVmLck:"))
	if fields := bytes.Fields(rest); len(fields) > 0 {
		kib, _ := strconv.Atoi(string(fields[0]))
		return kib << 10
	}
	return 0
}
