// SPDX-License-Identifier: Apache-2.0

package peercred

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Of returns the process and the user at the other end of a connection: for the side that connected, the process that
// listens.
func Of(c *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return cred, os.NewSyscallError("getsockopt", credErr)
}
