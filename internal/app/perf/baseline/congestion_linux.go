// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// PermitsCongestion reports whether this process may use the named TCP congestion control. If not,
// the error says why and wraps [errors.ErrUnsupported]: the system does not have it, or permits it
// to root alone.
func PermitsCongestion(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return setCongestion(fd, name)
}

// congestionControl sets TCP_CONGESTION on a socket before it is used.
func congestionControl(name string) func(network, address string, c syscall.RawConn) error {
	if name == "" {
		return nil
	}
	return func(_, _ string, c syscall.RawConn) error {
		var failure error
		if err := c.Control(func(fd uintptr) { failure = setCongestion(int(fd), name) }); err != nil {
			return err
		}
		return failure
	}
}

func setCongestion(fd int, name string) error {
	err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	switch {
	case err == unix.EPERM:
		return fmt.Errorf("congestion control %q: %w for users other than root (net.ipv4.tcp_allowed_congestion_control): %w", name, errors.ErrUnsupported, err)
	case err != nil:
		return fmt.Errorf("congestion control %q: %w: %w", name, errors.ErrUnsupported, err)
	}
	return nil
}
