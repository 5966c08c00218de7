// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Chime wakes a process that sleeps. It is one end of a pair of datagram sockets, which goes to all peers
// of the process, who send to the other end.
//
// An eventfd would do the same for less. But whoever has one can clear its O_NONBLOCK and fill it, and
// then a write to it blocks. A socket has MSG_DONTWAIT for each datagram.
type Chime struct {
	fd     int // 0: there is none
	cookie uint64
}

// NewChime makes a chime, and the descriptor that can be read when it was struck. What is read has no
// meaning.
func NewChime() (c Chime, heard int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return Chime{}, -1, os.NewSyscallError("socketpair", err)
	}
	if c, err = TakeChime(pair[1]); err != nil {
		unix.Close(pair[0])
		return Chime{}, -1, err
	}
	return c, pair[0], nil
}

// TakeChime takes over the descriptor of a peer's chime; also if it fails.
func TakeChime(fd int) (Chime, error) {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	kind, err2 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	cookie, err3 := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err = errors.Join(err, err2, err3); err == nil && (domain != unix.AF_UNIX || kind != unix.SOCK_DGRAM) {
		err = errors.New("it is no local datagram socket")
	}
	if err != nil {
		unix.Close(fd)
		return Chime{}, err
	}
	return Chime{fd, cookie}, nil
}

// FD returns the descriptor that peers take over.
func (c Chime) FD() int { return c.fd }

// Cookie returns the number of the socket, which no other has in the life of the system.
func (c Chime) Cookie() uint64 { return c.cookie }

// Strike wakes the process. It does not block, whatever peers have done to the socket.
func (c Chime) Strike() {
	b := byte(1)
	// It fails if as much as fits is there, or the process has ended.
	unix.Syscall6(unix.SYS_SENDTO, uintptr(c.fd), uintptr(unsafe.Pointer(&b)), 1, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
}

// Close closes the descriptor.
func (c Chime) Close() {
	if c.fd > 0 {
		unix.Close(c.fd)
	}
}
