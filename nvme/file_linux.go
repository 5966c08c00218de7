// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"io"
	"os"
	"syscall"
)

// punched is a file in which holes can be punched.
type punched struct{ *os.File }

const punchHole = 0x1 | 0x2 // FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE

// NewFile returns a file as a disk, for [Namespace]. It is a Deallocator where the file system can punch holes.
func NewFile(f *os.File) io.ReaderAt {
	p := punched{f}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || p.punch(info.Size(), 4096) != nil { // behind the end: nothing is there
		return f
	}
	return p
}

// Deallocate punches a hole.
func (p punched) Deallocate(off, n int64) error { return p.punch(off, n) }

func (p punched) punch(off, n int64) error {
	conn, err := p.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		for failed = syscall.EINTR; failed == syscall.EINTR; {
			failed = syscall.Fallocate(int(fd), punchHole, off, n)
		}
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("fallocate", failed)
}
