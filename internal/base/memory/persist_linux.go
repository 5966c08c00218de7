// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CanPersist reports whether there is a way to make memory persistent on this system.
const CanPersist = true

// Persist writes memory that is mapped from a file to that file, and waits until it is there. It
// touches none of it, so the memory may be unmapped meanwhile, which is an error.
func Persist(buf []byte) error {
	if len(buf) == 0 {
		return nil
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(buf)))
	into := start % uintptr(os.Getpagesize())
	if _, _, e := unix.Syscall(unix.SYS_MSYNC, start-into, uintptr(len(buf))+into, unix.MS_SYNC); e != 0 {
		return e
	}
	return nil
}

// fileBacked reports whether all of buf is mapped, shared, from files of file systems on storage.
func fileBacked(buf []byte) bool {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return false
	}
	defer f.Close()
	start := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf))))
	return allBacked(f, start, start+uint64(len(buf)), onDisk)
}

// allBacked finds the addresses from at to end in a list of mappings, and calls keeps to learn
// whether each mapped file is on storage.
func allBacked(maps io.Reader, at, end uint64, keeps func(path string) bool) bool {
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		m, ok := parseMapping(lines.Bytes())
		if !ok || m.to <= at {
			continue
		}
		if m.from > at || !m.shared || m.path == "" || !keeps(m.path) {
			return false
		}
		if at = m.to; at >= end {
			return true
		}
	}
	return false
}

// mapping is a line of /proc/self/maps:
//
//	7f0000000000-7f0000001000 rw-s 00000000 08:01 1234    /srv/data
type mapping struct {
	from, to uint64
	shared   bool
	path     string // empty: no file, or a deleted one
}

func parseMapping(line []byte) (m mapping, ok bool) {
	fields := bytes.Fields(line)
	if len(fields) < 5 || len(fields[1]) != 4 {
		return m, false
	}
	a, b, ok := bytes.Cut(fields[0], []byte("-"))
	from, err1 := strconv.ParseUint(string(a), 16, 64)
	to, err2 := strconv.ParseUint(string(b), 16, 64)
	if !ok || err1 != nil || err2 != nil {
		return m, false
	}
	m = mapping{from: from, to: to, shared: fields[1][3] == 's'}
	if i := bytes.IndexByte(line, '/'); i >= 0 && !bytes.HasSuffix(line, []byte(" (deleted)")) {
		m.path = string(line[i:])
	}
	return m, true
}

// onDisk reports whether a file outlives the system's memory.
func onDisk(path string) bool {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil {
		return false
	}
	switch uint32(fs.Type) { // some of these numbers do not fit in a 32-bit long
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.HUGETLBFS_MAGIC:
		return false
	}
	return true
}
