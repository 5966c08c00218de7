// SPDX-License-Identifier: Apache-2.0

package pollwait

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Event is an eventfd that ends polls at it.
type Event int

// NewEvent returns an event that has not been rung.
func NewEvent() (Event, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, os.NewSyscallError("eventfd", err)
	}
	return Event(fd), nil
}

// Ring makes the event readable.
func (e Event) Ring() {
	one := uint64(1)
	// It fails only when as much as fits is there.
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(e), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
}

// Drain undoes Ring, if there was one.
func (e Event) Drain() {
	var count uint64
	_, _, _ = syscall.RawSyscall(unix.SYS_READ, uintptr(e), uintptr(unsafe.Pointer(&count)), unsafe.Sizeof(count))
}

// Close frees the event. Nobody may use it any more.
func (e Event) Close() error { return unix.Close(int(e)) }
