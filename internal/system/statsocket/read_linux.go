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
	"syscall"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/peercred"
)

// maxParallel is how many processes are read at the same time.
const maxParallel = 8

// listening returns the names of all processes with open devices.
func listening() ([]name, error) {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, fmt.Errorf("processes with open devices are found in /proc, which cannot be read here: %w: mount it (mount -t proc proc /proc)", err)
	}
	return namesIn(string(table)), nil
}

// Read reads the processes of this user with open devices, and for root those of all users, in the order
// of their ids. pid chooses one; 0: all. This process is left out. Processes that end meanwhile are, too.
func Read(ctx context.Context, pid int) ([]Process, error) {
	names, err := listening()
	if err != nil {
		return nil, err
	}
	var (
		wait  sync.WaitGroup
		lock  sync.Mutex
		found []Process
		slots = make(chan struct{}, maxParallel)
	)
	for _, n := range names {
		if !allowed(os.Geteuid(), n.uid) || n.pid == os.Getpid() && isOwn(n) {
			continue
		}
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			p := read(ctx, n, pid)
			if p == nil {
				return
			}
			lock.Lock()
			defer lock.Unlock()
			found = append(found, *p)
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
func read(ctx context.Context, n name, pid int) *Process {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", n.String())
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	p := &Process{PID: n.pid, UID: n.uid, Instance: n.random}
	if err != nil {
		p.Err = err
		return filterPID(p, pid)
	}
	defer c.Close()
	cred, err := peercred.Of(c.(*net.UnixConn))
	if err != nil || !allowed(os.Geteuid(), int(cred.Uid)) {
		return nil // somebody else took the name
	}
	p.UID = int(cred.Uid)
	if cred.Pid > 0 { // else it is of a PID namespace that is not seen here
		p.PID = int(cred.Pid)
		p.Command = commandOf(p.PID)
	}
	if filterPID(p, pid) == nil {
		return nil
	}
	if cred.Pid > 0 && peercred.Stopped(p.PID) { // it would keep readers waiting for readTime
		p.Err = fmt.Errorf("it is stopped, by a signal or a debugger: kill -CONT %d lets it go on", p.PID)
		return p
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	p.State, p.Err = observe.Read(c)
	p.At = time.Now()
	if errors.Is(p.Err, os.ErrDeadlineExceeded) {
		p.Err = fmt.Errorf("it did not answer within %v: it is frozen, or many read it", readTime)
	}
	return p
}

// filterPID returns p if it is the process that is wanted.
func filterPID(p *Process, pid int) *Process {
	if pid != 0 && p.PID != pid {
		return nil
	}
	return p
}

// commandOf returns the name of a process.
func commandOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return observe.Printable(strings.TrimSpace(string(b)))
}
