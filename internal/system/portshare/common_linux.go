// SPDX-License-Identifier: Apache-2.0

package portshare

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/forkmark"
)

const (
	// Bits is how many top bits of a queue pair number are a slot.
	Bits = 4
	// Slots is how many processes can share an address.
	Slots = 1 << Bits

	descriptors = 3*Slots + 1 // of sharedResources
)

// boxSize is the buffer size to request for a box, in bytes including the system's overhead.
const boxSize = 4 << 20

// sharedResources are the objects that all members of an address share, as one member has them.
type sharedResources struct {
	fds   []int         // sockets, boxes to read, boxes to write, board
	users *atomic.Int32 // members of this process that have fds
	board *board        // the member's own, for its locks
}

// receivedResources takes over the descriptors that another process gave.
func receivedResources(fds []int) (*sharedResources, error) {
	c := &sharedResources{fds: fds, users: new(atomic.Int32)}
	c.users.Add(1)
	return c, c.open()
}

// again returns the resources for one more member of this process. c is not closed meanwhile.
func (c *sharedResources) again() (*sharedResources, error) {
	other := &sharedResources{fds: c.fds, users: c.users}
	other.users.Add(1)
	return other, other.open()
}

// newSharedResources creates the boxes and the board for sockets, which it takes over.
func newSharedResources(sockets []int) (*sharedResources, error) {
	c := &sharedResources{fds: make([]int, 3*Slots, descriptors), users: new(atomic.Int32)}
	c.users.Add(1)
	for i := range c.fds {
		c.fds[i] = -1
	}
	copy(c.fds, sockets)
	for slot := range Slots {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			c.close()
			return nil, os.NewSyscallError("socketpair", err)
		}
		forkmark.Set(pair[0])
		forkmark.Set(pair[1])
		_ = unix.SetsockoptInt(pair[1], unix.SOL_SOCKET, unix.SO_SNDBUF, boxSize) // may give less
		c.fds[Slots+slot], c.fds[2*Slots+slot] = pair[0], pair[1]
	}
	fd, err := newBoard()
	if err != nil {
		c.close()
		return nil, err
	}
	c.fds = append(c.fds, fd)
	return c, c.open()
}

// open opens the board for this process.
func (c *sharedResources) open() (err error) {
	if c.board, err = openBoard(c.fds[3*Slots]); err != nil {
		c.close()
	}
	return err
}

// close closes the board, and with the last member of this process the descriptors.
func (c *sharedResources) close() {
	if c.board != nil {
		c.board.close()
	}
	if c.users.Add(-1) > 0 {
		return
	}
	for _, fd := range c.fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// inbox returns the box of a slot, emptied of messages for another process.
func (c *sharedResources) inbox(slot int) (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(c.fds[Slots+slot]), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
	}
	for one := make([]byte, 1); ; {
		if _, err := unix.Read(fd, one); err != nil && err != unix.EINTR {
			break
		}
	}
	return os.NewFile(uintptr(fd), "inbox"), nil
}

// forward puts a message into the box of a slot. It returns false if the box is full.
func (c *sharedResources) forward(slot int, msg []byte) bool {
	_, err := unix.Write(c.fds[2*Slots+slot], msg)
	return err == nil
}
