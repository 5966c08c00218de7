// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/forkmark"
)

const (
	// MaxMessage is the longest message to a peer, in bytes.
	MaxMessage = 4096
	// MaxFiles is how many descriptors can go with one.
	MaxFiles = 16
)

// ErrOtherUser means that a process of another user is at the other end.
var ErrOtherUser = errors.New("a process of another user")

var errTruncated = errors.New("the peer has sent more than a message holds")

// Place is the namespace of listeners' names: the abstract namespace of sockets, which belongs to a network namespace,
// or a directory, which containers can share by a mount.
type Place struct{ Dir string }

// sockaddr returns the address of a name.
func (p Place) sockaddr(name string) *unix.SockaddrUnix {
	if p.Dir == "" {
		return &unix.SockaddrUnix{Name: "@ramjet-shm/" + name}
	}
	return &unix.SockaddrUnix{Name: filepath.Join(p.Dir, name)}
}

func newSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	return fd, os.NewSyscallError("socket", err)
}

// Listener accepts connections from peers. In the abstract namespace it ends with the process.
type Listener struct {
	fd   int
	file *socketFile // nil: none
}

// Listen listens at a name. unix.EADDRINUSE means that another process does.
func (p Place) Listen(name string, backlog int) (*Listener, error) {
	fd, err := newSocket()
	if err != nil {
		return nil, err
	}
	forkmark.Set(fd)
	d := &Listener{fd: fd}
	at := p.sockaddr(name)
	if p.Dir == "" {
		if err = unix.Bind(fd, at); err == nil {
			err = unix.Listen(fd, backlog)
		}
	} else {
		d.file, err = p.publish(fd, at, backlog)
	}
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("bind", err)
	}
	return d, nil
}

// FD returns the descriptor, which can be read when a peer is there.
func (d *Listener) FD() int { return d.fd }

// Accept returns the next peer. unix.EAGAIN means that there is none, an [ErrOtherUser] that one was
// refused. With an [ErrDescriptors] there is a peer, which the caller is to refuse for lack of room.
func (d *Listener) Accept() (*Socket, error) {
	fd, _, err := unix.Accept4(d.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("accept", err)
	}
	s, err := takeSocket(fd)
	if err == nil {
		err = spare(fd)
	}
	return s, err
}

// Pending reports whether a peer waits to be let in.
func (d *Listener) Pending() bool {
	fds := [...]unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}}
	n, err := unix.Ppoll(fds[:], &unix.Timespec{}, nil)
	return n > 0 && err == nil
}

// Close closes the listener. Peers stay.
func (d *Listener) Close() error {
	if d.file != nil {
		d.file.remove()
	}
	return os.NewSyscallError("close", unix.Close(d.fd))
}

// Connect connects to a name. unix.ECONNREFUSED and unix.ENOENT mean that no process listens there,
// unix.EAGAIN that too many wait there.
func (p Place) Connect(name string) (*Socket, error) {
	fd, err := newSocket()
	if err != nil {
		return nil, err
	}
	err = spare(fd)
	if err == nil {
		err = os.NewSyscallError("connect", unix.Connect(fd, p.sockaddr(name)))
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return takeSocket(fd)
}

// Socket is the connection to a process. It carries messages, which are messages with descriptors, and
// tells when the process ends. Its calls do not block.
type Socket struct {
	fd      int
	pid     int
	process *process // nil: not held
	buf     []byte
	oob     []byte
}

// takeSocket takes over a descriptor and checks the user at the other end with the kernel: any user can
// take any name.
func takeSocket(fd int) (*Socket, error) {
	forkmark.Set(fd)
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err == nil && int(cred.Uid) != os.Geteuid() {
		err = fmt.Errorf("%w (%d) is at the other end", ErrOtherUser, cred.Uid)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Socket{fd: fd, pid: int(cred.Pid), buf: make([]byte, MaxMessage),
		oob: make([]byte, unix.CmsgSpace(4*MaxFiles))}, nil
}

// FD returns the descriptor, which can be read when there is a message, or the peer has ended.
func (s *Socket) FD() int { return s.fd }

// PID returns the number of the process, as this one sees it; 0: it is in a namespace that this one
// cannot see.
func (s *Socket) PID() int { return s.pid }

// Send sends a message of 1 to [MaxMessage] bytes with at most [MaxFiles] descriptors, which stay the
// caller's. unix.EAGAIN means that the peer has left so many unread that no more fit.
func (s *Socket) Send(message []byte, files ...int) error {
	if len(message) == 0 || len(message) > MaxMessage || len(files) > MaxFiles {
		return fmt.Errorf("a message of %d bytes with %d descriptors: %w", len(message), len(files), unix.EMSGSIZE)
	}
	var oob []byte
	if len(files) > 0 {
		oob = unix.UnixRights(files...)
	}
	for {
		err := unix.Sendmsg(s.fd, message, oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch err {
		case unix.EINTR:
			continue
		case unix.ETOOMANYREFS, unix.ENOBUFS: // descriptors, or messages, that peers have not taken
			return unix.EAGAIN
		}
		return err
	}
}

// Receive returns the next message, which is valid until the next call, and its descriptors, which are
// the caller's. unix.EAGAIN means that there is none, io.EOF that the process has closed the
// connection, or has ended in any way.
func (s *Socket) Receive() (message []byte, files []int, err error) {
	n, oobn, flags, _, err := unix.Recvmsg(s.fd, s.buf, s.oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if err == nil {
		files = received(s.oob[:oobn])
	}
	switch {
	case err == nil && n == 0, err == unix.ECONNRESET: // reset: it has not read all that was sent to it
		err = io.EOF
	case err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = errTruncated
	case err == unix.EINTR:
		err = unix.EAGAIN
	}
	if err != nil {
		CloseAll(files)
		return nil, nil, err
	}
	return s.buf[:n], files, nil
}

// received returns the descriptors that came with a message.
func received(oob []byte) (files []int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil { // else they are something else
			files = append(files, fds...)
		}
	}
	return files
}

// CloseAll closes descriptors that are not wanted.
func CloseAll(files []int) {
	for _, fd := range files {
		unix.Close(fd)
	}
}

// Hold keeps hold of the peer's process, so that Lives tells when it has ended, even if another process has its end of
// the socket then: a child, or a process that got the descriptor. It returns false if the process has ended, or cannot
// be held.
func (s *Socket) Hold() bool {
	if s.process == nil {
		s.process = holdProcess(s.fd, s.pid)
	}
	return s.process != nil
}

// Lives reports whether the peer has neither closed the connection nor, if it is held, ended. Until then its number is
// its own.
func (s *Socket) Lives() bool {
	fds := [...]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLRDHUP}, {Fd: -1, Events: unix.POLLIN}}
	if s.process != nil {
		fds[1].Fd = int32(s.process.pidfd)
	}
	n, err := unix.Ppoll(fds[:], &unix.Timespec{}, nil)
	return n == 0 && err == nil
}

// Finish tells the peer that the connection ends, as Close does. That the peer has ended can still be
// seen.
func (s *Socket) Finish() error {
	return os.NewSyscallError("shutdown", unix.Shutdown(s.fd, unix.SHUT_WR))
}

// Gone reports whether the peer has ended. It drops the peer's messages.
func (s *Socket) Gone() bool {
	for {
		_, files, err := s.Receive()
		CloseAll(files)
		if err != nil && err != errTruncated {
			return !errors.Is(err, unix.EAGAIN)
		}
	}
}

// Close ends the connection.
func (s *Socket) Close() error {
	if s.process != nil {
		s.process.release()
		s.process = nil
	}
	return os.NewSyscallError("close", unix.Close(s.fd))
}
