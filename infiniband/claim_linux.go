// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// claim takes a name for as long as the result is open, or the process lives, unless another process of the network
// namespace has it. A process that takes names that others want makes them take the next ones.
func claim(name string) (io.Closer, error) {
	return net.ListenUnix("unix", claimAddr(name))
}

// claimed reports whether a process has taken a name.
func claimed(name string) bool {
	c, err := net.DialUnix("unix", nil, claimAddr(name))
	if err == nil {
		c.Close()
	}
	return !errors.Is(err, syscall.ECONNREFUSED)
}

func claimAddr(name string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: "@ramjet-adapter/" + name}
}
