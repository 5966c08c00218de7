// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
)

// descriptors owns a socket's file descriptors. Send and Recv use them without a lock, and without
// counting references: two atomic additions around an empty Recv made it a fifth slower. So a
// descriptor's number must not be reused while some call may still hold it.
//
// Closing therefore replaces each socket by a dead file. That frees the socket, and its port, at
// once, and makes a pending call fail. The number itself is freed by [Socket.Free], or when the garbage
// collector finds the Socket unreachable, so that no call can be using it.
type descriptors struct {
	mu    sync.Mutex
	open  []int           // sockets
	event *pollwait.Event // the waiter's
}

// deadFile is a file on which every socket call fails with ENOTSOCK.
var deadFile = sync.OnceValues(func() (int, error) { return unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK) })

func (d *descriptors) add(fd int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = append(d.open, fd)
}

// close frees a descriptor that no call can be using.
func (d *descriptors) close(fd int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.open, fd); i >= 0 {
		d.open = slices.Delete(d.open, i, i+1)
		unix.Close(fd)
	}
}

// bury closes all sockets and keeps their numbers.
func (d *descriptors) bury() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	replacement, err := deadFile()
	if err != nil {
		return err
	}
	for _, fd := range d.open {
		// It fails only for numbers that are not ours.
		_ = unix.Dup3(replacement, fd, unix.O_CLOEXEC)
	}
	return nil
}

// free releases all numbers, and the sockets if bury was not called. No call can be using them.
func (d *descriptors) free() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, fd := range d.open {
		unix.Close(fd)
	}
	d.open = nil
	d.event.Close()
}
