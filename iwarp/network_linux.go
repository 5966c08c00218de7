// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/softdev"
)

// network is TCP sockets and the epoll instance that knows which of them are ready. The
// instance is waited on by the device's goroutine, in a thread that blocks in the system
// call: sockets in Go's own poller would wake a thread for each segment, polled or not.
type network struct {
	local
	epoll    int
	wakeup   int // eventfd
	owners   map[int32]any
	events   []unix.EpollEvent
	deadline deadline
	closed   atomic.Bool
}

func newNetwork(addr netip.Addr, opt *Options) (softdev.Network, error) {
	n := &network{owners: make(map[int32]any), events: make([]unix.EpollEvent, 64)}
	var err error
	if n.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if n.wakeup, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		unix.Close(n.epoll)
		return nil, err
	}
	if err = n.control(unix.EPOLL_CTL_ADD, n.wakeup, unix.EPOLLIN); err != nil {
		unix.Close(n.epoll)
		unix.Close(n.wakeup)
		return nil, err
	}
	n.local = newLocal(addr, opt)
	return n, nil
}

func (n *network) control(op, fd int, events uint32) error {
	return unix.EpollCtl(n.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// Arriving is false: the system sets links up.
func (n *network) Arriving() bool { return false }

// SetupTime is that of a connection whose first packet is lost twice: TCP sends it again after 1 s,
// and after 2 or 3 s (RFC 6298 section 2.1).
func (n *network) SetupTime() time.Duration { return 4 * time.Second }

// Ready reports what epoll says is ready now.
func (n *network) Ready(f func(owner any, read, write bool)) int {
	count, err := pollNow(n.epoll, n.events)
	if err != 0 || count <= 0 {
		return 0
	}
	found := 0
	for i := range n.events[:count] {
		e := &n.events[i]
		if int(e.Fd) == n.wakeup {
			continue // it is for Wait, which would sleep on if it were taken here
		}
		if owner := n.owners[e.Fd]; owner != nil { // it may have been closed by an earlier one
			found++
			broken := e.Events&(unix.EPOLLERR|unix.EPOLLHUP) != 0
			f(owner, e.Events&unix.EPOLLIN != 0 || broken, e.Events&unix.EPOLLOUT != 0 || broken)
		}
	}
	return found
}

// Wait blocks until something is ready.
func (n *network) Wait() error {
	if n.closed.Load() {
		return unix.EBADF
	}
	timeout := -1
	if d := n.deadline.get(); d != 0 {
		timeout = int(max(0, (d.until()+999_999)/time.Millisecond))
	}
	var one [1]unix.EpollEvent
	if _, err := unix.EpollWait(n.epoll, one[:], timeout); err != nil && !errors.Is(err, unix.EINTR) {
		return err
	}
	var b [8]byte
	unix.Read(n.wakeup, b[:]) // fails if something else has ended it
	return nil
}

// SetDeadline sets when Wait ends at the latest.
func (n *network) SetDeadline(t time.Time) {
	if n.deadline.set(t) {
		n.Wake()
	}
}

// Wake ends Wait.
func (n *network) Wake() {
	one := [8]byte{7: 1}
	unix.Write(n.wakeup, one[:]) // fails when it is awake already
}

// Close closes what is left. Nobody waits any more.
func (n *network) Close() error {
	if n.closed.Swap(true) {
		return nil
	}
	for fd := range n.owners {
		unix.Close(int(fd))
	}
	clear(n.owners)
	n.StopFollowing()
	return errors.Join(unix.Close(n.wakeup), unix.Close(n.epoll))
}
