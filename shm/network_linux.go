// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/core/memorydev"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
)

const (
	// maxHot is how many links are looked at in each pass. Peers of the others ring the doorbell.
	maxHot = 8
	// askEvery is how many passes share a look at the sockets: for peers that come and that die.
	askEvery = 1024
	// maxSleep bounds a sleep, and is how often cold links are looked at whatever the doorbell says. A peer that
	// breaks the rules can write to the doorbell, and so keep the device from hearing of others.
	maxSleep = time.Second
	// coldAtOnce is how many cold links one pass looks at for that.
	coldAtOnce = 256
)

// network is the device's end of everything: listeners, links, and the doorbell that peers ring.
//
// A link is hot or cold. A hot one is looked at in each pass. The peer of a cold one rings the doorbell,
// whose bits say which links to look at, and wakes the device if it sleeps. All links are cold while
// it does. Once a second the device looks at cold links, too: another peer may have cleared the bits.
type network struct {
	port
	place       shmem.Place
	copies      bool // between processes, where the system allows them
	epoll       int
	sockets     *os.File      // epoll, for Go's poller
	heard       chan struct{} // closed when listen has ended
	doorbellSeg *shmem.Segment
	doorbell    *local.Doorbell
	owners      map[int32]pollable // by descriptor
	events      []unix.EpollEvent
	listeners   map[*acceptor]struct{}
	watches     map[*groupWatch]struct{}
	links       []*link // by slot; nil: the slot is free
	free        []int   // slots
	hot         []*link
	retries     connectRetries
	leaving     []*closedPeer
	again       []*link // to be reported by the next Ready, and the rest by the one after
	pending     []*link
	passes      uint
	coldAt      int // slot at which the look at cold links goes on
	deadline    pollwait.Deadline
	waker
	closed atomic.Bool

	devices     map[shmem.Inode]*device
	mapped      map[shmem.Inode]*mapping
	mappedBytes int
	segments    map[uint64]*shmem.Segment // of this process, that peers may use, by number
	numbers     uint64
}

// pollable is an object whose descriptor epoll reports.
type pollable interface {
	ready(f func(owner any, read, write bool)) int
}

func newNetwork(addr netip.Addr, opt *Options) (memorydev.Network, error) {
	if opt.Dir != "" {
		if i, err := os.Stat(opt.Dir); err != nil || !i.IsDir() {
			return nil, fmt.Errorf("dir=%s is no directory: make one that all processes have", opt.Dir)
		}
	}
	n := &network{port: port{addr}, place: shmem.Place{Dir: opt.Dir}, copies: !opt.NoCopies, epoll: -1,
		owners: make(map[int32]pollable), listeners: make(map[*acceptor]struct{}),
		watches: make(map[*groupWatch]struct{}),
		events:  make([]unix.EpollEvent, 64), devices: make(map[shmem.Inode]*device),
		mapped: make(map[shmem.Inode]*mapping), segments: make(map[uint64]*shmem.Segment)}
	if err := n.open(); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *network) open() (err error) {
	if n.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create", err)
	}
	if n.doorbellSeg, err = shmem.Create("ramjet-doorbell", local.DoorbellBytes, shmem.ReadWrite); err != nil {
		return err
	}
	shmem.JoinBarriers()
	n.doorbell = local.NewDoorbell(n.doorbellSeg.Bytes())
	n.waker.init(n.doorbell.Asleep())
	return n.listen()
}

// follow has epoll report a descriptor to p.
func (n *network) follow(fd int, p pollable) error {
	if err := unix.EpollCtl(n.epoll, unix.EPOLL_CTL_ADD, fd,
		&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	n.owners[int32(fd)] = p
	return nil
}

// unfollow ends that. The descriptor is open.
func (n *network) unfollow(fd int) {
	delete(n.owners, int32(fd))
	unix.EpollCtl(n.epoll, unix.EPOLL_CTL_DEL, fd, nil) // fails if it is not in there
}

// greetTime is how long others wait for a peer that has come and sent no hello.
const greetTime = 10 * time.Second

// Arriving reports whether a peer waits to be let in, or has come, not long ago, and sent no hello.
func (n *network) Arriving() bool {
	late := pollwait.Now() - pollwait.Instant(greetTime)
	for a := range n.listeners {
		if k := len(a.arriving); k > 0 && a.arriving[k-1].came > late || len(a.come) > 0 || a.listener.Pending() {
			return true
		}
	}
	return false
}

// Ready reports the links whose peers have done something, and the sockets' messages.
func (n *network) Ready(f func(owner any, read, write bool)) (found int) {
	if len(n.again) > 0 {
		found += n.reportAgain(f)
	}
	for i := 0; i < len(n.hot); i++ {
		l := n.hot[i]
		if !l.pending() {
			l.idle++
			continue
		}
		l.idle = 0
		found++
		f(l.owner, true, false)
	}
	n.doorbell.Take(len(n.links), func(slot int) {
		if l := n.links[slot]; l != nil && l.peer != nil {
			n.heat(l)
			l.pending()
			found++
			f(l.owner, true, false)
		}
	})
	if n.passes++; n.passes%askEvery == 0 || n.asked.Load() {
		n.asked.Store(false)
		n.retryConnects()
		found += n.ask(f)
		found += n.lookAtCold(f)
	}
	return found
}

// lookAtCold reports cold links whose peers have done something, if it is time for that: some in each pass, until all
// have had their turn.
func (n *network) lookAtCold(f func(owner any, read, write bool)) (found int) {
	if !n.expired.Load() {
		return 0
	}
	end := min(n.coldAt+coldAtOnce, len(n.links))
	for _, l := range n.links[n.coldAt:end] {
		if l != nil && l.peer != nil && !l.hot && l.pending() {
			n.heat(l)
			found++
			f(l.owner, true, false)
		}
	}
	if n.coldAt = end; end < len(n.links) {
		n.asked.Store(true)
	} else {
		n.coldAt = 0
		n.expired.Store(false)
	}
	return found
}

// reportAgain reports the links that the previous pass has left.
func (n *network) reportAgain(f func(owner any, read, write bool)) (found int) {
	n.again, n.pending = n.pending[:0], n.again
	for i, l := range n.pending {
		n.pending[i] = nil
		if l.again {
			l.again = false
			found++
			f(l.owner, true, true)
		}
	}
	return found
}

// ask asks the system which sockets have something.
func (n *network) ask(f func(owner any, read, write bool)) (found int) {
	count, errno := pollwait.PollNow(n.epoll, n.events)
	if errno != 0 {
		return 0
	}
	if count > 0 {
		n.asked.Store(true) // there may be more, of which nobody tells again
	}
	for i := range n.events[:count] {
		if p := n.owners[n.events[i].Fd]; p != nil { // an earlier one may have closed it
			found += p.ready(f)
		}
	}
	return found
}

// heat has a link looked at in each pass. Where there are too many, the one that has been idle for
// longest goes.
func (n *network) heat(l *link) {
	if l.hot {
		return
	}
	if len(n.hot) >= maxHot {
		coldest := n.hot[0]
		for _, h := range n.hot {
			if h.idle > coldest.idle {
				coldest = h
			}
		}
		n.cool(coldest)
	}
	n.add(l)
}

// add adds a link to the hot ones.
func (n *network) add(l *link) {
	l.hot, l.idle = true, 0
	l.peer.Awake()
	n.hot = append(n.hot, l)
}

// cool has the peer of a link ring the doorbell from now on. It returns false if the peer has done something meanwhile:
// the link is hot.
func (n *network) cool(l *link) bool {
	if l.peer.Sleep() {
		n.drop(l)
		return true
	}
	if !l.hot {
		n.add(l)
	}
	return false
}

// drop takes a link from the hot ones.
func (n *network) drop(l *link) {
	for i, h := range n.hot {
		if h == l {
			last := len(n.hot) - 1
			n.hot[i] = n.hot[last]
			n.hot[last] = nil
			n.hot = n.hot[:last]
		}
	}
	l.hot = false
}

// Arm has peers ring the doorbell, and wake this process, from now on.
func (n *network) Arm() bool {
	for len(n.hot) > 0 {
		if !n.cool(n.hot[len(n.hot)-1]) {
			return false
		}
	}
	return len(n.again) == 0 && !n.asked.Load() && n.doorbell.Sleep(len(n.links))
}

// Close closes the descriptors that are left. Nobody waits any more.
func (n *network) Close() error {
	if n.closed.Swap(true) {
		return nil
	}
	n.retries.stop()
	for _, l := range n.links {
		if l != nil {
			l.release()
		}
	}
	for a := range n.listeners {
		a.release()
	}
	for w := range n.watches {
		w.release()
	}
	for _, l := range n.leaving {
		l.release()
	}
	for _, s := range n.segments {
		s.Forget() // the memory goes with its region
	}
	switch {
	case n.sockets != nil:
		n.sockets.Close()
		<-n.heard
	case n.epoll >= 0:
		unix.Close(n.epoll)
	}
	n.waker.stop()
	if n.doorbellSeg != nil {
		return n.doorbellSeg.Close()
	}
	return nil
}
