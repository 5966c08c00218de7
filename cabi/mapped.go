// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import (
	"bytes"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapped checks that memory is mapped, readable, and writable if need be, as pinning it would.
// Registered memory may be unmapped later; see package memory.
func mapped(addr uintptr, length uint64, write bool) error {
	if !addressable(addr, length) {
		return efault
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return present(addr, length)
	}
	defer f.Close()
	for at, end := uint64(addr), uint64(addr)+length; at < end; {
		q := procmapQuery{size: uint64(unsafe.Sizeof(procmapQuery{})), addr: at}
		switch _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), procmapIoctl, uintptr(unsafe.Pointer(&q))); e {
		case 0:
		case unix.ENOENT:
			return efault
		default: // a kernel older than 6.11
			return listed(f, addr, length, write)
		}
		if q.flags&procmapReadable == 0 || write && q.flags&procmapWritable == 0 {
			return efault
		}
		at = q.to
	}
	return nil
}

// procmapQuery is struct procmap_query of <linux/fs.h>: it requests the mapping of an address. It
// is fast even in a process with many mappings.
type procmapQuery struct {
	size, query, addr     uint64
	from, to, flags       uint64
	pageSize, off, inode  uint64
	major, minor          uint32
	nameSize, buildIDSize uint32
	name, buildID         uint64
}

const (
	procmapIoctl    = 3<<30 | unsafe.Sizeof(procmapQuery{})<<16 | 'f'<<8 | 17 // _IOWR
	procmapReadable = 1
	procmapWritable = 2
)

// listed finds the mappings in the list of all mappings.
func listed(f io.Reader, addr uintptr, length uint64, write bool) error {
	text, err := io.ReadAll(f)
	if err != nil {
		return present(addr, length)
	}
	at, end := uint64(addr), uint64(addr)+length
	for line := range bytes.Lines(text) {
		from, to, mode, ok := mapping(line)
		if !ok || to <= at {
			continue
		}
		if from > at || mode[0] != 'r' || write && mode[1] != 'w' {
			return efault
		}
		if at = to; at >= end {
			return nil
		}
	}
	return efault
}

// present checks that memory is mapped if access rights cannot be found out: without /proc, or a
// free descriptor.
func present(addr uintptr, length uint64) error {
	into := addr % uintptr(os.Getpagesize())
	// Asynchronous: this starts nothing and only checks.
	if _, _, e := unix.Syscall(unix.SYS_MSYNC, addr-into, uintptr(length)+into, unix.MS_ASYNC); e == unix.ENOMEM {
		return efault
	}
	return nil
}

// mapping parses the beginning of a line of /proc/self/maps: 7f00-7f01 rw-p …
func mapping(line []byte) (from, to uint64, mode []byte, ok bool) {
	a, rest, ok1 := bytes.Cut(line, []byte("-"))
	b, rest, ok2 := bytes.Cut(rest, []byte(" "))
	if !ok1 || !ok2 || len(rest) < 4 {
		return 0, 0, nil, false
	}
	return hex(a), hex(b), rest[:4], true
}

func hex(b []byte) (v uint64) {
	for _, c := range b {
		d := c - '0'
		if c >= 'a' {
			d = c - 'a' + 10
		}
		v = v<<4 | uint64(d)
	}
	return v
}
