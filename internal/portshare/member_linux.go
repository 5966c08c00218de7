// SPDX-License-Identifier: Apache-2.0

package portshare

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Config says what a member shares. The functions may be called from any goroutine until
// Close returns.
type Config struct {
	// Name is the address, as text.
	Name string
	// Group makes the sockets of the address, one for each slot, of which the first is
	// the founder's own. It is called once, when a second member comes. The descriptors
	// become the member's.
	Group func() ([]int, error)
	// Steer makes what is for nobody in particular go to a slot; socket is a descriptor of
	// the group.
	Steer func(socket, slot int) error
	// Adopt gets the socket of the slot of a member that joins, a descriptor that stays the
	// member's. It is called before all others.
	Adopt func(socket int) error
	// Receive takes what another member forwarded to this one.
	Receive func(msg []byte)
}

// Member is a process's part in an address.
type Member struct {
	Config
	slot int

	common  atomic.Pointer[common] // nil: alone so far
	manages atomic.Bool            // has a connection manager; changed under mu

	mu     sync.Mutex
	claims map[uint64]uint64 // masks by service id
	door   *net.UnixListener // the leader's
	conns  map[*net.UnixConn]struct{}
	inbox  *os.File
	closed bool
	quit   chan struct{} // closed with it
	done   sync.WaitGroup
}

func newMember(c Config) *Member {
	return &Member{Config: c, claims: make(map[uint64]uint64), conns: make(map[*net.UnixConn]struct{}), quit: make(chan struct{})}
}

// Found makes the process that has just bound the address its first member, in slot 0.
// An error that wraps EADDRINUSE says that the door is not free, or not yet.
func Found(c Config) (*Member, error) {
	m := newMember(c)
	door, err := openDoor(c.Name)
	if err != nil {
		return nil, err
	}
	m.lead(door)
	return m, nil
}

// Join makes the process a member of an address that others have bound.
func Join(c Config) (*Member, error) {
	conn, err := knock(c.Name, toJoin)
	if err != nil {
		return nil, err
	}
	fds, err := receive(conn, descriptors)
	if err != nil {
		conn.Close()
		return nil, err
	}
	m := newMember(c)
	shared := &common{fds: fds}
	if err := shared.open(); err != nil {
		conn.Close()
		return nil, err
	}
	if m.slot, err = shared.board.take(); err == nil {
		err = c.Adopt(fds[m.slot])
	}
	if err == nil {
		err = m.share(shared)
	}
	if err != nil {
		conn.Close()
		shared.close()
		return nil, err
	}
	m.conns[conn] = struct{}{}
	m.done.Add(1)
	go m.follow(conn)
	return m, nil
}

// Slot returns the number of the process, which does not change.
func (m *Member) Slot() int { return m.slot }

// Shared says whether there have been others.
func (m *Member) Shared() bool { return m.common.Load() != nil }

// Lives says whether a process has a slot.
func (m *Member) Lives(slot int) bool {
	c := m.common.Load()
	return slot == m.slot || c != nil && c.board.taken(slot)
}

// Forward passes a message to the process in a slot; false: it takes no more now.
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

// Manage notes whether the process has a connection manager.
func (m *Member) Manage(yes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.manages.Store(yes)
	if c := m.common.Load(); c != nil && !m.closed {
		c.board.manages(m.slot, yes)
	}
}

// Manager returns the slot of a process that has a connection manager: this one's if it
// has one, or if nobody has.
func (m *Member) Manager() int {
	if c := m.common.Load(); c != nil && !m.manages.Load() {
		if slot, ok := c.board.manager(); ok {
			return slot
		}
	}
	return m.slot
}

// Claim claims service ids for the process: those that equal service in the bits of mask.
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

// Claimed says whether an error of Claim means that another has one of the service ids.
func Claimed(err error) bool { return errors.Is(err, errClaimed) }

// Release undoes Claim.
func (m *Member) Release(service, mask uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.claims, service)
	if c := m.common.Load(); c != nil {
		return c.board.keep(func(o claim) bool { return o != claim{service, mask, m.slot} })
	}
	return nil
}

// share makes the member use what it has in common with others. mu is held, or nobody
// knows m yet.
func (m *Member) share(c *common) (err error) {
	if m.inbox, err = c.inbox(m.slot); err != nil {
		return err
	}
	m.common.Store(c)
	m.done.Add(1)
	go m.receive(m.inbox)
	return nil
}

// receive passes on what others forward.
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

// grow makes what is to be shared, for the first who comes. mu is held.
func (m *Member) grow() (*common, error) {
	if c := m.common.Load(); c != nil {
		return c, nil
	}
	sockets, err := m.Group()
	if err != nil {
		return nil, err
	}
	c, err := newCommon(sockets)
	if err != nil {
		return nil, err
	}
	slot, err := c.board.take()
	for service, mask := range m.claims {
		if err == nil {
			err = c.board.claim(claim{service, mask, slot})
		}
	}
	c.board.manages(slot, m.manages.Load())
	if err == nil {
		err = m.share(c)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("sharing %s: %w", m.Name, err)
	}
	return c, nil
}

// lead makes the member the leader, which has opened the door.
func (m *Member) lead(door *net.UnixListener) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		door.Close()
		return
	}
	if c := m.common.Load(); c != nil {
		_ = m.Steer(c.fds[m.slot], m.slot) // fails for lack of kernel memory only
	}
	m.door = door
	m.done.Add(1)
	go m.serve(door)
}

// serve answers at the door.
func (m *Member) serve(door *net.UnixListener) {
	defer m.done.Done()
	for {
		c, err := door.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files
			select {
			case <-m.quit:
				return
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		m.mu.Lock()
		if m.closed {
			m.mu.Unlock()
			c.Close()
			return
		}
		m.conns[c] = struct{}{}
		m.done.Add(1)
		m.mu.Unlock()
		go m.host(c)
	}
}

// host serves one member until it is gone.
func (m *Member) host(c *net.UnixConn) {
	defer m.done.Done()
	defer m.forget(c)
	want, ok := answer(c)
	if !ok || want == toJoin && m.admit(c) != nil {
		return
	}
	c.SetDeadline(time.Time{})
	c.Read(make([]byte, 1))
}

func (m *Member) admit(conn *net.UnixConn) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return net.ErrClosed
	}
	c, err := m.grow()
	if err != nil {
		return err
	}
	return give(conn, c.fds)
}

func (m *Member) forget(c *net.UnixConn) {
	m.mu.Lock()
	delete(m.conns, c)
	m.mu.Unlock()
	c.Close()
}

// follow waits for the end of leaders, until this member becomes the leader.
func (m *Member) follow(c *net.UnixConn) {
	defer m.done.Done()
	for c != nil {
		c.SetDeadline(time.Time{})
		c.Read(make([]byte, 1))
		m.forget(c)
		c = m.succeed()
	}
}

// succeed opens the door anew, or finds the one who has; nil: this member leads, or is
// closed.
func (m *Member) succeed() *net.UnixConn {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		m.mu.Lock()
		closed := m.closed
		m.mu.Unlock()
		if closed {
			return nil
		}
		if door, err := openDoor(m.Name); err == nil {
			m.lead(door)
			return nil
		}
		if c, err := knock(m.Name, toFollow); err == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.closed {
				c.Close()
				return nil
			}
			m.conns[c] = struct{}{}
			return c
		}
		select {
		case <-m.quit:
			return nil
		case <-time.After(pause):
		}
	}
}

// Close leaves the address. Descriptors that others have stay open there.
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
		_ = c.board.keep(func(o claim) bool { return o.slot != m.slot }) // else whoever takes the slot does it
		if m.door != nil {
			m.handOver(c)
		}
	}
	if m.door != nil {
		m.door.Close()
	}
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

// handOver makes what is for nobody in particular go to another member until the next
// leader takes it.
func (m *Member) handOver(c *common) {
	for slot := range Slots {
		if slot != m.slot && c.board.taken(slot) {
			_ = m.Steer(c.fds[slot], slot)
			return
		}
	}
}
