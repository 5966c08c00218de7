// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"sync"

	"golang.org/x/sys/unix"
)

// process is a peer's process, which its number alone does not name: once it has ended, the number may be another's.
// The sockets of one process share it.
type process struct {
	pid   int
	pidfd int
	users int
}

var processes = struct {
	sync.Mutex
	m map[int]*process // by number
}{m: map[int]*process{}}

// holdProcess returns the process at the other end of a socket; nil: it has ended, or the system has no pidfds.
func holdProcess(socket, pid int) *process {
	fd, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err != nil { // a kernel older than 6.5
		fd, err = unix.PidfdOpen(pid, 0)
	}
	if err != nil {
		return nil
	}
	p := &process{pid: pid, pidfd: fd, users: 1}
	if p.ended() {
		unix.Close(fd)
		return nil
	}
	processes.Lock()
	defer processes.Unlock()
	if same := processes.m[pid]; same != nil && !same.ended() { // as both live, they are one
		unix.Close(fd)
		same.users++
		return same
	}
	processes.m[pid] = p
	return p
}

func (p *process) ended() bool {
	fds := [...]unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	n, err := unix.Ppoll(fds[:], &unix.Timespec{}, nil)
	return n != 0 || err != nil
}

func (p *process) release() {
	processes.Lock()
	defer processes.Unlock()
	if p.users--; p.users > 0 {
		return
	}
	unix.Close(p.pidfd)
	if processes.m[p.pid] == p {
		delete(processes.m, p.pid)
	}
}
