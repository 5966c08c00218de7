// SPDX-License-Identifier: Apache-2.0

package roce1

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/system/forkmark"
	"github.com/ramjet-rdma/ramjet/internal/system/peercred"
)

// claim reserves an interface for a device: a socket whose abstract name, in the network namespace, is the interface's.
// Any user can take that name. So the socket listens, and a device that finds the name taken asks the kernel for the
// process that has it.
type claim struct{ l *net.UnixListener }

func claimAddr(index int) *net.UnixAddr {
	return &net.UnixAddr{Net: "unixpacket", Name: fmt.Sprintf("@ramjet-roce1-%d", index)}
}

// take reserves the interface of an index.
func take(index int) (claim, error) {
	l, err := net.ListenUnix("unixpacket", claimAddr(index))
	if errors.Is(err, syscall.EADDRINUSE) {
		return claim{}, errTaken(index)
	}
	if err != nil {
		return claim{}, err
	}
	forkmark.SetConn(l)
	go answer(l)
	return claim{l}, nil
}

// errTaken names the holder of an interface.
func errTaken(index int) error {
	who := "here or in another process"
	if h, err := peercred.HolderOf(claimAddr(index)); err == nil {
		who = "in " + h.String()
		if h.PID == os.Getpid() && h.Trusted() {
			who = "in this process"
		}
	}
	return fmt.Errorf("it is open already, %s, and belongs to one device at a time: %w", who, syscall.EADDRINUSE)
}

// answerPause is the pause after a connection from a process that asks for the holder, which is rare.
const answerPause = 10 * time.Millisecond

// answer takes connections, which have got their answer from the kernel, until the claim is released.
func answer(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			c.Close()
		}
		time.Sleep(answerPause)
	}
}

// release gives the interface up. The zero claim has none.
func (c *claim) release() {
	if c.l != nil {
		c.l.Close()
		c.l = nil
	}
}
