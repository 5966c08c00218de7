// SPDX-License-Identifier: Apache-2.0

package portshare

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
)

// Config has the address and the functions of a member. The functions may be called from any goroutine
// until Close returns.
type Config struct {
	// Name is the address, as text.
	Name string
	// Group creates the sockets of the address, one for each slot, of which the first is the
	// founder's own. It is called once, when a second member comes. The member owns the
	// descriptors.
	Group func() ([]int, error)
	// Steer directs datagrams for no process in particular to a slot. socket is a descriptor of the
	// group.
	Steer func(socket, slot int) error
	// Adopt gets the socket of the slot of a joining member. The member still owns the descriptor.
	// It is called before all others; Join may fail after it.
	Adopt func(socket int) error
	// Receive gets a datagram that another member forwarded to this one.
	Receive func(msg []byte)

	impatient bool // a test: Join gives up members that run as soon as those that are stopped
}

// Member is a process's membership in an address.
type Member struct {
	Config
	slot int

	common atomic.Pointer[sharedResources] // nil: alone so far
	serves [256]atomic.Bool                // by management class: has an agent for it; changed under mu

	mu      sync.Mutex
	claims  map[uint64]uint64 // masks by service id
	control *net.UnixListener
	number  uint64                     // the control socket's
	conns   map[*net.UnixConn]struct{} // at its control socket, and at the leader's
	inbox   *os.File
	closed  bool
	quit    chan struct{} // closed with it
	done    sync.WaitGroup
}

func newMember(c Config) *Member {
	return &Member{Config: c, claims: make(map[uint64]uint64), conns: make(map[*net.UnixConn]struct{}),
		quit: make(chan struct{})}
}

// Create makes the process that has just bound the address its first member, in slot 0.
func Create(c Config) (m *Member, err error) {
	m = newMember(c)
	if m.control, m.number, err = listenControl(m.Name); err != nil {
		return nil, err
	}
	m.done.Add(1)
	go m.serve(m.control)
	return m, nil
}

// Join makes the process a member of an address that others have bound.
func Join(c Config) (*Member, error) {
	wait := patience
	if c.impatient {
		wait = handshake
	}
	fds, err := ask(c.Name, wait)
	if err != nil {
		return nil, err
	}
	shared, err := receivedResources(fds)
	if err != nil {
		return nil, err
	}
	return join(c, shared)
}

// Join makes the process a member once more, in a slot of its own. Both members have the descriptors of m.
func (m *Member) Join(c Config) (*Member, error) {
	shared, err := m.resources()
	if err != nil {
		return nil, err
	}
	return join(c, shared)
}

// resources returns the shared objects for one more member of this process.
func (m *Member) resources() (*sharedResources, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, net.ErrClosed
	}
	shared, err := m.createShared()
	if err != nil {
		return nil, err
	}
	return shared.again()
}

// join makes a member of shared, which it closes if that fails.
func join(c Config, shared *sharedResources) (*Member, error) {
	m := newMember(c)
	if err := m.enter(shared); err != nil {
		if m.control != nil {
			m.control.Close()
		}
		shared.close()
		return nil, err
	}
	return m, nil
}

// enter makes the member one of the members that share c.
func (m *Member) enter(c *sharedResources) (err error) {
	if m.slot, err = c.board.takeSlot(); err != nil {
		return err
	}
	if err := m.Adopt(c.fds[m.slot]); err != nil {
		return err
	}
	if m.control, m.number, err = listenControl(m.Name); err != nil {
		return err
	}
	if err := m.share(c); err != nil {
		return err
	}
	m.done.Add(1)
	go m.serve(m.control) // not before: a lone process creates the shared objects
	return nil
}

// Slot returns the number of the process, which does not change.
func (m *Member) Slot() int { return m.slot }

// Shared reports whether there are or were other members.
func (m *Member) Shared() bool { return m.common.Load() != nil }

// IsActive reports whether a process has a slot.
func (m *Member) IsActive(slot int) bool {
	c := m.common.Load()
	return slot == m.slot || c != nil && c.board.taken(slot)
}

// Forward passes a message to the process in a slot. It returns false if that takes no more now.
func (m *Member) Forward(slot int, msg []byte) bool {
	c := m.common.Load()
	return c != nil && c.forward(slot, msg)
}

// Owner returns the slot of the process that has claimed a service id.
func (m *Member) Owner(service uint64) (slot int, ok bool) {
	c := m.common.Load()
	if c == nil {
		return m.slot, true
	}
	return c.board.owner(service)
}

// Serve records whether the process has an agent for a management class.
func (m *Member) Serve(class uint8, yes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.serves[class].Store(yes)
	if c := m.common.Load(); c != nil && !m.closed {
		c.board.serves(class, m.slot, yes)
	}
}

// Server returns the slot of a process that has an agent for a management class: this one's if it
// has one, or if no process has.
func (m *Member) Server(class uint8) int {
	if c := m.common.Load(); c != nil && !m.serves[class].Load() {
		if slot, ok := c.board.server(class); ok {
			return slot
		}
	}
	return m.slot
}

// Claim claims the service ids that equal service in the bits of mask for the process.
func (m *Member) Claim(service, mask uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.common.Load(); c != nil {
		if err := c.board.claim(claim{service, mask, m.slot}); err != nil {
			return err
		}
	}
	m.claims[service] = mask
	return nil
}

// Claimed reports whether an error of Claim means that another process has one of the service ids.
func Claimed(err error) bool { return errors.Is(err, errClaimed) }

// Release undoes Claim.
func (m *Member) Release(service, mask uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.claims, service)
	if c := m.common.Load(); c != nil {
		return c.board.keepClaims(func(o claim) bool { return o != claim{service, mask, m.slot} })
	}
	return nil
}

// share makes the member use the shared objects. mu is held, or no other goroutine has m yet.
func (m *Member) share(c *sharedResources) (err error) {
	if m.inbox, err = c.inbox(m.slot); err != nil {
		return err
	}
	if err = c.board.setControlNumber(m.slot, m.number); err != nil {
		m.inbox.Close()
		return err
	}
	m.common.Store(c)
	m.done.Add(2)
	go m.receive(m.inbox)
	go m.watch(c)
	return nil
}

// receive passes on datagrams that other members forward.
func (m *Member) receive(inbox *os.File) {
	defer m.done.Done()
	for buf := make([]byte, 1<<17); ; {
		n, err := inbox.Read(buf)
		if err != nil {
			return
		}
		m.Receive(buf[:n])
	}
}

// createShared creates the shared objects, for the first newcomer. mu is held.
func (m *Member) createShared() (*sharedResources, error) {
	if c := m.common.Load(); c != nil {
		return c, nil
	}
	sockets, err := m.Group()
	if err != nil {
		return nil, err
	}
	c, err := newSharedResources(sockets)
	if err != nil {
		return nil, err
	}
	slot, err := c.board.takeSlot()
	for service, mask := range m.claims {
		if err == nil {
			err = c.board.claim(claim{service, mask, slot})
		}
	}
	for class := range m.serves {
		if m.serves[class].Load() {
			c.board.serves(uint8(class), slot, true)
		}
	}
	if err == nil {
		err = m.share(c)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("sharing %s: %w", m.Name, err)
	}
	return c, nil
}

// Close leaves the address. Descriptors of other members stay open.
func (m *Member) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	close(m.quit)
	c := m.common.Load()
	if c != nil {
		m.inbox.Close()
		// otherwise the next owner of the slot does it
		_ = c.board.keepClaims(func(o claim) bool { return o.slot != m.slot })
		m.handOver(c)
	}
	m.control.Close()
	for conn := range m.conns {
		conn.Close()
	}
	m.mu.Unlock()
	m.done.Wait()
	if c != nil {
		c.close()
	}
	return nil
}
