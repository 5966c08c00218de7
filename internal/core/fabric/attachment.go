// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/internal/base/queue"
	"github.com/ramjet-rdma/ramjet/internal/base/steer"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// maxAttachments is how many programs can share an adapter.
const maxAttachments = steer.Slots

// ErrAgain means that a port's send queue is full. [Driver.Wake] is called when it has room again.
var ErrAgain = errors.New("fabric: the port is full for now")

// Driver receives the notifications of an [Attachment]. Its methods must not block.
type Driver interface {
	// Wake is called with the fabric's lock held, when packets have arrived or a full port has room again.
	Wake()
	// Changed is called without the lock, after the [Attachment.Info] of a port has changed.
	Changed(port int, events ...verbs.EventType)
}

// Attachment is a program's access to an adapter.
type Attachment struct {
	f      *Fabric
	m      *member
	slot   int
	driver Driver
	infos  []atomic.Pointer[Info] // by port, from 1 on
	ready  atomic.Bool            // there is a reason to call Receive

	// f.mu guards the fields that follow.
	queue  queue.Ring[Arrival]
	held   int        // bytes in queue that hold buffer space of the ports
	own    int        // bytes in queue that count against maxOwn
	unsent []outgoing // accepted while the port had no room
	claims
	groups int // multicast groups it has joined
	stallState
	sm     bool          // its program runs a subnet manager
	room   chan struct{} // closed when unsent is empty again; nil: no waiter
	closed bool
	// stopped is that its program can neither send nor receive, and removed that nothing of that gets anywhere: see
	// Stop and Remove.
	stopped, removed bool
}

// Arrival is a received packet, and the port that received it.
type Arrival struct {
	Port   int
	Packet *link.Packet
	own    bool // it holds no buffer space of the port, but some of its attachment
}

// outgoing is a packet to send from a port.
type outgoing struct {
	port   int
	packet *link.Packet
}

// Attach attaches a driver to an adapter, by name, description or IP address. An empty name stands for the
// first adapter that is not in use.
func (f *Fabric) Attach(name string, d Driver) (*Attachment, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	m, err := f.adapter(name)
	if err != nil {
		return nil, err
	}
	num := slices.Index(m.attachments[:], nil)
	if num < 0 {
		return nil, fmt.Errorf("%d programs use adapter %q already: close one, or use another adapter", maxAttachments,
			m.name)
	}
	s := &Attachment{f: f, m: m, slot: num, driver: d, infos: make([]atomic.Pointer[Info], len(m.state.Ports))}
	for port := 1; port < len(m.state.Ports); port++ {
		s.infos[port].Store(infoOf(m.state, port))
	}
	m.attachments[num] = s
	if f.sim != nil && f.sim.Attached != nil {
		f.sim.Attached(s)
	}
	return s, nil
}

// Close detaches the driver. It must have released all packets that Receive returned.
func (s *Attachment) Close() {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.m.attachments[s.slot] = nil
	s.dropQueue()
	s.leaveAll()
	if s.sm {
		s.m.setSM(f, false)
	}
	for _, o := range s.unsent {
		f.lose(o.packet)
	}
	s.unsent = nil
	s.signalRoom()
	if !f.closed {
		f.step()
	}
}

// Name returns the adapter's name.
func (s *Attachment) Name() string { return s.m.name }

// Slot returns the attachment's number, the top bits of its queue pair numbers and transaction ids.
func (s *Attachment) Slot() int { return s.slot }

// Ports returns how many ports the adapter has. They are numbered from 1.
func (s *Attachment) Ports() int { return len(s.m.state.Ports) - 1 }

// Info returns the state of a port. It is shared: do not modify it.
func (s *Attachment) Info(port int) *Info { return s.infos[port].Load() }

// Alloc allocates a packet of each size in bytes, LRH to ICRC. It returns ErrAgain while packets sent earlier
// wait for room in their port, or ErrClosed.
func (s *Attachment) Alloc(packets []*link.Packet, sizes []int) error {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	switch {
	case s.f.closed || s.closed:
		return ErrClosed
	case s.isFull():
		return ErrAgain
	}
	for i, size := range sizes {
		packets[i] = s.f.net.Alloc(size)
	}
	return nil
}

// Discard frees packets of Alloc that were not sent.
func (s *Attachment) Discard(packets []*link.Packet) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	for _, p := range packets {
		s.f.net.Release(p)
	}
}

// Full reports whether Alloc would return ErrAgain.
func (s *Attachment) Full() bool {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return s.isFull()
}

func (s *Attachment) isFull() bool { return s.stopped || len(s.unsent) > 0 }

// Send sends packets of Alloc from a port, in order. It accepts all of them, queueing packets that the port has no
// room for, or returns ErrClosed and accepts none.
func (s *Attachment) Send(port int, packets []*link.Packet) error {
	f := s.f
	f.mu.Lock()
	if f.closed || s.closed {
		f.mu.Unlock()
		return ErrClosed
	}
	for _, p := range packets {
		if s.removed {
			f.lose(p)
			continue
		}
		if len(s.unsent) > 0 || !s.send(port, p) {
			s.unsent = append(s.unsent, outgoing{port, p})
		}
	}
	f.stepAndUnlock()
	return nil
}

// send hands a packet to the network. It returns false if the port has no room.
func (s *Attachment) send(port int, p *link.Packet) bool {
	f, from := s.f, s.m.node.Port(port)
	if q, ok := s.memberRequest(port, p); ok {
		if f.net.Full(from, p) {
			return false
		}
		if s.changeMembership(&q) {
			return true
		}
	}
	return f.net.Send(f.now(), from, p)
}

// resume sends packets that waited for room in a port.
func (m *member) resume(f *Fabric) {
	for _, s := range m.attachments {
		if s == nil || len(s.unsent) == 0 {
			continue
		}
		n := 0
		for n < len(s.unsent) && s.send(s.unsent[n].port, s.unsent[n].packet) {
			n++
		}
		s.unsent = slices.Delete(s.unsent, 0, n)
		if len(s.unsent) == 0 {
			s.signalRoom()
		}
	}
}

// signalRoom wakes the goroutines that wait until unsent is empty.
func (s *Attachment) signalRoom() {
	s.driver.Wake()
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
}

// AwaitRoom waits until Alloc no longer returns ErrAgain. It returns ErrClosed if the attachment, the fabric or
// done is closed first.
func (s *Attachment) AwaitRoom(done <-chan struct{}) error {
	s.f.mu.Lock()
	if s.closed || s.f.closed {
		s.f.mu.Unlock()
		return ErrClosed
	}
	if len(s.unsent) == 0 {
		s.f.mu.Unlock()
		return nil
	}
	if s.room == nil {
		s.room = make(chan struct{})
	}
	room := s.room
	s.f.mu.Unlock()
	select {
	case <-room:
		return nil
	case <-s.f.done:
	case <-done:
	}
	return ErrClosed
}

// Ready reports whether a packet waits for Receive. It takes no lock.
func (s *Attachment) Ready() bool { return s.ready.Load() }

// Receive moves received packets into buf. Release frees them.
func (s *Attachment) Receive(buf []Arrival) (int, error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.f.closed || s.closed {
		return 0, ErrClosed
	}
	return s.receive(buf), nil
}

// receive is Receive with the lock held.
func (s *Attachment) receive(buf []Arrival) (n int) {
	if s.stopped {
		return 0
	}
	for ; n < len(buf) && s.queue.Len() > 0; n++ {
		buf[n] = s.pop()
	}
	s.received(n)
	s.setReady()
	return n
}

// setReady brings ready up to date.
func (s *Attachment) setReady() {
	s.ready.Store(!s.f.closed && !s.stopped && (s.queue.Len() > 0 || s.stalled))
}

// Take is Receive for a driver that may hold packets for long: they no longer count against the ports' receive
// buffers, but must still be released.
func (s *Attachment) Take(buf []Arrival) (int, error) {
	f := s.f
	f.mu.Lock()
	if f.closed || s.closed {
		f.mu.Unlock()
		return 0, ErrClosed
	}
	n := s.receive(buf)
	for _, a := range buf[:n] {
		f.net.Vacate(a.Packet)
	}
	if n == 0 {
		f.mu.Unlock()
		return 0, nil
	}
	f.stepAndUnlock()
	return n, nil
}

// Release frees received packets and their space in the ports' receive buffers.
func (s *Attachment) Release(got []Arrival) {
	f := s.f
	f.mu.Lock()
	for _, a := range got {
		f.net.Release(a.Packet)
	}
	f.stepAndUnlock()
}

// SetSM sets whether the program runs a subnet manager, which at most one program at an adapter does.
func (s *Attachment) SetSM(on bool) error {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if on == s.sm {
		return nil
	}
	if b := s.f.manager; on && b != nil && b.at == s.m {
		return fmt.Errorf("the built-in subnet manager is at adapter %q: choose another adapter, or run the fabric without it", s.m.name)
	}
	for _, o := range s.m.attachments {
		if on && o != nil && o.sm {
			return fmt.Errorf("a subnet manager runs at adapter %q already: end it, or choose another adapter",
				s.m.name)
		}
	}
	s.sm = on
	s.m.setSM(s.f, on)
	return nil
}

// wake wakes the driver when the fabric has closed.
func (s *Attachment) wake() { s.driver.Wake() }

func (s *Attachment) changed(port int, events ...verbs.EventType) { s.driver.Changed(port, events...) }

// GUID returns the adapter's node GUID.
func (s *Attachment) GUID() uint64 { return s.m.state.GUID }

// SendMAD sends a management datagram of 256 bytes.
func (s *Attachment) SendMAD(port int, d link.Datagram, mad []byte) error {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || s.closed {
		return ErrClosed
	}
	switch {
	case s.stopped:
		return ErrAgain
	case s.removed:
		return nil
	}
	p := f.net.NewMAD(d, mad)
	if !s.send(port, p) {
		f.net.Release(p)
		return ErrAgain
	}
	f.step()
	return nil
}
