// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/system/shmem"
)

// A multicast group has doors for the devices that have members of it, and watches for those that send to it. All are
// sockets by the names of the group's address and a number, so that both sides find each other by trying the numbers,
// and the system forgets them with their process. Who opens a door then knocks at all watches. Who sends to the group
// opens a watch first, and then looks for doors. So either finds the other: nobody has to keep a list.

// atWatches is the number before those of the watches.
const atWatches = softdev.MaxGroupListeners

// ListenGroup opens a door of a group.
func (n *network) ListenGroup(group netip.Addr, backlog int) (softdev.Acceptor, error) {
	acc, err := anyOf(0, func(number uint16) (softdev.Acceptor, error) {
		return n.Listen(netip.AddrPortFrom(group, number), backlog)
	})
	if err != nil {
		return nil, err
	}
	for i := range softdev.MaxGroupListeners {
		if sock, err := n.place.Visit(groupName(group, atWatches+1+i)); err == nil { // else nobody is there, or others wait to be seen
			sock.Close()
		}
	}
	return acc, nil
}

func groupName(group netip.Addr, number int) string {
	return netip.AddrPortFrom(group, uint16(number)).String()
}

// anyOf opens what has the first number that is free, of those after another.
func anyOf[T any](after int, open func(number uint16) (T, error)) (v T, err error) {
	for i := range softdev.MaxGroupListeners {
		if v, err = open(uint16(after + 1 + i)); !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	return v, err
}

// groupWatch tells of the doors of a group.
type groupWatch struct {
	net  *network
	door *shmem.Door // where those who open one knock; nil: there was none left
}

// WatchGroup opens a watch. Without one, everybody else has them, doors are looked for each time.
func (n *network) WatchGroup(group netip.Addr) (softdev.GroupWatch, error) {
	door, err := anyOf(atWatches, func(number uint16) (*shmem.Door, error) {
		return n.place.Open(groupName(group, int(number)), softdev.MaxGroupListeners)
	})
	if err != nil && !errors.Is(err, unix.EADDRINUSE) {
		return nil, err
	}
	w := &groupWatch{net: n, door: door}
	n.watches[w] = struct{}{}
	return w, nil
}

// Changed reports whether somebody has knocked.
func (w *groupWatch) Changed() bool {
	if w.door == nil {
		return true
	}
	knocked := false
	for range 2 * softdev.MaxGroupListeners {
		sock, err := w.door.Accept()
		switch {
		case err == nil:
			sock.Close()
			knocked = true
		case errors.Is(err, unix.EAGAIN):
			return knocked
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
	if w.door == nil {
		return nil
	}
	return w.door.Close()
}
