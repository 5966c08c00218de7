// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// A group is several sockets that share an address, for several processes. A kernel program of six
// instructions gives each datagram to one of them, by the top bits of the number in bytes 5 to 7 of
// its payload. The sockets of a group are numbered in the order in which they were bound. That
// order does not change as long as all of them are open in some process.

// Group makes the socket the first of 1 << bits that share its address. It returns descriptors of
// all of them, including its own, which the caller owns. A datagram goes to the socket numbered by
// the top bits. The lowest numbers go to the socket itself, see [Steer].
func (s *Socket) Group(bits int) ([]int, error) {
	b, ok := s.impl.(*batched)
	if !ok {
		return nil, fmt.Errorf("netio: share %v: %w by a plain socket", s.local, errors.ErrUnsupported)
	}
	fds, err := b.group(bits)
	if err != nil {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return nil, fmt.Errorf("netio: share %v: %w", s.local, err)
	}
	return fds, nil
}

func (s *batched) group(bits int) (fds []int, err error) {
	s.changes.Lock()
	defer s.changes.Unlock()
	if s.closed.Load() {
		return nil, net.ErrClosed
	}
	own := (*s.ports.Load())[0].fd
	// It was bound alone, so no other socket can have come in between.
	if err := unix.SetsockoptInt(own, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return nil, os.NewSyscallError("setsockopt SO_REUSEPORT", err)
	}
	fd, err := unix.FcntlInt(uintptr(own), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
	}
	fds = append(fds, fd)
	o := s.ownBuffers()
	for len(fds) < 1<<bits {
		fd, err := s.open(s.local, o, unix.SO_REUSEPORT)
		if err != nil {
			return fds, err
		}
		fds = append(fds, fd)
		if len(fds) > 2 {
			continue
		}
		// The group exists now, and distributes by hash until it has its program.
		if err := Steer(fds[0], bits, 0); err != nil {
			return fds, err
		}
	}
	return fds, nil
}

// Steer makes the group of socket fd give each datagram to the socket numbered by the top bits of
// the 24-bit number in its bytes 5 to 7, and to socket low if that number is 0 or 1. The change is
// atomic: no datagram is lost.
func Steer(fd, bits, low int) error {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 4},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xffffff},
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: 2, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: uint32(low)},
		{Code: unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K, K: uint32(24 - bits)},
		{Code: unix.BPF_RET | bpfRetA},
	}
	err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	runtime.KeepAlive(program)
	return os.NewSyscallError("setsockopt SO_ATTACH_REUSEPORT_CBPF", err)
}

// bpfRetA is BPF_A of linux/filter.h: return the accumulator.
const bpfRetA = 0x10

// Adopt makes a Socket of a descriptor of a group, with address local. The caller still owns the
// descriptor. Datagrams that have arrived before are dropped: they were for another process.
func Adopt(fd int, local netip.AddrPort) (*Socket, error) {
	if _, err := deadFile(); err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("netio: adopt: fcntl F_DUPFD_CLOEXEC", err)
	}
	one := make([]byte, 1)
	for range 1 << 16 { // more than a buffer holds
		if _, _, err := unix.Recvfrom(own, one, unix.MSG_DONTWAIT|unix.MSG_TRUNC); err != nil && err != unix.EINTR {
			break
		}
	}
	s := &batched{files: &descriptors{}}
	if err := s.start(own, local.Addr()); err != nil {
		unix.Close(own)
		return nil, fmt.Errorf("netio: adopt a socket of %v: %w", local, err)
	}
	return &Socket{local: s.local, impl: s}, nil
}
