// SPDX-License-Identifier: Apache-2.0

package portshare

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/forkmark"
)

var (
	// ErrNobody says that no process of this user has a door to the address. One may be about to
	// open it.
	ErrNobody = errors.New("no process shares the address")
	// ErrSilent says that those who have the address do not answer.
	ErrSilent = errors.New("does not answer, perhaps because it is stopped: let it go on (SIGCONT) or end it")
	// ErrFull says that all slots are taken.
	ErrFull = fmt.Errorf("in use by %d processes, which is as many as can share it", Slots)
)

// What is said at a door: the version of all this, and what the caller wants.
const (
	version  = 1
	toJoin   = 'j' // the descriptors
	toFollow = 'f' // answers to its pings, and to know when the member is gone
)

// handshake bounds what is said at a door.
const handshake = 3 * time.Second

// doors is the name that all doors of an address begin with. They are in the abstract
// namespace, so that each is gone with its process. There, anybody can take any name: the
// last part of a door's is random, so that nobody can take it first, and who holds one is
// what the kernel says.
func doors(name string) string {
	return fmt.Sprintf("@ramjet/%s/%d/", name, os.Geteuid())
}

func doorAddr(name string, number uint64) *net.UnixAddr {
	return &net.UnixAddr{Net: "unixpacket", Name: fmt.Sprintf("%s%016x", doors(name), number)}
}

// openDoor opens a door with a number of its own.
func openDoor(name string) (door *net.UnixListener, number uint64, err error) {
	var random [8]byte
	rand.Read(random[:])
	number = binary.NativeEndian.Uint64(random[:])
	if door, err = net.ListenUnix("unixpacket", doorAddr(name, number)); err == nil {
		forkmark.SetConn(door)
	}
	return door, number, err
}

// listDoors returns the numbers of what pass for doors to an address.
func listDoors(name string) (numbers []uint64, err error) {
	// That of the process may be of another network namespace than this thread's.
	f, err := os.Open("/proc/thread-self/net/unix")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	prefix := doors(name)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// Num RefCount Protocol Flags Type St Inode Path, and no path has a space that is a door.
		line := lines.Text()
		path := line[strings.LastIndexByte(line, ' ')+1:]
		digits, ok := strings.CutPrefix(path, prefix)
		if !ok {
			continue
		}
		if number, err := strconv.ParseUint(digits, 16, 64); err == nil && !slices.Contains(numbers, number) {
			numbers = append(numbers, number)
		}
	}
	return numbers, lines.Err()
}

// knock connects to a door, and says what is wanted. ErrNobody: there is none, or not of
// this user.
func knock(name string, number uint64, want byte) (c *net.UnixConn, pid int, err error) {
	c, err = net.DialUnix("unixpacket", nil, doorAddr(name, number))
	if err != nil {
		return nil, 0, ErrNobody
	}
	forkmark.SetConn(c)
	cred, err := credentials(c)
	if err != nil || int(cred.Uid) != os.Geteuid() {
		c.Close()
		return nil, 0, ErrNobody
	}
	c.SetDeadline(time.Now().Add(handshake))
	if _, err := c.Write([]byte{version, want}); err != nil {
		c.Close()
		return nil, 0, ErrNobody
	}
	return c, int(cred.Pid), nil
}

// maxKnocks bounds how many doors are waited at. There are no more members than slots, and
// processes that are about to be members.
const maxKnocks = 4 * Slots

// ask asks at all doors of an address for the descriptors, and takes the first answer.
func ask(name string) (fds []int, err error) {
	numbers, err := listDoors(name)
	if err != nil {
		return nil, err
	}
	var conns []*net.UnixConn
	var pids []string
	for _, number := range numbers {
		if len(conns) == maxKnocks {
			break
		}
		if c, pid, err := knock(name, number, toJoin); err == nil {
			conns = append(conns, c)
			pids = append(pids, strconv.Itoa(pid))
		}
	}
	if len(conns) == 0 {
		return nil, ErrNobody
	}
	answers := make([]answered, len(conns))
	var wait sync.WaitGroup
	var once sync.Once
	for i, c := range conns {
		wait.Go(func() {
			defer c.Close()
			a := &answers[i]
			if a.fds, a.err = receive(c, descriptors); a.err == nil {
				once.Do(func() { // the others need not be waited for
					for _, other := range conns {
						other.SetReadDeadline(time.Unix(1, 0))
					}
				})
			}
		})
	}
	wait.Wait()
	return first(answers, pids)
}

// answered is what came of asking at one door.
type answered struct {
	fds []int
	err error
}

// first returns the first descriptors among answers, closing further ones, or what is to be
// said where there are none.
func first(answers []answered, pids []string) (fds []int, err error) {
	silent := true
	for _, a := range answers {
		switch {
		case a.err == nil && fds == nil:
			fds = a.fds
		case a.err == nil:
			closeAll(a.fds)
		case !errors.Is(a.err, os.ErrDeadlineExceeded):
			silent, err = false, a.err
		}
	}
	if fds != nil {
		return fds, nil
	}
	if silent {
		return nil, fmt.Errorf("in use by process %s, which %w", strings.Join(pids, ", "), ErrSilent)
	}
	return nil, err
}

// credentials returns who has the other end.
func credentials(c *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var credErr error
	if err := raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return nil, err
	}
	return cred, credErr
}

// answer takes what a caller says; false: it is none of us.
func answer(c *net.UnixConn) (want byte, ok bool) {
	cred, err := credentials(c)
	if err != nil || int(cred.Uid) != os.Geteuid() {
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

// receive takes descriptors from a member. ErrNobody: it is gone; os.ErrDeadlineExceeded: it
// does not answer.
func receive(c *net.UnixConn, count int) (fds []int, err error) {
	var b [1]byte
	control := make([]byte, unix.CmsgSpace(4*count))
	n, nc, flags, _, err := c.ReadMsgUnix(b[:], control)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, err
	case err != nil || n == 0 && nc == 0: // it has closed
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
