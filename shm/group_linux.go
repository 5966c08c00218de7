// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/core/memorydev"
	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
)

// A multicast group has a listener for each device with members of it, and a watch for each that sends to it. All are
// sockets by the names of the group's address and a number, so that both sides find each other by trying the numbers,
// and the system forgets them with their process. A new listener connects to all watches. A new sender opens its watch
// first, and then looks for listeners. So each finds the other, and nobody has to keep a list.

// atWatches is the number before the numbers of the watches.
const atWatches = memorydev.MaxGroupListeners

// ListenGroup opens a listener of a group.
func (n *network) ListenGroup(group netip.Addr, backlog int) (streamdev.Acceptor, error) {
	acc, err := anyOf(0, func(number uint16) (streamdev.Acceptor, error) {
		return n.Listen(netip.AddrPortFrom(group, number), backlog)
	})
	if err != nil {
		return nil, err
	}
	for i := range memorydev.MaxGroupListeners {
		// else nobody is there, or others wait to be seen
		if sock, err := n.place.Connect(groupName(group, atWatches+1+i)); err == nil {
			sock.Close()
		}
	}
	return acc, nil
}

func groupName(group netip.Addr, number int) string {
	return netip.AddrPortFrom(group, uint16(number)).String()
}

// anyOf opens a listener with the first free number after a given one.
func anyOf[T any](after int, open func(number uint16) (T, error)) (v T, err error) {
	for i := range memorydev.MaxGroupListeners {
		if v, err = open(uint16(after + 1 + i)); !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	return v, err
}

// groupWatch reports new listeners of a group.
type groupWatch struct {
	net      *network
	listener *shmem.Listener // new listeners of the group connect to it; nil: no name was left
}

// WatchGroup opens a watch. If others have all names, listeners are looked for each time.
func (n *network) WatchGroup(group netip.Addr) (memorydev.GroupWatch, error) {
	listener, err := anyOf(atWatches, func(number uint16) (*shmem.Listener, error) {
		return n.place.Listen(groupName(group, int(number)), memorydev.MaxGroupListeners)
	})
	if err != nil && !errors.Is(err, unix.EADDRINUSE) {
		return nil, err
	}
	w := &groupWatch{net: n, listener: listener}
	n.watches[w] = struct{}{}
	return w, nil
}

// Changed reports whether there has been a new listener.
func (w *groupWatch) Changed() bool {
	if w.listener == nil {
		return true
	}
	changed := false
	for range 2 * memorydev.MaxGroupListeners {
		sock, err := w.listener.Accept()
		switch {
		case err == nil:
			sock.Close()
			changed = true
		case errors.Is(err, unix.EAGAIN):
			return changed
		}
	}
	return true // there are more, or the system has no room to let them in
}

// Close closes the watch.
func (w *groupWatch) Close() error {
	if w.net.closed.Load() {
		return nil
	}
	return w.release()
}

func (w *groupWatch) release() error {
	delete(w.net.watches, w)
	if w.listener == nil {
		return nil
	}
	return w.listener.Close()
}
