// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/core/memorydev"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
)

// directoryEntries is how many regions a domain's directory has room for: twice the limit of regions,
// so that a key finds a place near its own. Memory that is not used takes no room.
const directoryEntries = 1 << 17

// Allocate makes a segment.
func (n *network) Allocate(size int, writable bool) (mem []byte, free func(), number uint64, err error) {
	rights := shmem.ReadOnly
	if writable {
		rights = shmem.ReadWrite
	}
	s, err := shmem.Create("ramjet-region", size, rights)
	if err != nil {
		return nil, nil, 0, err
	}
	n.numbers++
	number = n.numbers
	n.segments[number] = s
	return s.Bytes()[:size:size], func() { s.Close() }, number, nil
}

// domain is the part of a protection domain that peers see.
type domain struct {
	net    *network
	dir    *shmem.Segment
	pub    *local.Publisher
	shared map[uint64]*shmem.Segment
	links  map[*link]struct{}

	entries map[uint32]local.Entry // of regions whose memory is shared
}

// NewDomain makes a directory without entries.
func (n *network) NewDomain() (memorydev.Domain, error) {
	dir, err := shmem.Create("ramjet-directory", local.DirectorySize(directoryEntries), shmem.ReadOnly)
	if err != nil {
		return nil, err
	}
	return &domain{net: n, dir: dir, pub: local.NewPublisher(dir.Bytes()), shared: make(map[uint64]*shmem.Segment),
		links:   make(map[*link]struct{}),
		entries: make(map[uint32]local.Entry)}, nil
}

// Publish hands a region's memory to all peers, before they can know of the region.
func (d *domain) Publish(e local.Entry) {
	switch s := d.net.segments[e.Segment]; {
	case s == nil:
	case s.Renewed():
		e.Segment = 0
	default:
		d.shared[e.Segment], d.entries[e.Key] = s, e
		d.spread(e.Segment)
	}
	d.pub.Publish(e) // peers ask for entries that have no room there
}

// Withdraw takes an entry back: peers that have it mapped no longer use it. In a region that is gone they may finish
// operations that they have begun: its memory is used for nothing else.
func (d *domain) Withdraw(e local.Entry, gone bool) {
	d.pub.Withdraw(e.Key)
	if !gone {
		d.quiesce(e.Key, slices.Collect(maps.Keys(d.links))...)
		d.pub.Withdraw(e.Key) // if it was published again
	}
	delete(d.entries, e.Key)
	delete(d.shared, e.Segment)
	if s := d.net.segments[e.Segment]; gone && s != nil {
		s.Forget() // the memory stays as long as the program uses it
		delete(d.net.segments, e.Segment)
	}
	d.spread(e.Segment)
}

// spread tells all peers of a segment that has come or gone.
func (d *domain) spread(number uint64) {
	for l := range d.links {
		l.due[number] = struct{}{}
		l.tell()
	}
}

// Close frees the directory. The memory of regions goes with them.
func (d *domain) Close() {
	for l := range d.links {
		l.domain = nil
	}
	d.dir.Close()
}

// offer is the part of this side's memory of which the peer of a link is told.
type offer struct {
	domain    *domain
	directory bool                // the directory is announced
	due       map[uint64]struct{} // segments that have come or gone, and are to be announced
	announced map[uint64]struct{} // segments that the peer knows
	stuck     bool                // the socket takes no more at present
}

func (o *offer) begin(d *domain, l *link) {
	*o = offer{domain: d, due: make(map[uint64]struct{}), announced: make(map[uint64]struct{})}
	d.links[l] = struct{}{}
	for number := range d.shared {
		o.due[number] = struct{}{}
	}
}

func (o *offer) end(l *link) {
	if o.domain != nil {
		delete(o.domain.links, l)
	}
	*o = offer{}
}

// tell sends due messages to the peer. Messages that do not fit in the socket follow when the peer has read:
// until then it asks this process.
func (l *link) tell() {
	if l.domain == nil || l.sock == nil || l.directory && len(l.due) == 0 {
		return
	}
	err := l.offer.send(l.sock)
	if l.peer != nil {
		l.peer.Change()
	}
	if stuck := errors.Is(err, unix.EAGAIN); stuck != l.stuck {
		l.stuck = stuck
		e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(l.sock.FD())}
		if stuck {
			e.Events |= unix.EPOLLOUT
		}
		unix.EpollCtl(l.net.epoll, unix.EPOLL_CTL_MOD, l.sock.FD(), &e) // fails if the peer has ended
	}
}

// send sends due messages, in the order in which they came.
func (o *offer) send(sock *shmem.Socket) error {
	if !o.directory {
		m := message{kind: messageDirectory}
		if err := sock.Send(m.append(nil), o.domain.dir.FD()); err != nil {
			return err
		}
		o.directory = true
	}
	for _, number := range slices.Sorted(maps.Keys(o.due)) {
		_, known := o.announced[number]
		var err error
		switch s := o.domain.shared[number]; {
		case s != nil && !known:
			m := message{kind: messageSegment, segment: number}
			if err = sock.Send(m.append(nil), s.FD()); err == nil {
				o.announced[number] = struct{}{}
			}
		case s == nil && known:
			m := message{kind: messageDrop, segment: number}
			if err = sock.Send(m.append(nil)); err == nil {
				delete(o.announced, number)
			}
		}
		if err != nil {
			return err
		}
		delete(o.due, number)
	}
	return nil
}
