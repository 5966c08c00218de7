// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// localAddr returns where a fabric's process is found: under a name of the abstract namespace, which no
// file is left of.
func localAddr(name string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("@ramjet-fabric-%d-%s", os.Getuid(), name)}
}

func listenLocal(name string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", localAddr(name))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("infiniband: a fabric named %q runs here already: end it, or give this one another name: %w", name, syscall.EADDRINUSE)
	}
	if err != nil {
		return nil, fmt.Errorf("infiniband: %w", err)
	}
	return l, nil
}

// dialLocal connects to the process of a fabric.
func dialLocal(name string) (*net.UnixConn, error) {
	c, err := net.DialUnix("unix", nil, localAddr(name))
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("infiniband: no fabric named %q runs here: start one, such as with ramjet fabric --fat-tree 4,2: %w", name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("infiniband: %w", err)
	}
	return c, nil
}

// sameUser refuses connections of other users, but for root: the abstract namespace has no permissions.
func sameUser(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return e
	}
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	if int(cred.Uid) != os.Getuid() && cred.Uid != 0 {
		return errors.New("the fabric is another user's: start one of your own")
	}
	return nil
}

// writeNow writes what the socket takes without waiting, and returns how much that was.
func writeNow(c *net.UnixConn, b []byte) (n int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Write(func(fd uintptr) bool {
		for n < len(b) {
			sent, err := unix.SendmsgN(int(fd), b[n:], nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			if err != nil {
				break // the goroutine that writes the rest meets it again
			}
			n += sent
		}
		return true
	})
	return n
}
