// SPDX-License-Identifier: Apache-2.0

package linkwatch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/forkmark"
)

// neighbors are the Ethernet addresses of the hosts on an interface's link, from the kernel's table.
// The kernel resolves an address when it has a datagram for it: an empty one to the discard port (RFC
// 863), which it does not route.
type neighbors struct {
	name        string
	resolveTime time.Duration // the constant, or less in a test
	socks       [2]int        // that send the datagrams: IPv4 and IPv6; -1: none
	gen         atomic.Uint64 // grows with each change

	nmu   sync.Mutex
	known map[netip.Addr]*neighbor
	done  bool
}

// neighbor is the record of one host.
type neighbor struct {
	mac      MAC
	known    bool          // mac is
	kernel   bool          // the kernel says so
	asked    time.Time     // when the kernel was last made to resolve it
	resolved chan struct{} // closed when mac is known; nil: no goroutine waits
}

const (
	// maxNeighbors limits the memory for a link's hosts, also for hosts that do not exist.
	maxNeighbors = 4096
	// resolveInterval is how long the kernel is left alone with an address: it asks once a second.
	resolveInterval = time.Second
	// resolveTime is how long the kernel asks before it gives a host up, and a little.
	resolveTime = 4 * time.Second
	discardPort = 9
)

// ErrNoNeighbor says that a host is not on the link, or does not answer.
var ErrNoNeighbor = errors.New("no such host on the link")

// init makes the sockets. A system without one of the protocols has no hosts of it.
func (n *neighbors) init(name string) error {
	n.name, n.resolveTime = name, resolveTime
	n.socks = [2]int{-1, -1}
	var errs [2]error
	for i, family := range []int{unix.AF_INET, unix.AF_INET6} {
		n.socks[i], errs[i] = newResolver(family, name)
	}
	if errs[0] != nil && errs[1] != nil {
		return fmt.Errorf("a socket of %s to resolve addresses with: %w", name, errs[0])
	}
	return nil
}

// newResolver makes a socket whose datagrams go to hosts on one link.
func newResolver(family int, name string) (fd int, err error) {
	fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	forkmark.Set(fd)
	if err = unix.BindToDevice(fd, name); err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DONTROUTE, 1)
	}
	if err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("setsockopt", err)
	}
	return fd, nil
}

// Generation grows with each change of a neighbor: as long as it is the same, so are the results of
// Neighbor.
func (n *neighbors) Generation() uint64 { return n.gen.Load() }

// Neighbor returns the Ethernet address of a host, an address without a zone. If it is not known, the
// kernel is made to find it out; Neighbor does not wait for that.
func (n *neighbors) Neighbor(addr netip.Addr) (MAC, bool) {
	n.nmu.Lock()
	defer n.nmu.Unlock()
	h := n.look(addr)
	return h.mac, h.known
}

// AwaitNeighbor returns the Ethernet address of a host, and waits until the kernel has it, ctx ends, or
// the kernel would have given up. The error names the host.
func (n *neighbors) AwaitNeighbor(ctx context.Context, addr netip.Addr) (MAC, error) {
	limit := time.NewTimer(n.resolveTime)
	defer limit.Stop()
	for {
		n.nmu.Lock()
		h := n.look(addr)
		mac, known, done := h.mac, h.known, n.done
		if h.resolved == nil {
			h.resolved = make(chan struct{})
		}
		resolved := h.resolved
		n.nmu.Unlock()
		switch {
		case known:
			return mac, nil
		case done:
			return MAC{}, os.ErrClosed
		}
		tick := time.NewTimer(resolveInterval)
		select {
		case <-resolved:
		case <-tick.C:
		case <-limit.C:
			tick.Stop()
			return MAC{}, fmt.Errorf("%w of %s: %v does not answer", ErrNoNeighbor, n.name, addr)
		case <-ctx.Done():
			tick.Stop()
			return MAC{}, ctx.Err()
		}
		tick.Stop()
	}
}

// Hint notes the address in a frame from a host. The kernel's reports take precedence.
func (n *neighbors) Hint(addr netip.Addr, mac MAC) { n.learn(addr, mac, false) }

// learn notes the Ethernet address of a host.
func (n *neighbors) learn(addr netip.Addr, mac MAC, kernel bool) {
	n.nmu.Lock()
	defer n.nmu.Unlock()
	h := n.at(addr)
	if h.kernel && !kernel {
		return
	}
	if !h.known || h.mac != mac {
		n.gen.Add(1)
	}
	h.mac, h.known, h.kernel = mac, true, kernel
	h.notify()
}

// notify wakes the goroutines that wait for h.
func (h *neighbor) notify() {
	if h.resolved != nil {
		close(h.resolved)
		h.resolved = nil
	}
}

// at returns the entry of a host; nmu is held. If there is no room, another one is forgotten: it is
// resolved again if it is needed.
func (n *neighbors) at(addr netip.Addr) *neighbor {
	h := n.known[addr]
	if h != nil {
		return h
	}
	if len(n.known) >= maxNeighbors {
		for a, old := range n.known {
			old.notify()
			delete(n.known, a)
			break
		}
	}
	if n.known == nil {
		n.known = make(map[netip.Addr]*neighbor)
	}
	h = &neighbor{}
	n.known[addr] = h
	return h
}

// look is at, and makes the kernel resolve an address that is not known.
func (n *neighbors) look(addr netip.Addr) *neighbor {
	h := n.at(addr)
	if now := time.Now(); !h.known && !n.done && now.Sub(h.asked) >= resolveInterval {
		h.asked = now
		n.ask(addr)
	}
	return h
}

// ask makes the kernel resolve an address, unless the kernel cannot send the datagram.
func (n *neighbors) ask(addr netip.Addr) {
	if addr.Is4() {
		if n.socks[0] >= 0 {
			_ = unix.Sendto(n.socks[0], nil, unix.MSG_DONTWAIT,
				&unix.SockaddrInet4{Port: discardPort, Addr: addr.As4()})
		}
		return
	}
	if n.socks[1] >= 0 { // the socket's interface is the zone of a link-local address
		_ = unix.Sendto(n.socks[1], nil, unix.MSG_DONTWAIT, &unix.SockaddrInet6{Port: discardPort, Addr: addr.As16()})
	}
}

func (n *neighbors) close() {
	n.nmu.Lock()
	defer n.nmu.Unlock()
	if n.done {
		return
	}
	n.done = true
	for _, h := range n.known {
		h.notify()
	}
	for _, fd := range n.socks {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
