// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64 || riscv64

package mapwatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Constants of linux/userfaultfd.h, for processors whose ioctl numbers have the usual form.
const (
	userModeOnly = 1 // flag: no page faults of the kernel are to be handled, so no privilege is needed (Linux 5.11)

	ioctlNew        = 0xaa00     // of /dev/userfaultfd (Linux 6.1)
	ioctlAPI        = 0xc018aa3f // struct uffdio_api
	ioctlRegister   = 0xc020aa00 // struct uffdio_register
	ioctlUnregister = 0x8010aa01 // struct uffdio_range

	apiVersion = 0xaa
	modeWP     = 1 << 1

	featureWP        = 1 << 0
	featureRemap     = 1 << 2
	featureRemove    = 1 << 3
	featureUnmap     = 1 << 6
	featureWPOfShmem = 1 << 12 // write protection of shared memory and huge pages too (Linux 5.19)
	featureWPAsync   = 1 << 15 // of all mappings, files too (Linux 6.7)

	requiredFeatures = featureWP | featureRemap | featureRemove | featureUnmap
	optionalFeatures = featureWPOfShmem | featureWPAsync
	msgBytes         = 32 // struct uffd_msg: the event, and at 8 its arguments

	eventRemap  = 0x14 // from, to, length
	eventRemove = 0x15 // from, to
	eventUnmap  = 0x16 // from, to
)

// Watcher tells of memory that goes away.
type Watcher struct {
	f    *os.File
	conn syscall.RawConn
	lock sync.Locker
	gone func(from, to uintptr)
}

// New makes a watcher. It calls gone for each range of addresses, which may be larger than the watched
// one, with lock held.
//
// A thread that unmaps memory goes on when its event has been read, and lock is held from before that
// until gone has returned. So a goroutine that takes lock after the memory was unmapped comes after gone. A
// goroutine that has lock must not wait for a thread that may be unmapping memory.
func New(lock sync.Locker, gone func(from, to uintptr)) (*Watcher, error) {
	fd, err := open()
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "userfaultfd")
	w := &Watcher{f: f, lock: lock, gone: gone}
	if w.conn, err = f.SyscallConn(); err == nil {
		err = f.SetReadDeadline(time.Time{}) // fails unless the runtime can wait for the descriptor
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	go w.read()
	return w, nil
}

// open returns a userfaultfd with the events.
func open() (int, error) {
	fd, err := create()
	if err != nil {
		return -1, err
	}
	has, err := handshake(fd, 0)
	unix.Close(fd) // a descriptor has one handshake
	if err != nil {
		return -1, err
	}
	if has&requiredFeatures != requiredFeatures {
		return -1, fmt.Errorf("the kernel's userfaultfd has the features %#x and lacks %#x: write protection of this processor and events of unmapped memory", has, requiredFeatures&^has)
	}
	if fd, err = create(); err != nil {
		return -1, err
	}
	if _, err = handshake(fd, requiredFeatures|has&optionalFeatures); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// create makes a userfaultfd: by the system call, or where that is not permitted by its device.
func create() (int, error) {
	const how = unix.O_CLOEXEC | unix.O_NONBLOCK
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, how|userModeOnly, 0, 0)
	if errno == unix.EINVAL { // before Linux 5.11
		fd, _, errno = unix.Syscall(unix.SYS_USERFAULTFD, how, 0, 0)
	}
	if errno == 0 {
		return int(fd), nil
	}
	dev, err := unix.Open("/dev/userfaultfd", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(dev)
		var again syscall.Errno
		if fd, _, again = unix.Syscall(unix.SYS_IOCTL, uintptr(dev), ioctlNew, how); again == 0 {
			return int(fd), nil
		}
		err = again
	}
	return -1, fmt.Errorf("the system refuses userfaultfd: %w; /dev/userfaultfd: %v (a container's seccomp filter has to permit the system call, or the device has to be there)", errno, err)
}

// handshake asks for features and returns which ones there are.
func handshake(fd int, features uint64) (uint64, error) {
	api := struct{ api, features, ioctls uint64 }{apiVersion, features, 0}
	err := control(fd, ioctlAPI, unsafe.Pointer(&api))
	return api.features, os.NewSyscallError("ioctl(UFFDIO_API)", err)
}

func control(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// span is struct uffdio_range.
type span struct{ start, length uint64 }

// pages returns the pages of a range.
func pages(from, to uintptr) span {
	from, to = Pages(from, to)
	return span{uint64(from), uint64(to - from)}
}

// Watch watches the pages of a range. It fails if the system does not tell of this memory: it is of
// another watcher, or a mapping that the kernel's userfaultfd does not support.
func (w *Watcher) Watch(from, to uintptr) error {
	arg := struct {
		span
		mode, ioctls uint64
	}{pages(from, to), modeWP, 0}
	return os.NewSyscallError("ioctl(UFFDIO_REGISTER)", w.control(ioctlRegister, unsafe.Pointer(&arg)))
}

// Unwatch ends that. A page of which something else is to be watched must not be in the range.
func (w *Watcher) Unwatch(from, to uintptr) {
	arg := pages(from, to)
	w.control(ioctlUnregister, unsafe.Pointer(&arg)) // fails if it is not there any more
}

func (w *Watcher) control(request uintptr, arg unsafe.Pointer) (err error) {
	if e := w.conn.Control(func(fd uintptr) { err = control(int(fd), request, arg) }); e != nil {
		return e
	}
	return err
}

// Close ends the watch. Events that have not been read keep no thread waiting.
func (w *Watcher) Close() error { return w.f.Close() }

// read reads events until the watcher is closed.
func (w *Watcher) read() {
	w.conn.Read(func(fd uintptr) (done bool) {
		w.lock.Lock()
		defer w.lock.Unlock()
		var b [16 * msgBytes]byte
		for {
			n, err := unix.Read(int(fd), b[:])
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case errors.Is(err, unix.EAGAIN):
				return false
			case err != nil || n < msgBytes:
				return true
			}
			for m := b[:n]; len(m) >= msgBytes; m = m[msgBytes:] {
				w.handle(m[:msgBytes])
			}
		}
	})
	w.f.Close() // without a reader, threads that unmap memory would wait for ever
}

// handle handles an event. Memory that mremap has moved is still watched at its new place, without a use;
// that costs no more than its event.
func (w *Watcher) handle(m []byte) {
	from, to := binary.NativeEndian.Uint64(m[8:]), binary.NativeEndian.Uint64(m[16:])
	switch m[0] {
	case eventRemap:
		to = from + binary.NativeEndian.Uint64(m[24:])
	case eventRemove, eventUnmap:
	default:
		return
	}
	w.gone(uintptr(from), uintptr(to))
}
