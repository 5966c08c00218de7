// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Each of the ways to find out whether memory is mapped gives the same answers.
func TestMapped(t *testing.T) {
	page := os.Getpagesize()
	// Writable, writable by another mapping, readable, neither, and a hole.
	mem, err := unix.Mmap(-1, 0, 5*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	base := uintptr(unsafe.Pointer(&mem[0]))
	for i, prot := range []uintptr{unix.PROT_READ | unix.PROT_WRITE | unix.PROT_EXEC, unix.PROT_READ, unix.PROT_NONE} {
		if _, _, e := unix.Syscall(unix.SYS_MPROTECT, base+uintptr((i+1)*page), uintptr(page), prot); e != 0 {
			t.Fatal(e)
		}
	}
	if _, _, e := unix.Syscall(unix.SYS_MUNMAP, base+uintptr(4*page), uintptr(page), 0); e != 0 {
		t.Fatal(e)
	}
	t.Cleanup(func() { unix.Syscall(unix.SYS_MUNMAP, base, uintptr(4*page), 0) })

	for _, c := range []struct {
		name                     string
		off, length              int
		readable, writable, here bool
	}{
		{"a page", 0, page, true, true, true},
		{"a byte", 2*page - 1, 1, true, true, true},
		{"two mappings", 0, 2 * page, true, true, true},
		{"one more that is read only", 0, 2*page + 1, true, false, true},
		{"read only", 2 * page, page, true, false, true},
		{"into what allows nothing", 0, 3*page + 1, false, false, true},
		{"what allows nothing", 3 * page, 1, false, false, true},
		{"up to a hole", 3 * page, page, false, false, true},
		{"into a hole", 0, 4*page + 1, false, false, false},
		{"a hole", 4 * page, 1, false, false, false},
	} {
		addr, length := base+uintptr(c.off), uint64(c.length)
		list := func(write bool) error {
			f, err := os.Open("/proc/self/maps")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			return listed(f, addr, length, write)
		}
		for _, w := range []struct {
			way  string
			err  error
			want bool
		}{
			{"mapped, to read", mapped(addr, length, false), c.readable},
			{"mapped, to write", mapped(addr, length, true), c.writable},
			{"listed, to read", list(false), c.readable},
			{"listed, to write", list(true), c.writable},
			{"present", present(addr, length), c.here},
		} {
			if (w.err == nil) != w.want {
				t.Errorf("%s: %s: %v", c.name, w.way, w.err)
			}
		}
	}
}
