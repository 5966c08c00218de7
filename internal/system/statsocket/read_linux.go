// SPDX-License-Identifier: Apache-2.0

package statsocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/peercred"
)

// maxParallel is how many processes are read at the same time.
const maxParallel = 8

// listening returns the sockets of all processes with open devices, and sockets with such names.
func listening() ([]listener, error) {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, fmt.Errorf("processes with open devices are found in /proc, which cannot be read here: %w: mount it (mount -t proc proc /proc)", err)
	}
	return listenersIn(string(table)), nil
}

// Read reads the processes of this user with open devices, and for root the processes of all users, in the order of
// their ids. pid chooses one; 0: all. This process is left out. Processes that end meanwhile are, too.
func Read(ctx context.Context, pid int) ([]Process, error) {
	all, err := listening()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(l listener) bool {
		return !allowed(os.Geteuid(), l.uid) || l.pid == os.Getpid() && isOwn(l.name)
	})
	var (
		wait  sync.WaitGroup
		lock  sync.Mutex
		found []Process
		next  atomic.Int64
	)
	for range min(maxParallel, len(all)) {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if p := read(ctx, all[i], pid); p != nil {
					lock.Lock()
					found = append(found, *p)
					lock.Unlock()
				}
			}
		})
	}
	wait.Wait()
	slices.SortFunc(found, func(a, b Process) int { return a.PID - b.PID })
	return found, ctx.Err()
}

// isOwn reports whether a name is this process's.
func isOwn(n name) bool {
	serverLock.Lock()
	defer serverLock.Unlock()
	return server != nil && server.Addr().String() == n.String()
}

// read reads a process; nil: it is another, or has ended.
func read(ctx context.Context, l listener, pid int) *Process {
	ctx, cancel := context.WithTimeout(ctx, mostTime)
	defer cancel()
	p := &Process{PID: l.pid, UID: l.uid, Instance: l.random}
	c, cred, err := dial(ctx, l, l.String())
	if errors.Is(err, errNobody) {
		return nil
	}
	if err == nil {
		defer c.Close()
		p.UID = int(cred.Uid)
		if cred.Pid > 0 { // else it is of a PID namespace that is not seen here
			p.PID = int(cred.Pid)
		}
	}
	if pid != 0 && p.PID != pid {
		return nil
	}
	if err != nil || cred.Pid > 0 {
		p.Command = commandOf(p.PID)
		if peercred.Stopped(p.PID) { // it would keep readers waiting for readTime
			p.Err = fmt.Errorf("it is stopped, by a signal or a debugger: kill -CONT %d lets it go on", p.PID)
			return p
		}
	}
	if err == nil {
		stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
		defer stop()
		p.State, err = observe.Read(patient{ctx, c})
		p.At = time.Now()
	}
	if p.Err = err; errors.Is(err, os.ErrDeadlineExceeded) {
		p.Err = fmt.Errorf("it did not answer within %v: it is frozen, or many read it", readTime)
	}
	return p
}

// patient reads from a process that may be slow, as on a busy machine: the time is limited for each piece that it
// sends.
type patient struct {
	ctx context.Context
	c   *net.UnixConn
}

func (p patient) Read(b []byte) (int, error) {
	p.c.SetReadDeadline(time.Now().Add(readTime))
	if p.ctx.Err() != nil { // which has just set another deadline, perhaps before that
		return 0, os.ErrDeadlineExceeded
	}
	return p.c.Read(b)
}

// errNobody says that a process has ended, or that another process has a name that looks like its own.
var errNobody = errors.New("nobody is there")

// dial connects to a socket of a process that this user may read. While its backlog is full, it stands in line if
// the process is certainly there: anybody can have sockets with such names, and never accept.
// Errors other than errNobody are of such a process.
func dial(ctx context.Context, l listener, at string) (*net.UnixConn, *unix.Ucred, error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil && (errors.Is(err, unix.ECONNREFUSED) || !holds(l.pid, l.inode)) {
		return nil, nil, errNobody
	}
	if errors.Is(err, unix.EAGAIN) && !peercred.Stopped(l.pid) {
		line, cancel := context.WithTimeout(ctx, readTime)
		defer cancel()
		c, err = peercred.Wait(line, "unix", at)
	}
	if err != nil {
		return nil, nil, err
	}
	cred, err := peercred.Of(c)
	if err != nil || !allowed(os.Geteuid(), int(cred.Uid)) {
		c.Close()
		return nil, nil, errNobody // another process took the name
	}
	return c, cred, nil
}

// holds reports whether a process has a socket open. The answer needs the right to trace it.
func holds(pid int, inode uint64) bool {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return false
	}
	defer dir.Close()
	want := fmt.Sprintf("socket:[%d]", inode)
	for {
		names, err := dir.Readdirnames(256)
		for _, n := range names {
			if to, err := os.Readlink(dir.Name() + "/" + n); err == nil && to == want {
				return true
			}
		}
		if err != nil {
			return false
		}
	}
}

// commandOf returns the name of a process.
func commandOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return observe.Printable(strings.TrimSpace(string(b)))
}
