// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/ramjet-rdma/ramjet/internal/core/queue"
	"github.com/ramjet-rdma/ramjet/internal/core/steer"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// maxSeats is how many seats an adapter has.
const maxSeats = steer.Slots

// ErrAgain means that a seat takes no more packets now. [Driver.Wake] tells when it does.
var ErrAgain = errors.New("fabric: the port is full for now")

// Driver is who has a seat. Its methods must not block.
type Driver interface {
	// Wake is called, with the fabric's lock held, when packets have come or a full port has room again.
	Wake()
	// Changed is called, without the lock, when what [Seat.Info] returns of a port has changed.
	Changed(port int, events ...verbs.EventType)
}

// Seat is a program's access to an adapter.
type Seat struct {
	f      *Fabric
	m      *member
	num    int
	driver Driver
	infos  []atomic.Pointer[Info] // by port, from 1 on
	ready  atomic.Bool            // there is something in queue

	// f.mu guards what follows.
	queue  queue.Ring[Arrival]
	unsent []outgoing // accepted, but its port had no room
	claims
	groups int // that it is in
	patience
	sm   bool          // a subnet manager runs here
	room chan struct{} // closed when unsent is empty again; nil: nobody waits
	gone bool
}

// Arrival is a packet that has come, and the port where it did.
type Arrival struct {
	Port   int
	Packet *link.Packet
}

// outgoing is a packet on its way out of a port.
type outgoing struct {
	port   int
	packet *link.Packet
}

// Sit gives a driver a seat at an adapter, by its name or description. An empty name stands for the
// first adapter that has none yet.
func (f *Fabric) Sit(name string, d Driver) (*Seat, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	m, err := f.adapter(name)
	if err != nil {
		return nil, err
	}
	num := slices.Index(m.seats[:], nil)
	if num < 0 {
		return nil, fmt.Errorf("%d programs use adapter %q already: close one, or use another adapter", maxSeats, m.name)
	}
	s := &Seat{f: f, m: m, num: num, driver: d, infos: make([]atomic.Pointer[Info], len(m.state.Ports))}
	for port := 1; port < len(m.state.Ports); port++ {
		s.infos[port].Store(infoOf(m.state, port))
	}
	m.seats[num] = s
	return s, nil
}

// Close gives the seat up. Packets that Receive returned are to be released before.
func (s *Seat) Close() {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.gone {
		return
	}
	s.gone = true
	s.m.seats[s.num] = nil
	s.empty()
	s.leaveAll()
	if s.sm {
		s.m.setSM(f, false)
	}
	for _, o := range s.unsent {
		f.net.Release(o.packet)
	}
	s.unsent = nil
	s.roomy()
	if !f.closed {
		f.step()
	}
}

// Name returns the adapter's name.
func (s *Seat) Name() string { return s.m.name }

// Slot returns the seat's number, which is on top of queue pair numbers and transaction ids.
func (s *Seat) Slot() int { return s.num }

// Ports returns how many ports the adapter has. They are numbered from 1.
func (s *Seat) Ports() int { return len(s.m.state.Ports) - 1 }

// Info returns what is to be known of a port. Nobody changes it.
func (s *Seat) Info(port int) *Info { return s.infos[port].Load() }

// Alloc fills packets with new ones of the given sizes, LRH to ICRC. It returns ErrAgain while packets that were
// sent before wait for room, or ErrClosed.
func (s *Seat) Alloc(packets []*link.Packet, sizes []int) error {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	switch {
	case s.f.closed || s.gone:
		return ErrClosed
	case len(s.unsent) > 0:
		return ErrAgain
	}
	for i, size := range sizes {
		packets[i] = s.f.net.Alloc(size)
	}
	return nil
}

// Discard frees packets of Alloc that are not sent.
func (s *Seat) Discard(packets []*link.Packet) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	for _, p := range packets {
		s.f.net.Release(p)
	}
}

// Full reports whether Alloc would return ErrAgain.
func (s *Seat) Full() bool {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return len(s.unsent) > 0
}

// Send sends packets of Alloc from a port, in their order. It takes all, and keeps what does not fit for now,
// or returns ErrClosed and takes none.
func (s *Seat) Send(port int, packets []*link.Packet) error {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || s.gone {
		return ErrClosed
	}
	for _, p := range packets {
		if len(s.unsent) > 0 || !s.send(port, p) {
			s.unsent = append(s.unsent, outgoing{port, p})
		}
	}
	f.step()
	return nil
}

// send gives a packet to the network, false: there is no room for it now.
func (s *Seat) send(port int, p *link.Packet) bool {
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

// resume sends what was kept because a port had no room.
func (m *member) resume(f *Fabric) {
	for _, s := range m.seats {
		if s == nil || len(s.unsent) == 0 {
			continue
		}
		n := 0
		for n < len(s.unsent) && s.send(s.unsent[n].port, s.unsent[n].packet) {
			n++
		}
		s.unsent = slices.Delete(s.unsent, 0, n)
		if len(s.unsent) == 0 {
			s.roomy()
		}
	}
}

// roomy tells that what was kept has been sent.
func (s *Seat) roomy() {
	s.driver.Wake()
	if s.room != nil {
		close(s.room)
		s.room = nil
	}
}

// AwaitRoom waits until Alloc gives packets again, the seat is closed or done is.
func (s *Seat) AwaitRoom(done <-chan struct{}) error {
	s.f.mu.Lock()
	if s.gone || s.f.closed {
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

// Ready reports whether Receive has something. It takes no lock.
func (s *Seat) Ready() bool { return s.ready.Load() }

// Receive fills buf with what has come.
func (s *Seat) Receive(buf []Arrival) (int, error) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if s.f.closed || s.gone {
		return 0, ErrClosed
	}
	return s.receive(buf), nil
}

// receive is Receive with the lock held.
func (s *Seat) receive(buf []Arrival) (n int) {
	for ; n < len(buf) && s.queue.Len() > 0; n++ {
		buf[n] = *s.queue.Front()
		s.queue.PopFront()
	}
	s.ready.Store(s.queue.Len() > 0)
	s.patience = patience{}
	return n
}

// Take is Receive for a driver that may hold packets for long: their places in the ports' buffers are free at
// once. The packets are to be released all the same.
func (s *Seat) Take(buf []Arrival) (int, error) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || s.gone {
		return 0, ErrClosed
	}
	n := s.receive(buf)
	for _, a := range buf[:n] {
		f.net.Vacate(a.Packet)
	}
	if n > 0 {
		f.step()
	}
	return n, nil
}

// Release gives the places of received packets in their ports' buffers back.
func (s *Seat) Release(got []Arrival) {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range got {
		f.net.Release(a.Packet)
	}
	f.step()
}

// SetSM says whether a subnet manager runs at the seat. There is one at an adapter at most.
func (s *Seat) SetSM(on bool) error {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if on == s.sm {
		return nil
	}
	if b := s.f.manager; on && b != nil && b.at == s.m {
		return fmt.Errorf("the built-in subnet manager is at adapter %q: choose another adapter, or run the fabric without it", s.m.name)
	}
	for _, o := range s.m.seats {
		if on && o != nil && o.sm {
			return fmt.Errorf("a subnet manager runs at adapter %q already: end it, or choose another adapter", s.m.name)
		}
	}
	s.sm = on
	s.m.setSM(s.f, on)
	return nil
}

// wake tells the driver that the fabric is closed.
func (s *Seat) wake() { s.driver.Wake() }

func (s *Seat) changed(port int, events ...verbs.EventType) { s.driver.Changed(port, events...) }

// GUID returns the adapter's.
func (s *Seat) GUID() uint64 { return s.m.state.GUID }

// SendMAD sends a management datagram of 256 bytes.
func (s *Seat) SendMAD(port int, d link.Datagram, mad []byte) error {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || s.gone {
		return ErrClosed
	}
	p := f.net.NewMAD(d, mad)
	if !s.send(port, p) {
		f.net.Release(p)
		return ErrAgain
	}
	f.step()
	return nil
}
