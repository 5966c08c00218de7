// SPDX-License-Identifier: Apache-2.0

package portshare

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

var (
	// ErrNobody says that no process has a door to the address, or that it closed
	// meanwhile. Another may be about to open it.
	ErrNobody = errors.New("no process shares the address")
	// ErrUser says that the address is another user's.
	ErrUser = errors.New("in use by another user")
	// ErrFull says that all slots are taken.
	ErrFull = fmt.Errorf("in use by %d processes, which is as many as can share it", Slots)
)

// What is said at the door: the version of all this, and what the caller wants.
const (
	version  = 1
	toJoin   = 'j' // the descriptors
	toFollow = 'f' // only to know when the leader is gone
)

// handshake bounds what is said at the door.
const handshake = 3 * time.Second

// doorOf is the name of the door to an address: in the abstract namespace, so that it is
// gone with its process.
func doorOf(name string) *net.UnixAddr {
	return &net.UnixAddr{Net: "unixpacket", Name: "@ramjet/" + name}
}

// openDoor makes this process the leader; it fails while there is another.
func openDoor(name string) (*net.UnixListener, error) {
	return net.ListenUnix("unixpacket", doorOf(name))
}

// knock connects to the leader.
func knock(name string, want byte) (*net.UnixConn, error) {
	c, err := net.DialUnix("unixpacket", nil, doorOf(name))
	if err != nil {
		return nil, ErrNobody
	}
	if err := greet(c, want); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func greet(c *net.UnixConn, want byte) error {
	uid, err := userOf(c)
	if err != nil {
		return ErrNobody
	}
	if uid != os.Geteuid() {
		return fmt.Errorf("%w (uid %d)", ErrUser, uid)
	}
	c.SetDeadline(time.Now().Add(handshake))
	if _, err := c.Write([]byte{version, want}); err != nil {
		return ErrNobody
	}
	return nil
}

// userOf returns the user of the other end.
func userOf(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, credErr
	}
	return int(cred.Uid), nil
}

// answer takes what a caller says; false: it is none of us.
func answer(c *net.UnixConn) (want byte, ok bool) {
	uid, err := userOf(c)
	if err != nil || uid != os.Geteuid() {
		return 0, false
	}
	c.SetDeadline(time.Now().Add(handshake))
	var b [2]byte
	n, err := c.Read(b[:])
	if n != len(b) || err != nil || b[0] != version {
		return 0, false
	}
	return b[1], true
}

// give passes descriptors to a caller.
func give(c *net.UnixConn, fds []int) error {
	_, _, err := c.WriteMsgUnix([]byte{version}, unix.UnixRights(fds...), nil)
	return err
}

// receive takes descriptors from the leader.
func receive(c *net.UnixConn, count int) (fds []int, err error) {
	var b [1]byte
	control := make([]byte, unix.CmsgSpace(4*count))
	n, nc, flags, _, err := c.ReadMsgUnix(b[:], control)
	if err != nil {
		return nil, ErrNobody
	}
	messages, err := unix.ParseSocketControlMessage(control[:nc])
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if got, err := unix.ParseUnixRights(&m); err == nil {
			fds = slices.Concat(fds, got)
		}
	}
	if n != 1 || b[0] != version || flags&unix.MSG_CTRUNC != 0 || len(fds) != count {
		closeAll(fds)
		return nil, errors.New("in use by a process with another version of Ramjet, or file descriptors ran out")
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
