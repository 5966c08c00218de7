// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// mapFile maps a file of two pages.
func mapFile(t *testing.T, path string, flags int) []byte {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(2 * pageSize); err != nil {
		t.Fatal(err)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, 2*pageSize, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	return b
}

// Only memory of a file on a disk can be persistent.
func TestPersistable(t *testing.T) {
	dir := t.TempDir()
	anonymous, err := unix.Mmap(-1, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(anonymous)
	deleted := mapFile(t, filepath.Join(dir, "deleted"), unix.MAP_SHARED)
	os.Remove(filepath.Join(dir, "deleted"))
	for name, b := range map[string][]byte{
		"heap":      make([]byte, 100),
		"anonymous": anonymous,
		"private":   mapFile(t, filepath.Join(dir, "private"), unix.MAP_PRIVATE),
		"deleted":   deleted,
	} {
		if err := Persistable(b); !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Persistable(nil); err != nil {
		t.Errorf("no bytes: %v", err)
	}
	if !onDisk(dir) {
		t.Skipf("%s is in memory", dir)
	}
	b := mapFile(t, filepath.Join(dir, "file"), unix.MAP_SHARED)
	for _, part := range [][]byte{b, b[100:200], b[pageSize-1:]} {
		copy(part, "data")
		if err := Persistable(part); err != nil {
			t.Error(err)
		}
		if err := Persist(part); err != nil {
			t.Error(err)
		}
	}
}

// Memory that was unmapped is an error.
func TestPersistUnmapped(t *testing.T) {
	b, err := unix.Mmap(-1, 0, pageSize, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mprotect(b, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	if err := Persist(b); err != nil {
		t.Errorf("memory that may not be read: %v", err)
	}
	if err := unix.Munmap(b); err != nil {
		t.Fatal(err)
	}
	if err := Persist(b); err == nil {
		t.Error("no error")
	}
}

func TestAllBacked(t *testing.T) {
	const maps = `1000-2000 rw-s 00000000 08:01 12                         /a b
2000-3000 rw-s 00000000 08:01 12                         /a b
4000-5000 rw-s 00000000 08:01 13                         /gone (deleted)
5000-6000 rw-p 00000000 08:01 14                         /private
6000-7000 rw-s 00000000 00:00 0
7000-8000 rw-s 00000000 08:01 15                         /memory
8000-9000 rw-s 00000000 08:01 16                         /c
nonsense
9000-a000 rw-p 00000000 00:00 0                          [heap]
`
	for _, c := range []struct {
		at, end uint64
		want    bool
	}{
		{0x1000, 0x3000, true}, {0x1fff, 0x2001, true}, {0x2fff, 0x3000, true}, {0x8000, 0x8001, true},
		{0x0fff, 0x1001, false}, {0x2fff, 0x3001, false}, {0x3000, 0x4000, false}, {0x4000, 0x4001, false},
		{0x5000, 0x5001, false}, {0x6000, 0x6001, false}, {0x7000, 0x7001, false}, {0x8000, 0x9001, false},
		{0x9000, 0x9001, false}, {0xa000, 0xa001, false},
	} {
		if got := allBacked(strings.NewReader(maps), c.at, c.end,
			func(path string) bool { return path == "/a b" || path == "/c" }); got != c.want {
			t.Errorf("%#x to %#x: %v", c.at, c.end, got)
		}
	}
}
