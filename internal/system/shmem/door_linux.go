// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/forkmark"
)

const (
	// MaxLetter is the longest message to a peer, in bytes.
	MaxLetter = 4096
	// MaxFiles is how many descriptors can go with one.
	MaxFiles = 16
)

// ErrStranger means that a process of another user is at the other end.
var ErrStranger = errors.New("a process of another user")

// Door is where peers meet a process. It is a socket in the abstract namespace, which vanishes with
// the process, and belongs to a network namespace.
type Door struct{ l *net.UnixListener }

func doorAddr(name string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unixpacket", Name: "@ramjet-shm/" + name}
}

// Open opens the door of a name. unix.EADDRINUSE means that a process has it.
func Open(name string) (*Door, error) {
	l, err := net.ListenUnix("unixpacket", doorAddr(name))
	if err != nil {
		return nil, err
	}
	forkmark.SetConn(l)
	return &Door{l}, nil
}

// Accept waits for a peer. An [ErrStranger] was turned away; after another error the door is
// closed.
func (d *Door) Accept() (*Peer, error) {
	c, err := d.l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	return newPeer(c)
}

// Close closes the door. Peers stay.
func (d *Door) Close() error { return d.l.Close() }

// Visit goes to the door of a name. unix.ECONNREFUSED means that nobody has it.
func Visit(ctx context.Context, name string) (*Peer, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unixpacket", doorAddr(name).Name)
	if err != nil {
		return nil, err
	}
	return newPeer(c.(*net.UnixConn))
}

// Peer is the connection to a process. It carries letters, which are messages with descriptors, and
// tells when the process ends. Send and Receive can be called at the same time.
type Peer struct {
	conn *net.UnixConn
	pid  int
	buf  []byte
	oob  []byte
}

// newPeer takes over a connection and checks who is there. The kernel says it; anybody can take any
// name.
func newPeer(c *net.UnixConn) (*Peer, error) {
	forkmark.SetConn(c)
	raw, err := c.SyscallConn()
	if err != nil {
		c.Close()
		return nil, err
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, failed); err == nil && int(cred.Uid) != os.Geteuid() {
		err = fmt.Errorf("%w (%d) is at the other end", ErrStranger, cred.Uid)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &Peer{conn: c, pid: int(cred.Pid), buf: make([]byte, MaxLetter), oob: make([]byte, unix.CmsgSpace(4*MaxFiles))}, nil
}

// PID returns the number of the process, as this one sees it; 0: it is in a namespace that this one
// cannot see.
func (p *Peer) PID() int { return p.pid }

// Send sends a letter of 1 to [MaxLetter] bytes with at most [MaxFiles] descriptors, which stay the
// caller's. os.ErrDeadlineExceeded means that the peer has left so many unread that no more fit,
// and patience is over.
func (p *Peer) Send(letter []byte, patience time.Duration, files ...*os.File) error {
	if len(letter) == 0 || len(letter) > MaxLetter || len(files) > MaxFiles {
		return fmt.Errorf("a letter of %d bytes with %d descriptors: %w", len(letter), len(files), unix.EMSGSIZE)
	}
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			raw, err := f.SyscallConn()
			if err != nil {
				return err
			}
			if err := raw.Control(func(fd uintptr) { fds[i] = int(fd) }); err != nil {
				return err
			}
		}
		oob = unix.UnixRights(fds...)
	}
	if err := p.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, _, err := p.conn.WriteMsgUnix(letter, oob, nil)
	runtime.KeepAlive(files)
	return err
}

// Receive waits for a letter, which is valid until the next call, and its descriptors, which are
// the caller's. io.EOF means that the process has closed the connection, or has ended in whatever
// way.
func (p *Peer) Receive() (letter []byte, files []*os.File, err error) {
	n, oobn, flags, _, err := p.conn.ReadMsgUnix(p.buf, p.oob)
	files = received(p.oob[:oobn])
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET): // reset: it has not read all that was sent to it
		err = io.EOF
	case err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = ErrCorrupt
	}
	if err != nil {
		CloseAll(files)
		return nil, nil, err
	}
	return p.buf[:n], files, nil
}

// received returns the descriptors that came with a letter.
func received(oob []byte) (files []*os.File) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // not descriptors
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "from a peer"))
		}
	}
	return files
}

// CloseAll closes descriptors that are not wanted.
func CloseAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// Close ends the connection, and Receive.
func (p *Peer) Close() error { return p.conn.Close() }
