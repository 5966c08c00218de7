// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/peercred"
)

// localPrefix is what the names of fabrics' sockets begin with, in the abstract namespace, which no file is
// left of.
func localPrefix() string { return fmt.Sprintf("@ramjet-fabric-%d-", os.Getuid()) }

// localAddr returns the address of a fabric's process.
func localAddr(name string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: localPrefix() + name}
}

// Names returns the names of the fabrics that the user's processes serve, sorted; that of the default is empty.
func Names() []string {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		// The flag 0x10000 is of sockets that listen; connections have the name too.
		if f := strings.Fields(line); len(f) == 8 && f[3] == "00010000" {
			if name, ok := strings.CutPrefix(f[7], localPrefix()); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// errRuns returns the error that a fabric with this name is running.
func errRuns(name string) error {
	which := "a fabric"
	if name != "" {
		which = fmt.Sprintf("a fabric named %q", name)
	}
	return fmt.Errorf("infiniband: %s runs here already: end it, or give this one another name: %w", which, syscall.EADDRINUSE)
}

// noFabric returns the error that no fabric with this name is running.
func noFabric(name string) error {
	named, flag := "", ""
	if name != "" {
		named, flag = fmt.Sprintf(" under the name %q", name), " --name "+name
	}
	return fmt.Errorf("%w%s: start one, such as with ramjet fabric --fat-tree 4,2%s", ErrNoFabric, named, flag)
}

func listenLocal(name string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", localAddr(name))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, errRuns(name)
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
		return nil, noFabric(name)
	}
	if err != nil {
		return nil, fmt.Errorf("infiniband: %w", err)
	}
	return c, nil
}

// sameUser refuses connections of other users except root, as abstract sockets have no permissions.
func sameUser(c *net.UnixConn) error {
	cred, err := peercred.Of(c)
	if err != nil {
		return err
	}
	if int(cred.Uid) != os.Getuid() && cred.Uid != 0 {
		return errors.New("the fabric is another user's: start one of your own")
	}
	return nil
}

// writeNow writes without waiting, and returns how many bytes the socket has accepted.
func writeNow(c *net.UnixConn, b []byte) (n int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Write(func(fd uintptr) bool {
		for n < len(b) {
			sent, err := unix.SendmsgN(int(fd), b[n:], nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			if err != nil {
				break // the goroutine that writes the rest will get it, too
			}
			n += sent
		}
		return true
	})
	return n
}
