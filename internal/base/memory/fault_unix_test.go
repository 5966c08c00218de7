// SPDX-License-Identifier: Apache-2.0

//go:build unix

package memory

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Memory that is unmapped while it is registered is an error of each operation on it.
func TestUnmapped(t *testing.T) {
	const size = 4 * pageSize
	buf, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skip(err)
	}
	table := NewTable(func() uint32 { return 0x12345678 })
	all := verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead | verbs.RemoteAtomic
	const iova = 0x10000
	r, err := table.RegisterExternal(1, buf, iova, all)
	if err != nil {
		t.Fatal(err)
	}
	whole, ok := table.Remote(1, 5, r.Key(), iova, size, verbs.RemoteWrite)
	word, ok2 := table.Remote(1, 5, r.Key(), iova+8, 8, verbs.RemoteAtomic)
	if !ok || !ok2 {
		t.Fatal("no span of the region")
	}
	var gather Cursor
	if !gather.Set(table, 1, []verbs.SGE{{Addr: iova + 100, Length: 9000, LKey: r.Key()}}, true) {
		t.Fatal("no list of the region")
	}

	touch := map[string]func() bool{
		"write": func() bool { return whole.Write(table, 5000, make([]byte, 100)) },
		"append": func() bool {
			_, ok := whole.Append(nil, 1, 100)
			return ok
		},
		"part": func() bool {
			_, ok := whole.Part(2*pageSize-10, 20)
			return ok
		},
		"gather": func() bool {
			gather.Seek(0)
			_, ok := gather.Append(nil, 50)
			return ok
		},
		"next": func() bool {
			gather.Seek(0)
			_, ok := gather.Next(4096)
			return ok
		},
		"read": func() bool {
			gather.Seek(0)
			return gather.Read(make([]byte, 5000))
		},
		"read with a CRC": func() bool {
			gather.Seek(0)
			_, ok := gather.ReadCRC(make([]byte, 5000), 0)
			return ok
		},
		"scatter": func() bool {
			gather.Seek(0)
			return gather.Write(table, make([]byte, 8000))
		},
		"compare and swap": func() bool {
			_, ok := word.CompareSwap(0, 1)
			return ok
		},
		"fetch and add": func() bool {
			_, ok := word.FetchAdd(1)
			return ok
		},
		"atomic write": func() bool { return word.Store(make([]byte, 8)) },
	}
	for name, f := range touch {
		if !f() {
			t.Errorf("%s failed while the memory was there", name)
		}
	}
	// As good as unmapped, and nothing else can be mapped there meanwhile.
	if err := unix.Mprotect(buf, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(buf) })
	for name, f := range touch {
		if f() {
			t.Errorf("%s succeeded without memory", name)
		}
	}
}
