// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

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
	if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name); err != nil {
		return fmt.Errorf("congestion control %q: %w: %w", name, errors.ErrUnsupported, err)
	}
	return nil
}
