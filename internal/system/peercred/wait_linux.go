// SPDX-License-Identifier: Apache-2.0

package peercred

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Wait connects to a Unix socket ("unix" or "unixpacket") whose backlog is full, by standing in line until there is
// room. Package net does not: its connect does not block, so the system answers EAGAIN, and a caller that tries again
// has no place in the line, which others keep full. The error is os.ErrDeadlineExceeded if ctx, which has to have a
// deadline, ends before.
func Wait(ctx context.Context, network, name string) (*net.UnixConn, error) {
	until, ok := ctx.Deadline()
	left := time.Until(until)
	if !ok || left <= 0 {
		return nil, os.ErrDeadlineExceeded
	}
	kind := unix.SOCK_STREAM
	if network == "unixpacket" {
		kind = unix.SOCK_SEQPACKET
	}
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), name)
	timeout := unix.NsecToTimeval(max(left, time.Millisecond).Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout); err != nil {
		f.Close()
		return nil, os.NewSyscallError("setsockopt", err)
	}
	connected := make(chan error, 1)
	go func() {
		err := unix.Connect(fd, &unix.SockaddrUnix{Name: name})
		for err == unix.EINTR && ctx.Err() == nil { // the runtime preempts by signals
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: name})
		}
		connected <- err
	}()
	select {
	case err = <-connected:
	case <-ctx.Done():
		go func() { // it ends with the time that it was given
			<-connected
			f.Close()
		}()
		return nil, os.ErrDeadlineExceeded
	}
	defer f.Close()
	switch err {
	case nil:
	case unix.EAGAIN:
		return nil, os.ErrDeadlineExceeded
	default:
		return nil, os.NewSyscallError("connect", err)
	}
	c, err := net.FileConn(f) // a copy, which does not block
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("%s is not a Unix socket", name)
	}
	return u, nil
}
