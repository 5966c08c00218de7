// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ramjet-rdma/ramjet/nvme"
)

// Deallocated parts of a file take no space any more and read as zeros; the file stays as long.
func TestPunchedFile(t *testing.T) {
	const size = 1 << 20
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	ok(t, err)
	defer f.Close()
	content := random(size)
	_, err = f.Write(content)
	ok(t, err)
	ok(t, f.Sync())
	file := nvme.NewFile(f)
	if _, can := file.(nvme.Deallocator); !can {
		t.Skip("the file system punches no holes")
	}
	space := func() int64 {
		var s syscall.Stat_t
		ok(t, syscall.Fstat(int(f.Fd()), &s))
		return s.Blocks
	}
	before := space()
	s := set(t, "shm", nvme.TargetOptions{}, nvme.Namespace{ID: 1, Disk: file, Size: size, Writable: true})
	d, err := s.dial(t, nvme.HostOptions{}).Open(within(t), 1)
	ok(t, err)
	ok(t, d.Deallocate(within(t), 512, size/2))
	clear(content[512 : 512+size/2])
	got := make([]byte, size)
	_, err = d.ReadAt(got, 0)
	ok(t, err)
	if !bytes.Equal(got, content) {
		t.Error("other bytes")
	}
	if after := space(); after >= before {
		t.Errorf("%d blocks before, %d after", before, after)
	}
	if info, err := f.Stat(); err != nil || info.Size() != size {
		t.Error(info.Size(), err)
	}
	pipe, other, err := os.Pipe()
	ok(t, err)
	defer pipe.Close()
	defer other.Close()
	if _, can := nvme.NewFile(pipe).(nvme.Deallocator); can {
		t.Error("holes in a pipe")
	}
	readOnly, err := os.Open(f.Name())
	ok(t, err)
	defer readOnly.Close()
	if _, can := nvme.NewFile(readOnly).(nvme.Deallocator); can {
		t.Error("holes in a file that is open for reading")
	}
}
