// SPDX-License-Identifier: Apache-2.0

package peercred

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
)

// Holder is the process at the other end of a connection, which holds the dialled name.
type Holder struct {
	PID int // as this process sees it; 0: it is in a PID namespace that this one does not see
	UID int // its effective user
}

// String names the process and its user, for errors.
func (h Holder) String() string {
	process := "a process"
	if h.PID > 0 {
		process = "process " + strconv.Itoa(h.PID)
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", h.PID)); err == nil {
			process += fmt.Sprintf(" (%+q)", bytes.TrimSpace(b))
		}
	}
	return fmt.Sprintf("%s of user %d", process, h.UID)
}

// Trusted reports whether the process is of this process's effective user, or of root.
func (h Holder) Trusted() bool { return h.UID == os.Geteuid() || h.UID == 0 }

// StrangerError says that the process at the other end is of another user, and not of root.
type StrangerError struct{ Holder }

func (e *StrangerError) Error() string {
	return fmt.Sprintf("%v is at the other end: only this user (%d) and root are let in", e.Holder, os.Geteuid())
}

// Admit returns the process at the other end of a connection. The error is a [*StrangerError] if it is neither this
// user nor root.
func Admit(c *net.UnixConn) (Holder, error) {
	cred, err := Of(c)
	if err != nil {
		return Holder{}, err
	}
	h := Holder{PID: int(cred.Pid), UID: int(cred.Uid)}
	if !h.Trusted() {
		return h, &StrangerError{h}
	}
	return h, nil
}

// HolderOf returns the process that listens at an address of a Unix socket. The error wraps ECONNREFUSED if there is
// none, and EAGAIN if too many connections wait there to find out.
func HolderOf(a *net.UnixAddr) (Holder, error) {
	c, err := net.DialUnix(a.Net, nil, a)
	if err != nil {
		return Holder{}, err
	}
	defer c.Close()
	h, err := Admit(c)
	if stranger := (*StrangerError)(nil); errors.As(err, &stranger) {
		err = nil
	}
	return h, err
}

// Stopped reports whether a process is stopped, by a signal or a debugger.
func Stopped(pid int) bool {
	s := state(pid)
	return s == 'T' || s == 't'
}

// Working reports whether a process wants a processor or waits for a disk: its first thread does.
func Working(pid int) bool {
	s := state(pid)
	return s == 'R' || s == 'D'
}

// state returns the state of a process's first thread (proc_pid_stat(5), behind the name), or 0 if it is not known.
func state(pid int) byte {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // the name may have blanks and parentheses
	if len(f) == 0 {
		return 0
	}
	return f[0][0]
}
