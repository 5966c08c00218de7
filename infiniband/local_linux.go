// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/peercred"
)

// localPrefix returns the prefix of the names of fabrics' sockets, in the abstract namespace, which leaves no
// files. Any user can take any name there, so both ends ask the kernel for the user at the other end.
func localPrefix() string { return fmt.Sprintf("@ramjet-fabric-%d-", os.Geteuid()) }

// localAddr returns the address of a fabric's process.
func localAddr(name string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unix", Name: localPrefix() + name}
}

// Names returns the names of the fabrics that the user's processes serve, sorted; that of the default is empty. Other
// users can take such names, too: see [View].
func Names() []string {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	return namesIn(string(text))
}

// namesIn returns the names in a table of the kernel's Unix sockets that are valid for fabrics.
func namesIn(table string) []string {
	var names []string
	for line := range strings.Lines(table) {
		// The flag 0x10000 is of sockets that listen; connections have the name too.
		if f := strings.Fields(line); len(f) == 8 && f[3] == "00010000" {
			if name, ok := strings.CutPrefix(f[7], localPrefix()); ok && printable(name) == name {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// errRuns returns the error that the name of a fabric is taken.
func errRuns(name string) error {
	which := "a fabric"
	if name != "" {
		which = fmt.Sprintf("a fabric named %q", name)
	}
	holder, err := peercred.HolderOf(localAddr(name))
	switch {
	case err == nil && !holder.Trusted():
		return errHeld(name, holder)
	case err == nil && holder.PID > 0:
		which += ", in " + holder.String() + ","
	}
	return fmt.Errorf("infiniband: %s runs here already: end it, or give this one another name: %w", which,
		syscall.EADDRINUSE)
}

// errHeld returns the error that another user has taken the name of a fabric.
func errHeld(name string, holder peercred.Holder) error {
	return fmt.Errorf("infiniband: %v holds the name of this user's fabric, %s: give the fabric another name: %w",
		holder, localAddr(name).Name, syscall.EADDRINUSE)
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

// dialLocal connects to the process of a fabric. It waits while too many others do.
func dialLocal(ctx context.Context, name string) (*net.UnixConn, error) {
	c, err := net.DialUnix("unix", nil, localAddr(name))
	for errors.Is(err, syscall.EAGAIN) && ctx.Err() == nil {
		select {
		case <-time.After(acceptPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		c, err = net.DialUnix("unix", nil, localAddr(name))
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, noFabric(name)
	}
	if err != nil {
		return nil, fmt.Errorf("infiniband: %w", err)
	}
	holder, err := peercred.Admit(c)
	if stranger := (*peercred.StrangerError)(nil); errors.As(err, &stranger) {
		err = errHeld(name, holder)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// admit refuses connections of other users except root, as abstract sockets have no permissions.
func admit(c *net.UnixConn) error {
	_, err := peercred.Admit(c)
	if stranger := (*peercred.StrangerError)(nil); errors.As(err, &stranger) {
		return errors.New("the fabric is another user's: start one of your own")
	}
	return err
}

// stopped returns the number of the process at the other end if that is stopped; 0: it is not.
func stopped(c *net.UnixConn) int {
	if cred, err := peercred.Of(c); err == nil && cred.Pid > 0 && peercred.Stopped(int(cred.Pid)) {
		return int(cred.Pid)
	}
	return 0
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
