// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// unsent asks for the bytes of the first socket, which sends, in the queues below it.
func (s *batched) unsent() int {
	if s.closed.Load() {
		return 0
	}
	n := unsentBy((*s.ports.Load())[0].fd)
	runtime.KeepAlive(s)
	return n
}

func unsentBy(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

func (s *batched) send(t *Train) error {
	if t.count == 0 {
		return nil
	}
	if err := t.check(); err != nil {
		return err
	}
	if s.closed.Load() {
		return net.ErrClosed
	}
	err := s.sendTrain(t)
	if err != nil && s.closed.Load() {
		err = net.ErrClosed
	}
	runtime.KeepAlive(s) // its descriptors are in use until here
	return err
}

func (s *batched) sendTrain(t *Train) error {
	dest := t.to
	if s.dual && dest.Addr().Is4() {
		dest = netip.AddrPortFrom(netip.AddrFrom16(dest.Addr().As16()), dest.Port())
	}
	if dest.Addr().Is4() != s.local.Addr().Is4() {
		return errFamily
	}
	if t.to.Addr().IsMulticast() && !s.out.Load() {
		if err := s.multicastOut(); err != nil {
			return err
		}
	}
	var to rawAddr
	length, err := s.zones.put(&to, dest)
	if err != nil {
		return err
	}
	fd := (*s.ports.Load())[0].fd
	var control sendControl
	s.mark(&control, t, s.marks)
	if t.count > 1 && (!s.feats.GSO || s.noGSO.Load() || t.sent > 0) {
		return s.sendSingly(fd, &to, length, t, &control)
	}
	whole := control
	if t.count > 1 {
		whole.add(unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2, uint32(t.segment))
	}
	switch errno := sendPieces(fd, &to, length, t.pieces, &whole); {
	case errno == 0:
		return nil
	case t.count > 1 && errno == unix.EIO:
		// The network device has no checksum offload and never will.
		s.noGSO.Store(true)
		return s.sendSingly(fd, &to, length, t, &control)
	case t.count > 1 && errno == unix.EINVAL:
		// Some kernels report this for a segment longer than the MTU. Sent alone, it gets the
		// proper error.
		return s.sendSingly(fd, &to, length, t, &control)
	default:
		return s.sendError(fd, errno)
	}
}

// sendSingly sends the rest of the train, one datagram per call.
func (s *batched) sendSingly(fd int, to *rawAddr, length uint32, t *Train, control *sendControl) error {
	var cut []piece
	for t.sent < t.count {
		cut = t.cut(t.sent, cut[:0])
		if errno := sendPieces(fd, to, length, cut, control); errno != 0 {
			return s.sendError(fd, errno)
		}
		t.sent++
	}
	t.sent = 0
	return nil
}

// sendError converts the errno of a send on one of the sockets to an error. It records which socket
// to wait for.
func (s *batched) sendError(fd int, errno syscall.Errno) error {
	err := sendError(errno)
	if err == ErrAgain {
		s.full.Store(int32(fd))
	}
	return err
}

// sendPieces is one sendmsg or sendto, without an address on a connected socket. It bypasses the Go
// scheduler, which would let others run for a call of a few microseconds, and be slow to come back.
func sendPieces(fd int, to *rawAddr, length uint32, pieces []piece, control *sendControl) syscall.Errno {
	if control.used == 0 && len(pieces) == 1 {
		// The kernel is 0.1 µs faster without a header to read.
		_, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(pieces[0].base)),
			uintptr(pieces[0].len),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, uintptr(unsafe.Pointer(to)), uintptr(length))
		return errno
	}
	hdr := unix.Msghdr{
		Name:    (*byte)(unsafe.Pointer(to)),
		Namelen: length,
		Iov:     (*unix.Iovec)(unsafe.Pointer(unsafe.SliceData(pieces))),
	}
	hdr.SetIovlen(len(pieces))
	if control.used > 0 {
		hdr.Control = (*byte)(unsafe.Pointer(&control.memory))
		hdr.SetControllen(control.used)
	}
	_, _, errno := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&hdr)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	return errno
}

var (
	errTooLong     = os.NewSyscallError("netio: send: datagram longer than the path's MTU: sendmsg", unix.EMSGSIZE)
	errPermission  = os.NewSyscallError("netio: send: refused by this host's firewall: sendmsg", unix.EPERM)
	errRefused     = os.NewSyscallError("netio: send: sendmsg", unix.ECONNREFUSED)
	errNetUnreach  = os.NewSyscallError("netio: send: sendmsg", unix.ENETUNREACH)
	errHostUnreach = os.NewSyscallError("netio: send: sendmsg", unix.EHOSTUNREACH)
	errNetDown     = os.NewSyscallError("netio: send: sendmsg", unix.ENETDOWN)
	errInvalid     = os.NewSyscallError("netio: send: destination cannot be reached from the local address: sendmsg",
		unix.EINVAL)
)

// sendError converts an errno to an error. Errors that may occur with every packet do not allocate.
func sendError(errno syscall.Errno) error {
	switch errno {
	case unix.EAGAIN, unix.ENOBUFS, unix.EINTR:
		return ErrAgain
	case unix.EMSGSIZE:
		return errTooLong
	case unix.EPERM:
		return errPermission
	case unix.ECONNREFUSED:
		return errRefused
	case unix.ENETUNREACH:
		return errNetUnreach
	case unix.EHOSTUNREACH:
		return errHostUnreach
	case unix.ENETDOWN:
		return errNetDown
	case unix.EINVAL:
		return errInvalid
	}
	return os.NewSyscallError("netio: send: sendmsg", errno)
}
