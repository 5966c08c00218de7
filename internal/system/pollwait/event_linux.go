// SPDX-License-Identifier: Apache-2.0

package pollwait

import (
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Event is an eventfd that ends polls at it. Any goroutine may ring it at any time, also after Close: the
// number of its descriptor may belong to another file by then.
type Event struct {
	mu sync.Mutex
	fd int // -1: closed
}

// NewEvent returns an event that is not readable.
func NewEvent() (*Event, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &Event{fd: fd}, nil
}

// FD returns the descriptor to poll. The caller must see to it that Close is not called during a poll.
func (e *Event) FD() int32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int32(e.fd)
}

// Ring makes the event readable.
func (e *Event) Ring() {
	one := uint64(1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fd >= 0 {
		// It fails only when as much as fits is there.
		_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(e.fd), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
	}
}

// Drain undoes Ring, if there was one.
func (e *Event) Drain() {
	var count uint64
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fd >= 0 {
		_, _, _ = syscall.RawSyscall(unix.SYS_READ, uintptr(e.fd), uintptr(unsafe.Pointer(&count)),
			unsafe.Sizeof(count))
	}
}

// Close frees the event. Closing twice is harmless.
func (e *Event) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fd < 0 {
		return nil
	}
	fd := e.fd
	e.fd = -1
	return unix.Close(fd)
}
