// SPDX-License-Identifier: Apache-2.0

package statsocket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/peercred"
)

// Limits for a container: its processes, and bytes of each. 10,000 queue pairs are about 1 MB.
const (
	mostReporters   = 256
	mostReportBytes = 2 << 20
)

// Collector takes the state of processes that it cannot reach, such as processes of containers, whose own sockets
// belong to other network namespaces. Each container has a folder with a socket, to which its processes connect: the
// folder may be read-only there. The socket identifies the container, so no process can pass for another container's.
type Collector struct {
	reading sync.Mutex // one Read at a time
	lock    sync.Mutex
	folders map[string]*collected
	next    uint64 // the next reporter's number
}

// collected is a folder.
type collected struct {
	l       *net.UnixListener
	folder  string
	sources map[*source]bool
}

// source is a connection of a process.
type source struct {
	name  string // the folder's
	conn  *net.UnixConn
	state Process
	asked chan<- *source // gets the source when its first byte is there, or its end; nil: no reader waits
	ended bool
	first [1]byte
}

// NewCollector returns a collector without folders.
func NewCollector() *Collector { return &Collector{folders: map[string]*collected{}} }

// Listen makes a folder's socket, in place of a socket that an earlier process left. Names are the caller's; a name
// that is there already stays as it is.
func (c *Collector) Listen(name, folder string) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.folders[name] != nil {
		return nil
	}
	l, err := listenIn(folder)
	if err != nil {
		return err
	}
	f := &collected{l: l, folder: folder, sources: map[*source]bool{}}
	c.folders[name] = f
	go c.accept(name, f)
	return nil
}

// listenIn makes the socket of a folder. The folder's path may be longer than the address of a socket.
func listenIn(folder string) (*net.UnixListener, error) {
	path := filepath.Join(folder, CollectorSocket)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	d, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), CollectorSocket),
		Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)       // by that path it would be another folder's
	return l, os.Chmod(path, 0o666) // programs of containers are of any user
}

// Remove closes a folder's socket and forgets its processes. It is no error if there is none of the name.
func (c *Collector) Remove(name string) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	f := c.folders[name]
	if f == nil {
		return nil
	}
	delete(c.folders, name)
	for s := range f.sources {
		s.conn.Close()
	}
	err := f.l.Close()
	if gone := os.Remove(filepath.Join(f.folder, CollectorSocket)); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// Close removes all folders.
func (c *Collector) Close() error {
	c.lock.Lock()
	var names []string
	for name := range c.folders {
		names = append(names, name)
	}
	c.lock.Unlock()
	var err error
	for _, name := range names {
		err = errors.Join(err, c.Remove(name))
	}
	return err
}

// accept takes a folder's connections until its listener is closed.
func (c *Collector) accept(name string, f *collected) {
	for {
		conn, err := f.l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptor is free, perhaps
			time.Sleep(acceptPause)
			continue
		}
		cred, err := peercred.Of(conn)
		c.lock.Lock()
		if err != nil || c.folders[name] != f || len(f.sources) == mostReporters {
			conn.Close() // it comes again
			c.lock.Unlock()
			continue
		}
		c.next++
		s := &source{name: name, conn: conn, state: Process{PID: int(cred.Pid), UID: int(cred.Uid), Instance: c.next}}
		f.sources[s] = true
		c.lock.Unlock()
		go c.await(s, f)
	}
}

// await waits for the first byte of a process, or its end. A process that sends without a request is disconnected.
func (c *Collector) await(s *source, f *collected) {
	n, _ := s.conn.Read(s.first[:])
	c.lock.Lock()
	delete(f.sources, s)
	asked := s.asked
	s.ended = n == 0
	c.lock.Unlock()
	if asked == nil {
		s.conn.Close()
		return
	}
	asked <- s
}

// Counts returns how many processes there are, by the folder's name.
func (c *Collector) Counts() map[string]int {
	c.lock.Lock()
	defer c.lock.Unlock()
	counts := map[string]int{}
	for name, f := range c.folders {
		if len(f.sources) > 0 {
			counts[name] = len(f.sources)
		}
	}
	return counts
}

// Read asks all processes, and calls take with the folder's name and the state of each, one after the other. Processes
// that end meanwhile are left out. Silent processes are reported as such after some seconds, and delay no other.
func (c *Collector) Read(ctx context.Context, take func(name string, p *Process)) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	silent, answers := c.ask()
	defer func() { // of sources that are not awaited any more
		for s := range silent {
			s.conn.Close()
		}
	}()
	patience := time.NewTimer(readTime)
	defer patience.Stop()
	for len(silent) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s := <-answers:
			delete(silent, s)
			s.read(ctx)
			if !s.ended {
				take(s.name, &s.state)
			}
		case <-patience.C:
			for s := range silent {
				s.state.Err = fmt.Errorf("it did not answer within %v: it is frozen", readTime)
				take(s.name, &s.state)
			}
			return nil
		}
	}
	return nil
}

// ask asks all processes. The channel has room for all their answers.
func (c *Collector) ask() (silent map[*source]bool, answers <-chan *source) {
	c.lock.Lock()
	defer c.lock.Unlock()
	silent = map[*source]bool{}
	for _, f := range c.folders {
		for s := range f.sources {
			silent[s] = true
		}
	}
	all := make(chan *source, len(silent))
	for s := range silent {
		s.asked = all
		_, _ = s.conn.Write([]byte{0}) // the first, so there is room; an error is the process's end, which await sees
	}
	return silent, all
}

// read reads the snapshot of a process that has begun to tell it, and closes the connection.
func (s *source) read(ctx context.Context) {
	defer s.conn.Close()
	if s.ended {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { s.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	p := &s.state
	p.State, p.Err = observe.Read(io.MultiReader(bytes.NewReader(s.first[:]), io.LimitReader(s.conn, mostReportBytes)))
	if p.At = time.Now(); p.Err == nil {
		p.Command = p.State.Command
		if p.PID == 0 { // it is of a PID namespace that is not seen here
			p.PID = p.State.PID
		}
	}
}
