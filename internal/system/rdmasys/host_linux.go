// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Host returns this machine as a source of facts.
func Host() *Source {
	return &Source{Root: os.DirFS("/"), Open: tryOpen, Addrs: hostAddrs, PFC: readPFC, Memlock: memlock,
		Filters: readFilters, Offloads: offloads, Env: os.Getenv, SharedMem: sharedMemory}
}

// tryOpen opens a device file as libibverbs does. An open device that nothing is asked of holds
// nothing.
func tryOpen(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func memlock() (Memlock, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil {
		return Memlock{}, os.NewSyscallError("getrlimit", err)
	}
	m := Memlock{Known: true, Bytes: l.Cur, Unlimited: l.Cur == unix.RLIM_INFINITY}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err == nil {
		m.Privileged = data[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0
	}
	return m, nil
}

func offloads() (*Offloads, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	_, gso := unix.GetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT)
	gro := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1)
	return &Offloads{GSO: gso == nil, GRO: gro == nil}, nil
}

func sharedMemory() (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &s); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	if s.Type != unix.TMPFS_MAGIC {
		return 0, errors.New("/dev/shm is no tmpfs")
	}
	return int64(s.Blocks) * int64(s.Bsize), nil
}
