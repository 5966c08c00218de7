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
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/forkmark"
	"github.com/ramjet-rdma/ramjet/internal/system/peercred"
)

var (
	// ErrNoMember means that no process of this user has a control socket for the address. One may
	// be about to open it.
	ErrNoMember = errors.New("no process shares the address")
	// ErrSilent means that the processes that have the address do not answer.
	ErrSilent = errors.New("does not answer, perhaps because it is stopped: let it go on (SIGCONT) or end it")
	// ErrFull means that all slots are taken.
	ErrFull = fmt.Errorf("in use by %d processes, which is as many as can share it", Slots)
)

// The first bytes that a caller sends: the version of the protocol, and its request.
const (
	version         = 2
	wantDescriptors = 'j' // the descriptors
	wantPings       = 'f' // answers to its pings, and notice of the member's end
)

// handshake is how long a stopped process may take for the exchange at a control socket. The limit for a process that
// runs is patience: on a busy host it may wait for a processor for seconds.
const (
	handshake = 3 * time.Second
	patience  = 30 * time.Second
)

// controlPrefix begins the names of an address's control sockets. They are in the abstract namespace, so
// each vanishes with its process. Any user can take any name there. So the last part of a name is
// random, to keep others from taking it first, and the kernel tells which process holds it.
func controlPrefix(name string) string {
	return fmt.Sprintf("@ramjet/%s/%d/", name, os.Geteuid())
}

func controlAddr(name string, number uint64) *net.UnixAddr {
	return &net.UnixAddr{Net: "unixpacket", Name: fmt.Sprintf("%s%016x", controlPrefix(name), number)}
}

// listenControl opens a control socket with a random number.
func listenControl(name string) (control *net.UnixListener, number uint64, err error) {
	var random [8]byte
	rand.Read(random[:])
	number = binary.NativeEndian.Uint64(random[:])
	if control, err = net.ListenUnix("unixpacket", controlAddr(name, number)); err == nil {
		forkmark.SetConn(control)
	}
	return control, number, err
}

// listControls returns the numbers in names that look like control sockets of an address.
func listControls(name string) (numbers []uint64, err error) {
	// That of the process may belong to another network namespace than this thread's.
	f, err := os.Open("/proc/thread-self/net/unix")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	prefix := controlPrefix(name)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// Num RefCount Protocol Flags Type St Inode Path; our paths have no space.
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

// dialControl connects to a control socket, and sends the request want. ErrNoMember means that there is
// none, or that it is another user's.
func dialControl(name string, number uint64, want byte) (c *net.UnixConn, pid int, err error) {
	c, err = net.DialUnix("unixpacket", nil, controlAddr(name, number))
	if err != nil {
		return nil, 0, ErrNoMember
	}
	forkmark.SetConn(c)
	cred, err := peercred.Of(c)
	if err != nil || int(cred.Uid) != os.Geteuid() {
		c.Close()
		return nil, 0, ErrNoMember
	}
	c.SetDeadline(time.Now().Add(handshake))
	if _, err := c.Write([]byte{version, want}); err != nil {
		c.Close()
		return nil, 0, ErrNoMember
	}
	return c, int(cred.Pid), nil
}

// maxDials limits how many control sockets are tried. There are no more members than slots, and
// processes that are about to be members.
const maxDials = 4 * Slots

// ask asks all members of an address for the descriptors, and takes the first answer.
func ask(name string, patience time.Duration) (fds []int, err error) {
	numbers, err := listControls(name)
	if err != nil {
		return nil, err
	}
	var conns []*net.UnixConn
	var pids []int
	for _, number := range numbers {
		if len(conns) == maxDials {
			break
		}
		if c, pid, err := dialControl(name, number, wantDescriptors); err == nil {
			conns = append(conns, c)
			pids = append(pids, pid)
		}
	}
	if len(conns) == 0 {
		return nil, ErrNoMember
	}
	answers := make([]answered, len(conns))
	var wait sync.WaitGroup
	var found atomic.Bool
	for i, c := range conns {
		wait.Go(func() {
			defer c.Close()
			a := &answers[i]
			if a.fds, a.err = awaitDescriptors(c, pids[i], patience, &found); a.err == nil && !found.Swap(true) {
				for _, other := range conns { // no need to wait for them
					other.SetReadDeadline(time.Unix(1, 0))
				}
			}
		})
	}
	wait.Wait()
	return first(answers, pids)
}

// awaitDescriptors takes descriptors from a member. It waits for a member that runs until another member's descriptors
// are found.
func awaitDescriptors(c *net.UnixConn, pid int, patience time.Duration, found *atomic.Bool) (fds []int, err error) {
	for end := time.Now().Add(patience); ; {
		fds, err = receiveDescriptors(c, descriptors)
		if !errors.Is(err, os.ErrDeadlineExceeded) || peercred.Stopped(pid) || time.Now().After(end) {
			return fds, err
		}
		c.SetReadDeadline(time.Now().Add(handshake))
		if found.Load() { // perhaps before that
			return nil, err
		}
	}
}

// answered is the outcome of one member.
type answered struct {
	fds []int
	err error
}

// first returns the first descriptors among answers, closing the others, or the error to report if
// there are none.
func first(answers []answered, pids []int) (fds []int, err error) {
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
		return nil, fmt.Errorf("in use by process %s, which %w",
			strings.Trim(strings.ReplaceAll(fmt.Sprint(pids), " ", ", "), "[]"), ErrSilent)
	}
	return nil, err
}

// answer reads a caller's first bytes. It returns false if it is not one of us.
func answer(c *net.UnixConn) (want byte, ok bool) {
	cred, err := peercred.Of(c)
	if err != nil || int(cred.Uid) != os.Geteuid() {
		return 0, false
	}
	c.SetDeadline(time.Now().Add(patience))
	var b [2]byte
	n, err := c.Read(b[:])
	if n != len(b) || err != nil || b[0] != version {
		return 0, false
	}
	return b[1], true
}

// sendDescriptors passes descriptors to a caller.
func sendDescriptors(c *net.UnixConn, fds []int) error {
	_, _, err := c.WriteMsgUnix([]byte{version}, unix.UnixRights(fds...), nil)
	return err
}

// receiveDescriptors takes descriptors from a member. ErrNoMember means that it is gone,
// os.ErrDeadlineExceeded that it does not answer.
func receiveDescriptors(c *net.UnixConn, count int) (fds []int, err error) {
	var b [1]byte
	control := make([]byte, unix.CmsgSpace(4*count))
	n, nc, flags, _, err := c.ReadMsgUnix(b[:], control)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, err
	case err != nil || n == 0 && nc == 0: // it has closed
		return nil, ErrNoMember
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
