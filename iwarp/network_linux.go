// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// network is TCP sockets and the epoll instance that reports which of them are ready. A goroutine that
// waits blocks its thread in one system call, on the instance and on the event that wakes it.
// Sockets in Go's own poller would wake a thread for each segment, polled or not.
type network struct {
	basePort
	epoll    int
	wakeup   *pollwait.Event
	owners   map[int32]any
	events   []unix.EpollEvent
	deadline pollwait.Deadline
	waiting  atomic.Bool // a goroutine is in Wait
	woken    atomic.Bool // Wake was called, and no Wait has ended since
	closed   atomic.Bool
}

func newNetwork(addr netip.Addr, opt *Options) (streamdev.Network, error) {
	n := &network{owners: make(map[int32]any), events: make([]unix.EpollEvent, 64)}
	var err error
	if n.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if n.wakeup, err = pollwait.NewEvent(); err != nil {
		unix.Close(n.epoll)
		return nil, err
	}
	n.basePort = newLocal(addr, opt)
	return n, nil
}

func (n *network) control(op, fd int, events uint32) error {
	return unix.EpollCtl(n.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// Arriving returns false: the system sets up connections.
func (n *network) Arriving() bool { return false }

// SetupTime covers a connection whose first packet is lost twice: TCP retransmits it after 1 s, and
// again after 2 or 3 s (RFC 6298 section 2.1).
func (n *network) SetupTime() time.Duration { return 4 * time.Second }

// Ready reports the links that are ready now.
func (n *network) Ready(f func(owner any, read, write bool)) int {
	count, err := pollwait.PollNow(n.epoll, n.events)
	if err != 0 || count <= 0 {
		return 0
	}
	found := 0
	for i := range n.events[:count] {
		e := &n.events[i]
		if owner := n.owners[e.Fd]; owner != nil { // an earlier event may have closed it
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
	n.waiting.Store(true) // before it looks at the others' flags, which they set before they look at this one
	defer n.waiting.Store(false)
	if n.woken.Swap(false) {
		return nil
	}
	fds := [...]unix.PollFd{{Fd: int32(n.epoll), Events: unix.POLLIN}, {Fd: n.wakeup.FD(), Events: unix.POLLIN}}
	if _, err := pollwait.Poll(fds[:], n.deadline.Left()); err != nil {
		return err
	}
	if fds[1].Revents != 0 {
		n.wakeup.Drain()
	}
	n.woken.Store(false)
	return nil
}

// Pollable reports that threads can sleep by themselves.
func (n *network) Pollable() bool { return true }

// BeginWait is Wait up to where it sleeps.
func (n *network) BeginWait(_ bool, at *driver.PollSet) bool {
	if n.closed.Load() {
		return false
	}
	n.waiting.Store(true) // as in Wait
	if n.woken.Swap(false) {
		n.waiting.Store(false)
		return false
	}
	*at = driver.PollSet{Event: int(n.wakeup.FD()), Read: append(at.Read[:0], n.epoll), Write: -1,
		Limit: n.deadline.Left()}
	return true
}

// EndWait ends the wait that BeginWait began.
func (n *network) EndWait(readable bool) {
	if readable {
		n.wakeup.Drain()
	}
	n.woken.Store(false)
	n.waiting.Store(false)
}

func (n *network) CanPark() bool { return true }

// Park waits until something is ready, or for the given time.
func (n *network) Park(d time.Duration) {
	fds := [...]unix.PollFd{{Fd: int32(n.epoll), Events: unix.POLLIN}}
	_, _ = pollwait.Poll(fds[:], d) // whatever ends it
}

// SetDeadline sets when Wait returns at the latest.
func (n *network) SetDeadline(t time.Time) {
	if n.deadline.Set(t) && n.waiting.Load() {
		n.Wake()
	}
}

// Wake ends the Wait that there is, or the next one.
func (n *network) Wake() {
	if !n.woken.Swap(true) && n.waiting.Load() {
		n.wakeup.Ring()
	}
}

// Close closes the descriptors that are left. No goroutine is in Wait any more.
func (n *network) Close() error {
	if n.closed.Swap(true) {
		return nil
	}
	for fd := range n.owners {
		unix.Close(int(fd))
	}
	clear(n.owners)
	n.StopFollowing()
	return errors.Join(n.wakeup.Close(), unix.Close(n.epoll))
}
