// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/core/memorydev"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/engine/local"
	"github.com/ramjet-rdma/ramjet/internal/system/pollwait"
	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
)

const (
	// maxInbox is how many bytes of the set-up a peer can have wait.
	maxInbox = 16 << 10
	// lettersAtOnce is how many messages are read in one go.
	lettersAtOnce = 256
	// partBytes is the length of each side's part of a link's segment, in bytes.
	partBytes = (local.SegmentBytes + 4095) &^ 4095
)

// link is the connection to a queue pair of a process: a socket, and a segment.
type link struct {
	net      *network
	sock     *shmem.Socket // nil: the link was closed, or could not be made
	owner    any
	from, to netip.AddrPort
	failed   error // why it could not be made, also as the peer says, or cannot be
	ended    bool  // the peer has closed it, or has ended
	inbox    []byte

	retries bool // as many peers wait at the listener as may: this side tries again

	slot   int              // in this process's doorbell
	seg    *shmem.Segment   // of both sides: the dialing side makes it, and writes to its first half
	own    []byte           // the half that this side writes to
	theirs []byte           // the other
	greets *acceptor        // waits for the peer's hello for it; nil: it has come, or this side dials
	came   pollwait.Instant // when the acceptor let it in
	hello  bool             // the peer's hello has come
	device *device          // of the peer
	ring   uint32           // slot in the peer's doorbell

	holds bool // the peer was told that its request waits for a queue pair
	held  bool // the peer has told so

	crosses bool // the system lets this process copy from and to the peer's memory

	remote
	offer

	peer  *local.Peer // nil: not joined
	left  *closedPeer // nil: the peer was not at work when the link was closed
	hot   bool
	again bool
	idle  int
}

// newLink makes a link that this side dials, and says so to the other.
func (n *network) newLink(sock *shmem.Socket, from, to netip.AddrPort) (*link, error) {
	l := &link{net: n, from: from, to: to, slot: -1}
	if err := l.open(sock); err != nil {
		return nil, err
	}
	return l, nil
}

// open makes the segment of a link that this side dials, and hands it over a socket, which becomes the link's. If that
// fails, nothing is left of the link.
func (l *link) open(sock *shmem.Socket) (err error) {
	l.sock = sock
	if l.seg, err = shmem.Create("ramjet-link", 2*partBytes, shmem.ReadWrite); err == nil {
		err = l.net.follow(sock.FD(), l)
	}
	if err == nil {
		l.own, l.theirs = l.seg.Bytes()[:partBytes], l.seg.Bytes()[partBytes:]
		err = l.greet(l.seg.FD())
	}
	if err != nil {
		l.release()
		return err
	}
	l.seg.Forget()
	return nil
}

// greet takes a slot of the doorbell, and says hello with it.
func (l *link) greet(files ...int) error {
	n := l.net
	if !n.takeSlot(l) {
		return errNoSlot
	}
	hello := message{kind: messageHello, slot: uint32(l.slot), from: l.from,
		probe: uint64(uintptr(unsafe.Pointer(probe))), value: *probe}
	err := l.sock.Send(hello.append(nil), append(files, n.doorbellSeg.FD())...)
	if errors.Is(err, unix.EPIPE) {
		return nil // the link has ended, as its reader will see
	}
	return err
}

var errNoSlot = fmt.Errorf("%w: the device has %d connections", unix.ENOBUFS, local.DoorbellSlots)

// takeSlot gives a link a slot of the doorbell.
func (n *network) takeSlot(l *link) bool {
	if k := len(n.free); k > 0 {
		l.slot, n.free = n.free[k-1], n.free[:k-1]
		n.links[l.slot] = l
		return true
	}
	if len(n.links) == local.DoorbellSlots {
		return false
	}
	l.slot = len(n.links)
	n.links = append(n.links, l)
	return true
}

// Dial connects to a peer's listener. [link.Connected] returns the error if it cannot.
func (n *network) Dial(from, to netip.AddrPort, _ uint8) (streamdev.Link, error) {
	if from.Port() == 0 {
		from = netip.AddrPortFrom(from.Addr(), anyPort())
	}
	sock, err := n.place.Connect(to.String())
	if err == nil {
		l, err := n.newLink(sock, from, to)
		if err != nil {
			return nil, err
		}
		return l, nil
	}
	l := &link{net: n, from: from, to: to, slot: -1}
	if errors.Is(err, unix.EAGAIN) {
		n.retryLater(l)
		return l, nil
	}
	l.fail(err)
	n.Wake() // nobody there will say anything
	return l, nil
}

// fail has the next Ready report that there is no connection.
func (l *link) fail(err error) {
	if errors.Is(err, unix.ENOENT) {
		err = unix.ECONNREFUSED
	}
	l.failed = fmt.Errorf("connecting to %v: %w", l.to, err)
	l.Again()
}

// DialNow is Dial that fails at once where nobody is. Another user is nobody.
func (n *network) DialNow(from, to netip.AddrPort) (memorydev.Link, error) {
	sock, err := n.place.Connect(to.String())
	if errors.Is(err, unix.ENOENT) || errors.Is(err, shmem.ErrOtherUser) {
		err = unix.ECONNREFUSED
	}
	if err != nil {
		return nil, err
	}
	l, err := n.newLink(sock, from, to)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// ready reads the peer's messages, and reports them.
func (l *link) ready(f func(owner any, read, write bool)) int {
	l.drain()
	switch {
	case l.greets != nil:
		return l.greets.greeted(l, f)
	case l.owner == nil:
		return 0
	}
	f(l.owner, true, true)
	return 1
}

// drain reads messages.
func (l *link) drain() {
	for range lettersAtOnce {
		if l.sock == nil || l.ended {
			return
		}
		b, files, err := l.sock.Receive()
		switch {
		case err == nil && l.read(b, files):
			continue
		case errors.Is(err, unix.EAGAIN):
			l.tell()
			return
		}
		l.ended = true // or it does not keep to the rules
		l.net.unfollow(l.sock.FD())
		l.Again() // a pass that read the socket for another reason does not report it
		l.net.Wake()
	}
}

// read takes a message and its descriptors. It returns false if the peer must not send it.
func (l *link) read(b []byte, files []int) bool {
	var m message
	if !m.decode(b) || len(files) != m.kind.files(l.greets != nil) || l.hello == m.kind.first() {
		shmem.CloseAll(files)
		return false
	}
	switch m.kind {
	case messageHello:
		if l.failed != nil {
			shmem.CloseAll(files)
			return l.refuse(l.failed)
		}
		return l.meet(&m, files)
	case messageRefused:
		l.failed = fmt.Errorf("connecting to %v: %w: its process %v", l.to, unix.ENOBUFS, m.limit)
		return false
	case messageFrame:
		l.inbox = append(l.inbox, m.frame...)
		return len(l.inbox) <= maxInbox
	case messageHeld:
		l.held = true
		return true
	case messageDirectory:
		return l.remote.takeDirectory(l.net, files[0])
	case messageSegment:
		return l.remote.takeSegment(l.net, m.segment, files[0])
	}
	l.remote.drop(l.net, m.segment)
	return true
}

// meet takes the peer's hello, and answers it if the peer has dialed. It returns false if that ends the link.
func (l *link) meet(m *message, files []int) bool {
	doorbell := files[len(files)-1]
	if l.greets != nil {
		l.to = m.from
		var err error
		if l.seg, err = shmem.Map(files[0], 2*partBytes, 2*partBytes, shmem.ReadWrite); err != nil {
			unix.Close(doorbell)
			return l.refuse(err)
		}
		l.own, l.theirs = l.seg.Bytes()[partBytes:], l.seg.Bytes()[:partBytes]
	}
	var err error
	if l.device, err = l.net.meet(doorbell); err == nil && l.greets != nil {
		err = l.greet()
	}
	if err != nil {
		return l.refuse(err)
	}
	l.ring, l.hello, l.crosses = m.slot, true, l.net.copies && l.sock.Hold() && crosses(l.sock.PID(), m.probe, m.value)
	return true
}

func (l *link) Own(owner any) { l.owner = owner }

// Watch does nothing: all that comes is read.
func (l *link) Watch(_, _ bool) {}

func (l *link) Connected() error {
	switch {
	case l.failed != nil:
		return l.failed
	case l.hello:
		return nil
	case l.ended:
		return fmt.Errorf("connecting to %v: %w", l.to, unix.ECONNRESET)
	}
	return softdev.ErrAgain
}

// Starting reports whether the peer's device has not seen the request. Its process lives, and may have to wait for a
// processor.
func (l *link) Starting() bool { return l.failed == nil && !l.ended && !l.held }

// Hold tells the peer that its request has been seen, and waits.
func (l *link) Hold() {
	if l.sock != nil && !l.holds {
		l.holds = true
		m := message{kind: messageHeld}
		l.sock.Send(m.append(nil)) // fails if the peer has ended
	}
}

// Read returns bytes of the set-up.
func (l *link) Read(pieces [][]byte) (n int, err error) {
	if len(l.inbox) == 0 {
		l.drain()
	}
	for _, p := range pieces {
		k := copy(p, l.inbox)
		l.inbox = l.inbox[k:]
		n += k
	}
	switch {
	case n > 0:
		return n, nil
	case l.ended:
		return 0, io.EOF
	}
	return 0, softdev.ErrAgain
}

// Write sends bytes of the set-up.
func (l *link) Write(pieces [][]byte) (int, error) {
	if l.sock == nil {
		return 0, unix.EPIPE
	}
	m := message{kind: messageFrame, frame: slices.Concat(pieces...)}
	switch err := l.sock.Send(m.append(nil)); {
	case errors.Is(err, unix.EAGAIN):
		return 0, softdev.ErrAgain
	case err != nil:
		return 0, err
	}
	return len(m.frame), nil
}

// Join lets the peer use the regions that are published in a domain, if there is one.
func (l *link) Join(d memorydev.Domain) (*local.Peer, error) {
	if l.seg == nil || !l.hello {
		return nil, unix.ENOTCONN
	}
	peer, err := local.NewPeer(l.own, l.theirs, l)
	if err != nil {
		return nil, err
	}
	if d != nil {
		l.offer.begin(d.(*domain), l)
		l.tell()
	}
	l.peer = peer
	if !l.net.cool(l) {
		l.net.Wake()
	}
	return peer, nil
}

// Ring tells the peer's device to look at the link, and wakes its process if it sleeps.
func (l *link) Ring() {
	if l.device != nil && l.device.doorbell.Ring(l.ring) {
		shmem.WakeAll(l.device.doorbell.Asleep())
	}
}

// Again has the next Ready report the link.
func (l *link) Again() {
	if !l.again {
		l.again = true
		l.net.again = append(l.net.again, l)
	}
}

// pending reports whether the peer has done something since the last look.
func (l *link) pending() bool {
	news := l.peer.Changed()
	if news {
		l.drain()
	}
	return l.peer.Pending() || news
}

// Directory returns the directory of the peer's protection domain.
func (l *link) Directory() *local.Lookup {
	if l.dir == nil {
		l.drain()
	}
	if l.dir == nil {
		return nil
	}
	return l.lookup
}

// Segment returns memory of the peer.
func (l *link) Segment(number uint64) (mem []byte, writable bool) {
	m := l.segments[number]
	if m == nil {
		l.drain() // its message may wait
		m = l.segments[number]
	}
	if m == nil {
		return nil, false
	}
	return m.seg.Bytes(), m.writable
}

// Generation changes with the results of Directory and Segment.
func (l *link) Generation() uint64 { return l.generation }

// Crosses reports whether the system lets this process copy from and to the peer's memory.
func (l *link) Crosses() bool { return l.crosses && !l.ended }

// Cross copies to or from the peer's memory. The number of a process that has ended is another's some
// day: the socket tells before that.
func (l *link) Cross(b []byte, addr uint64, write bool) bool {
	return l.sock.Lives() && cross(l.sock.PID(), b, addr, write)
}

// Work returns a number that is odd while the peer is at work in memory of this process.
func (l *link) Work() uint32 {
	switch {
	case l.left != nil:
		return l.left.Work()
	case l.peer == nil:
		return 0
	}
	return l.peer.Work()
}

// Shutdown does nothing: only the set-up has a direction of its own.
func (l *link) Shutdown() {}

// Close closes the link.
func (l *link) Close(bool) {
	if l.net.closed.Load() {
		return
	}
	if l.sock != nil && l.peer != nil {
		l.sock.Finish() // fails if the peer has ended
		l.peer.Shut()
		l.peer.Change()
		l.Ring()
		if l.peer.Work()%2 == 1 {
			l.leave()
		}
	}
	l.release()
}

// release frees the link's descriptors and memory.
func (l *link) release() {
	n := l.net
	if l.hot {
		n.drop(l)
	}
	l.again, l.retries, l.peer = false, false, nil
	if l.slot >= 0 {
		n.links[l.slot] = nil
		n.free = append(n.free, l.slot)
		l.slot = -1
	}
	if l.sock != nil {
		n.unfollow(l.sock.FD())
		l.sock.Close()
		l.sock = nil
	}
	if l.seg != nil {
		l.seg.Close()
		l.seg, l.own, l.theirs = nil, nil, nil
	}
	l.offer.end(l)
	l.remote.end(n)
	if l.device != nil {
		n.leave(l.device)
		l.device = nil
	}
}

// Silent returns false: the system says when a peer ends.
func (l *link) Silent() bool { return false }

// Ended reports whether the peer has closed the link, or has ended.
func (l *link) Ended() bool { return l.ended }

// MSS returns zero: nothing is cut into segments.
func (l *link) MSS() int { return 0 }

func (l *link) LocalAddr() netip.AddrPort { return l.from }
func (l *link) PeerAddr() netip.AddrPort  { return l.to }
