// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/mappings"
)

// Rights are a peer's rights to a segment.
type Rights int

// The rights of peers. The owner of a segment can always write to it.
const (
	ReadOnly Rights = iota
	ReadWrite
)

// Segment is memory that other processes can map. Its descriptor is handed to them.
type Segment struct {
	mem []byte
	fd  int // -1: it was closed

	renewed map[int]struct{} // pages of which peers have others
}

// fixed are the seals that every segment has. Without them a peer could cut it off, and a process
// that touches the missing part gets SIGBUS.
const fixed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Create makes a segment of size zero bytes, at least one, rounded up to pages. [mappings.ErrFull] and
// [ErrDescriptors] mean that the process has as many as it may. With ReadOnly the
// system refuses every other mapping that can be written to, also to peers that open the descriptor
// anew (F_SEAL_FUTURE_WRITE, Linux 5.1). name appears in /proc/PID/maps.
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
	s := &Segment{fd: fd}
	if err := spare(fd); err != nil {
		s.Close()
		return nil, err
	}
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
	if s.mem, err = mmap(fd, size, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
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

// Map maps a segment of a peer, and closes its descriptor, also if it fails. It refuses a segment that the
// peer could take away, and a segment of fewer than least bytes, or of more than most and the rest of a page.
func Map(fd, least, most int, rights Rights) (*Segment, error) {
	defer unix.Close(fd)
	mem, err := mapSealed(fd, least, most, rights)
	if err != nil {
		return nil, fmt.Errorf("the peer's shared memory: %w", err)
	}
	return &Segment{mem: mem, fd: -1}, nil
}

func mapSealed(fd, least, most int, rights Rights) ([]byte, error) {
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
	if page := os.Getpagesize(); int(st.Size) > most && int(st.Size)-most >= page {
		return nil, fmt.Errorf("it has %d bytes, and there is room for %d", st.Size, most)
	}
	prot := unix.PROT_READ
	if rights == ReadWrite {
		prot |= unix.PROT_WRITE
	}
	return mmap(fd, int(st.Size), prot)
}

// mmap maps a segment, of the process's budget.
func mmap(fd, size, prot int) ([]byte, error) {
	if err := mappings.Take(); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(fd, 0, size, prot, unix.MAP_SHARED)
	if err != nil {
		mappings.Give()
	}
	return mem, os.NewSyscallError("mmap", err)
}

// Writable reports whether a segment of a peer can be mapped for writing.
func Writable(fd int) bool {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	return err == nil && seals&(unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_WRITE) == 0
}

// Bytes returns the memory, page-aligned; nil: the segment is closed. The memory of a segment mapped
// ReadOnly must not be written to.
func (s *Segment) Bytes() []byte { return s.mem }

// FD returns the descriptor that peers map it by; -1: it was closed.
func (s *Segment) FD() int { return s.fd }

// Forget closes the descriptor. The memory stays.
func (s *Segment) Forget() error {
	if s.fd < 0 {
		return nil
	}
	fd := s.fd
	s.fd = -1
	return os.NewSyscallError("close", unix.Close(fd))
}

// Close unmaps the segment. Its memory is not in use any more. Peers keep their mappings.
func (s *Segment) Close() error {
	var err error
	if s.mem != nil {
		err = os.NewSyscallError("munmap", unix.Munmap(s.mem))
		s.mem = nil
		mappings.Give()
	}
	return errors.Join(err, s.Forget())
}

// Inode identifies the file behind a descriptor.
type Inode struct{ Dev, Number uint64 }

// InodeOf returns which file a descriptor is of.
func InodeOf(fd int) (Inode, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Inode{}, os.NewSyscallError("fstat", err)
	}
	return Inode{Dev: uint64(st.Dev), Number: st.Ino}, nil
}
