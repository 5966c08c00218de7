// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/device/cdevices"
)

// The folder that stands for /sys and /dev is shared by all programs that see the same devices. Its
// users hold a shared lock on it: the program, and children that inherit its open files. `ramjet
// run` becomes the program, so it cannot remove the folder afterwards. A separate process does,
// once the program has ended and the lock is free. Locking is tried this many times while others
// create and remove folders.
const folderTries = 100

// folder is the locked folder of a description.
type folder struct {
	root string
	lock *os.File
}

var (
	errGone = errors.New("the folder is gone")
	// errForeign means that a folder, a link or a file has the name to which others can write.
	errForeign = errors.New("the name is not that of a folder of this user alone")
)

// folderOf creates or finds the folder of a description. Where users share the place of the folders, another one can
// take its name first, which the description tells. The folder then has a name that nobody can tell, and is not shared.
func folderOf(s *cdevices.Sysfs) (*folder, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	dir, prefix := folderPlace()
	sweep(dir, prefix)
	root := filepath.Join(dir, fmt.Sprintf("%s%x", prefix, sum[:8]))
	for range folderTries {
		f, err := lockFolder(root, unix.LOCK_SH)
		switch {
		case errors.Is(err, errGone):
			f, err = newFolder(s, dir, prefix, root)
		case errors.Is(err, errForeign):
			f, err = newFolder(s, dir, prefix, "")
		}
		if !errors.Is(err, errGone) && !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("%s comes and goes", root)
}

// folderPlace returns where the folders are, and the prefix of their names.
func folderPlace() (dir, prefix string) {
	dir = os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" || !isOurs(dir) {
		dir = os.TempDir()
	}
	return dir, fmt.Sprintf("ramjet-run-%d-", os.Getuid())
}

// lockFolder locks an existing folder of this user. It returns errGone if there is none.
func lockFolder(root string, how int) (*folder, error) {
	before, err := os.Lstat(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errGone
	}
	if err != nil {
		return nil, err
	}
	if !isOurs(root) {
		return nil, fmt.Errorf("%s: %w", root, errForeign)
	}
	f, err := os.OpenFile(root, syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, errGone
	}
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(int(f.Fd()), how)
	}
	after, gone := os.Lstat(root)
	if err != nil || gone != nil || !os.SameFile(before, after) { // somebody has removed it meanwhile
		f.Close()
		return nil, cmp.Or(err, errGone)
	}
	return &folder{root, f}, nil
}

// newFolder creates a folder that is locked from the start, for this user alone (mode 0700). It returns fs.ErrExist if
// somebody was first. Without a root it keeps the random name that it is made under.
func newFolder(s *cdevices.Sysfs, dir, prefix, root string) (*folder, error) {
	made, err := os.MkdirTemp(dir, prefix+"new-")
	if err != nil {
		return nil, err
	}
	f, err := lockFolder(made, unix.LOCK_SH)
	if err == nil {
		err = s.Write(made)
	}
	if err == nil && root == "" {
		return f, nil
	}
	if err == nil {
		if err = os.Rename(made, root); err == nil {
			f.root = root
			return f, nil
		}
		// EPERM: another user was
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOTDIR) {
			err = fs.ErrExist
		}
	}
	os.RemoveAll(made)
	if f != nil {
		f.lock.Close()
	}
	return nil, err
}

// removeFolder removes a folder once nobody else holds its lock. how says whether to wait for that.
func removeFolder(root string, how int) {
	if f, err := lockFolder(root, how); err == nil {
		os.RemoveAll(root)
		f.lock.Close()
	}
}

// sweep removes folders left by sweepers that were killed.
func sweep(dir, prefix string) {
	all, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	if err != nil {
		return
	}
	for _, root := range all {
		// not one that is just being created
		if fi, err := os.Lstat(root); err == nil && time.Since(fi.ModTime()) > time.Minute {
			removeFolder(root, unix.LOCK_EX|unix.LOCK_NB)
		}
	}
}

// keep keeps the folder until this process, whatever program it becomes, has ended, and all that
// inherit the lock.
func (f *folder) keep() error {
	if out, err := exec.Command("/proc/self/exe", sweeper, f.root,
		strconv.Itoa(os.Getpid())).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	_, err := unix.FcntlInt(f.lock.Fd(), unix.F_SETFD, 0)
	return err
}

// sweeper is the command that removes the folder. Called with a process id, it starts the process
// that waits, and exits: the program must not have a child that it does not know.
const sweeper = "remove-folder"

func newSweeperCmd() *cobra.Command {
	c := &cobra.Command{Use: sweeper + " FOLDER [PROCESS]", Hidden: true, Args: cobra.RangeArgs(1, 2)}
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		if len(args) == 1 {
			waitFor(3)
			removeFolder(args[0], unix.LOCK_EX)
			return nil
		}
		pid, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		waiting := exec.Command("/proc/self/exe", sweeper, args[0])
		waiting.Dir, waiting.SysProcAttr = "/", &syscall.SysProcAttr{Setsid: true}
		// Without the descriptor, before Linux 5.3, only the lock tells how long the folder is
		// needed.
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			waiting.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "process")}
		}
		return waiting.Start()
	})
}

// waitFor waits for the end of a process, given its descriptor.
func waitFor(process int) {
	p := []unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(p, -1); err != unix.EINTR {
			return
		}
	}
}

// isOurs reports whether dir is a folder to which only this user can have written.
func isOurs(dir string) bool {
	fi, err := os.Lstat(dir)
	if err != nil || !fi.IsDir() || fi.Mode().Perm() != 0o700 {
		return false
	}
	st, is := fi.Sys().(*syscall.Stat_t)
	return is && int(st.Uid) == os.Getuid()
}
