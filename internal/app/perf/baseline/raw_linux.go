// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

var errSilent = fmt.Errorf("the other side was silent for %v", silence)

// rawSocket is a non-blocking socket outside Go's network poller.
type rawSocket struct{ fd int }

func openRaw(kind int, local netip.AddrPort) (rawSocket, netip.AddrPort, error) {
	family := unix.AF_INET
	if local.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return rawSocket{}, local, os.NewSyscallError("socket", err)
	}
	s := rawSocket{fd}
	if kind == unix.SOCK_DGRAM {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 8<<20) // the kernel may grant less
	}
	if err := unix.Bind(fd, sockaddr(local)); err != nil {
		s.close()
		return s, local, os.NewSyscallError("bind", err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		s.close()
		return s, local, os.NewSyscallError("getsockname", err)
	}
	switch sa := bound.(type) {
	case *unix.SockaddrInet4:
		return s, netip.AddrPortFrom(local.Addr(), uint16(sa.Port)), nil
	case *unix.SockaddrInet6:
		return s, netip.AddrPortFrom(local.Addr(), uint16(sa.Port)), nil
	}
	return s, local, nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func (s rawSocket) close() error { return unix.Close(s.fd) }

// address is a peer's address in the kernel's format.
type address struct {
	raw    unix.RawSockaddrInet6
	length uint32
}

func rawAddress(a netip.AddrPort) address {
	var raw address
	port := (*[2]byte)(unsafe.Pointer(&raw.raw.Port))
	port[0], port[1] = byte(a.Port()>>8), byte(a.Port())
	if a.Addr().Is4() {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(&raw.raw))
		v4.Family, v4.Addr = unix.AF_INET, a.Addr().As4()
		raw.length = unix.SizeofSockaddrInet4
		return raw
	}
	raw.raw.Family, raw.raw.Addr = unix.AF_INET6, a.Addr().As16()
	raw.length = unix.SizeofSockaddrInet6
	return raw
}

// sendTo sends one message; a nil address is for a connected socket.
func (s rawSocket) sendTo(b []byte, to *address) error {
	var sa, length uintptr
	if to != nil {
		sa, length = uintptr(unsafe.Pointer(&to.raw)), uintptr(to.length)
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, sa, length)
	if errno != 0 {
		return os.NewSyscallError("sendto", errno)
	}
	return nil
}

// receive polls until a message arrives. It checks the clock only now and then.
func (s rawSocket) receive(ctx context.Context, b []byte, from *address) (int, error) {
	var start time.Time
	for polls := 1; ; polls++ {
		var sa, length uintptr
		if from != nil {
			from.length = unix.SizeofSockaddrInet6
			sa, length = uintptr(unsafe.Pointer(&from.raw)), uintptr(unsafe.Pointer(&from.length))
		}
		n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT, sa, length)
		if errno == 0 {
			return int(n), nil
		}
		if errno != unix.EAGAIN && errno != unix.EINTR {
			return 0, os.NewSyscallError("recvfrom", errno)
		}
		if polls%4096 == 0 {
			if err := checkSilence(ctx, &start); err != nil {
				return 0, err
			}
		}
	}
}

// checkSilence reports as an error that a poller that has seen nothing since start should not go
// on. A zero start begins now.
func checkSilence(ctx context.Context, start *time.Time) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if start.IsZero() {
		*start = time.Now()
	} else if time.Since(*start) > silence {
		return errSilent
	}
	return nil
}

func (s *Server) listenRaw(local netip.AddrPort) error {
	kind := unix.SOCK_DGRAM
	if s.config.Kind == TCPPolled {
		kind = unix.SOCK_STREAM
	}
	raw, addr, err := openRaw(kind, local)
	if err != nil {
		return err
	}
	s.addr, s.close = addr, raw.close
	switch s.config.Kind {
	case UDPPolled:
		s.serve = func(ctx context.Context) error { return serveUDPPolled(ctx, raw, s.config.Size) }
	case UDPPackets:
		s.serve = func(ctx context.Context) error { return servePackets(ctx, raw, s.config.Size) }
	case UDPTrains:
		if err := unix.SetsockoptInt(raw.fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1); err != nil {
			raw.close()
			return os.NewSyscallError("setsockopt UDP_GRO", err)
		}
		s.serve = func(ctx context.Context) error { return serveTrains(ctx, raw) }
	case TCPPolled:
		if err := unix.Listen(raw.fd, 1); err != nil {
			raw.close()
			return os.NewSyscallError("listen", err)
		}
		s.serve = func(ctx context.Context) error { return serveTCPPolled(ctx, raw, s.config) }
	}
	return nil
}

func runRaw(ctx context.Context, c Config, local, remote netip.AddrPort) (Result, error) {
	kind := unix.SOCK_DGRAM
	if c.Kind == TCPPolled {
		kind = unix.SOCK_STREAM
	}
	raw, _, err := openRaw(kind, local)
	if err != nil {
		return Result{}, err
	}
	defer raw.close()
	switch c.Kind {
	case UDPPolled:
		return runUDPPolled(ctx, raw, c, remote)
	case UDPPackets:
		return runPackets(ctx, raw, c, remote)
	case UDPTrains:
		to := rawAddress(remote)
		return runTrains(ctx, raw, c, &to)
	}
	return runTCPPolled(ctx, raw, c, remote)
}

// serveUDPPolled waits for its first message without the limit of silence, because the client may
// start late.
func serveUDPPolled(ctx context.Context, raw rawSocket, size int) error {
	buffer, from := make([]byte, size), new(address)
	begun := false
	for {
		n, err := raw.receive(ctx, buffer, from)
		if err == errSilent && !begun {
			continue
		}
		if err != nil {
			return err
		}
		begun = true
		if err := raw.sendTo(buffer[:n], from); err != nil {
			return err
		}
		if buffer[0] == stop {
			return nil
		}
	}
}

func runUDPPolled(ctx context.Context, raw rawSocket, c Config, remote netip.AddrPort) (Result, error) {
	message, answer := make([]byte, c.Size), make([]byte, c.Size)
	to, from := rawAddress(remote), new(address)
	roundTrip := func() error {
		if err := raw.sendTo(message, &to); err != nil {
			return err
		}
		_, err := raw.receive(ctx, answer, from)
		return err
	}
	r, err := pingPong(ctx, c, roundTrip)
	if err != nil {
		return r, err
	}
	message[0] = stop
	return r, roundTrip()
}

// receiveFull polls a stream until b is full. It returns false at its end.
func (s rawSocket) receiveFull(ctx context.Context, b []byte) (bool, error) {
	for len(b) > 0 {
		n, err := s.receive(ctx, b, nil)
		if n == 0 || err != nil {
			return false, err
		}
		b = b[n:]
	}
	return true, nil
}

func prepareTCP(raw rawSocket, c Config) error {
	if err := unix.SetsockoptInt(raw.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return os.NewSyscallError("setsockopt TCP_NODELAY", err)
	}
	if c.Congestion == "" {
		return nil
	}
	return setCongestion(raw.fd, c.Congestion)
}

func serveTCPPolled(ctx context.Context, listener rawSocket, c Config) error {
	fd := -1
	for fd < 0 {
		var err error
		fd, _, err = unix.Accept4(listener.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			if err != unix.EAGAIN && err != unix.EINTR {
				return os.NewSyscallError("accept", err)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			time.Sleep(time.Millisecond)
		}
	}
	raw := rawSocket{fd}
	defer raw.close()
	if err := prepareTCP(raw, c); err != nil {
		return err
	}
	message := make([]byte, c.Size)
	for {
		more, err := raw.receiveFull(ctx, message)
		if err != nil || !more {
			return err
		}
		if err := raw.sendTo(message, nil); err != nil {
			return err
		}
	}
}

func runTCPPolled(ctx context.Context, raw rawSocket, c Config, remote netip.AddrPort) (Result, error) {
	if err := prepareTCP(raw, c); err != nil {
		return Result{}, err
	}
	// On a non-blocking socket connect completes later: ask until it has.
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		err := unix.Connect(raw.fd, sockaddr(remote))
		if err == nil || err == unix.EISCONN {
			break
		}
		if err != unix.EINPROGRESS && err != unix.EALREADY && err != unix.EINTR {
			return Result{}, os.NewSyscallError("connect", err)
		}
		if time.Since(start) > silence {
			return Result{}, errSilent
		}
	}
	message := make([]byte, c.Size)
	return pingPong(ctx, c, func() error {
		if err := raw.sendTo(message, nil); err != nil {
			return err
		}
		more, err := raw.receiveFull(ctx, message)
		if err == nil && !more {
			return unix.ECONNRESET
		}
		return err
	})
}
