// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// The names of listeners in a directory are files, which stay when a process is killed. A process that publishes or
// removes one holds the directory's lock. So a file without a listener was left behind: its process is not about to
// listen, and it is not replaced by another file between a look at it and its removal.

const (
	// lockPatience limits the wait for the lock, which others hold for microseconds.
	lockPatience = 2 * time.Second
	lockPause    = time.Millisecond
)

// lock locks the directory for this user. The lock is a file, which is there as long as it is held. Each user has one
// of his own, which no other user can hold: the directory may be everybody's.
func (p Place) lock() (unlock func(), err error) {
	path := filepath.Join(p.Dir, fmt.Sprintf(".ramjet-lock-%d", os.Geteuid()))
	for end := time.Now().Add(lockPatience); ; time.Sleep(lockPause) {
		fd, err := tryLock(path)
		switch {
		case err == nil:
			return func() {
				unix.Unlink(path)
				unix.Flock(fd, unix.LOCK_UN) // a child that was forked meanwhile has the descriptor, too
				unix.Close(fd)
			}, nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			return nil, err
		case time.Now().After(end):
			return nil, fmt.Errorf("%s is locked by another process, which may be stopped", path)
		}
	}
}

// tryLock locks a file of this user, and creates it if need be. unix.EWOULDBLOCK means that another process has, or had
// just now, the lock.
func tryLock(path string) (fd int, err error) {
	fd, err = unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return -1, fmt.Errorf("%s cannot be opened: %w", path, err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil &&
		(int(st.Uid) != os.Geteuid() || st.Mode&(unix.S_IFMT|0o077) != unix.S_IFREG) {
		err = fmt.Errorf("%s is not a file of this user alone: remove it", path)
	}
	if err == nil {
		if err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err == unix.EINTR {
			err = unix.EWOULDBLOCK
		}
	}
	if dev, inode := identity(path); err == nil && (dev != uint64(st.Dev) || inode != st.Ino) {
		err = unix.EWOULDBLOCK // the lock's former holder has removed the file
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// socketFile is the file of a listener.
type socketFile struct {
	place      Place
	path       string
	dev, inode uint64
}

// publish gives a socket its name, and listens. A file that was left behind is replaced.
func (p Place) publish(fd int, at *unix.SockaddrUnix, backlog int) (*socketFile, error) {
	unlock, err := p.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	err = unix.Bind(fd, at)
	if err == unix.EADDRINUSE && abandoned(at) && unix.Unlink(at.Name) == nil {
		err = unix.Bind(fd, at)
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, backlog); err != nil {
		unix.Unlink(at.Name)
		return nil, err
	}
	f := &socketFile{place: p, path: at.Name}
	f.dev, f.inode = identity(at.Name)
	return f, nil
}

// abandoned reports whether no process listens at a name. The lock is held.
func abandoned(at *unix.SockaddrUnix) bool {
	fd, err := newSocket()
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return errors.Is(unix.Connect(fd, at), unix.ECONNREFUSED)
}

// identity tells a file from others of the same name. Both are zero if there is none.
func identity(path string) (dev, inode uint64) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return 0, 0
	}
	return uint64(st.Dev), st.Ino
}

// remove removes the file, unless it is another listener's now. Without the lock it stays: the next listener replaces
// it.
func (f *socketFile) remove() {
	unlock, err := f.place.lock()
	if err != nil {
		return
	}
	defer unlock()
	if dev, inode := identity(f.path); inode != 0 && dev == f.dev && inode == f.inode {
		unix.Unlink(f.path)
	}
}
