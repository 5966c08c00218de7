// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Rights are what a peer may do with a segment.
type Rights int

// The rights of peers. Those who made the segment write to it always.
const (
	ReadOnly Rights = iota
	ReadWrite
)

// Segment is memory that other processes can map. Its descriptor is handed to them.
type Segment struct {
	mem  []byte
	file *os.File
}

// fixed are the seals that every segment has. Without them a peer could cut it off, and whoever
// touches what is missing gets SIGBUS.
const fixed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Create makes a segment of size zero bytes, at least one, rounded up to pages. With ReadOnly the
// system refuses every other mapping that can be written to, also to peers that open the descriptor
// anew (F_SEAL_FUTURE_WRITE, Linux 5.1). name is what /proc/PID/maps shows.
func Create(name string, size int, peers Rights) (*Segment, error) {
	page := os.Getpagesize()
	if size <= 0 || size > math.MaxInt-page {
		return nil, fmt.Errorf("shared memory of %d bytes: %w", size, unix.EINVAL)
	}
	size = (size + page - 1) / page * page
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	s := &Segment{file: os.NewFile(uintptr(fd), name)}
	if err := s.prepare(fd, size, peers); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Segment) prepare(fd, size int, peers Rights) (err error) {
	if err = unix.Ftruncate(fd, int64(size)); err != nil {
		return os.NewSyscallError("ftruncate", err)
	}
	if s.mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	seals := fixed
	if peers == ReadOnly {
		seals |= unix.F_SEAL_FUTURE_WRITE
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return os.NewSyscallError("fcntl(F_ADD_SEALS)", err)
	}
	return nil
}

// errUnsealed means that the memory could vanish while it is used.
var errUnsealed = errors.New("its size is not sealed (F_SEAL_SHRINK)")

// Map maps a segment of a peer and takes over its descriptor, also if it fails. It refuses one that
// the peer could take away, and one of fewer than least bytes.
func Map(f *os.File, least int, rights Rights) (*Segment, error) {
	s := &Segment{file: f}
	if err := s.attach(least, rights); err != nil {
		s.Close()
		return nil, fmt.Errorf("the peer's shared memory: %w", err)
	}
	return s, nil
}

func (s *Segment) attach(least int, rights Rights) error {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { s.mem, failed = mapSealed(int(fd), least, rights) })
	return errors.Join(err, failed)
}

func mapSealed(fd, least int, rights Rights) ([]byte, error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl(F_GET_SEALS)", err)
	}
	if seals&unix.F_SEAL_SHRINK == 0 {
		return nil, errUnsealed
	}
	// A page of a hugetlbfs file can be taken back all the same; touching it is SIGBUS when none is
	// left.
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return nil, os.NewSyscallError("fstatfs", err)
	}
	if fs.Type != unix.TMPFS_MAGIC {
		return nil, fmt.Errorf("it is of a file system %#x, not tmpfs", fs.Type)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if st.Size <= 0 || st.Size > math.MaxInt || int(st.Size) < least {
		return nil, fmt.Errorf("it has %d bytes, not %d", st.Size, max(1, least))
	}
	prot := unix.PROT_READ
	if rights == ReadWrite {
		prot |= unix.PROT_WRITE
	}
	mem, err := unix.Mmap(fd, 0, int(st.Size), prot, unix.MAP_SHARED)
	return mem, os.NewSyscallError("mmap", err)
}

// Bytes returns the memory, page-aligned; nil: the segment is closed. Nobody writes to that of a
// segment mapped ReadOnly.
func (s *Segment) Bytes() []byte { return s.mem }

// File returns the descriptor that peers map it by.
func (s *Segment) File() *os.File { return s.file }

// Close unmaps the segment. Nobody uses its memory any more. Peers keep what they have mapped.
func (s *Segment) Close() error {
	var err error
	if s.mem != nil {
		err = os.NewSyscallError("munmap", unix.Munmap(s.mem))
		s.mem = nil
	}
	return errors.Join(err, s.file.Close())
}
