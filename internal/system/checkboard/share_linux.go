// SPDX-License-Identifier: Apache-2.0

package checkboard

import (
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/forkmark"
)

// seals keep the memory's length as it is.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// prefix begins the name of a board's socket. An at sign stands for the zero byte.
func prefix() string { return fmt.Sprintf("@ramjet/check/%d/", os.Geteuid()) }

// Open makes a board, and finds the boards of other processes.
func Open() (b *Board, err error) {
	fd, err := unix.MemfdCreate("ramjet-check", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	if err := unix.Ftruncate(fd, size); err != nil {
		return nil, os.NewSyscallError("ftruncate", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	forkmark.Set(s)
	var random [8]byte
	rand.Read(random[:])
	name := fmt.Sprintf("%s%d/%d/%x", prefix(), os.Getpid(), fd, random)
	if err := unix.Bind(s, &unix.SockaddrUnix{Name: name}); err != nil {
		unix.Close(s)
		return nil, os.NewSyscallError("bind", err)
	}
	b = &Board{own: view(mem), others: map[string]*memory{name: nil}}
	b.close = func() { unix.Close(s); unix.Close(fd) }
	b.setClock()
	b.find()
	return b, nil
}

// setClock compares the clock of package time with the host's, as closely as a few attempts can.
func (b *Board) setClock() {
	for range 10 {
		var t unix.Timespec
		start := time.Now()
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
			return
		}
		took := uint64(time.Since(start))
		if now := uint64(t.Nano()); b.start.IsZero() || took < b.slack {
			b.start, b.clock, b.slack = start, now-took, took
		}
	}
	b.slack += uint64(time.Microsecond)
}

// find maps the boards that are new.
func (b *Board) find() {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return
	}
	if len(b.others) >= maxOthers {
		for name, m := range b.others { // boards that have ended make room
			if strings.Contains(string(table), name) {
				continue
			}
			if m != nil {
				unix.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(m)), size))
			}
			delete(b.others, name)
		}
	}
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) == 0 || len(b.others) >= maxOthers {
			continue
		}
		name := f[len(f)-1]
		if _, known := b.others[name]; known || !strings.HasPrefix(name, prefix()) {
			continue
		}
		b.others[name] = open(strings.TrimPrefix(name, prefix()))
	}
}

// parse returns the process and the descriptor that the rest of a socket's name has.
func parse(rest string) (pid, fd uint64, ok bool) {
	parts := strings.Split(rest, "/")
	if len(parts) != 3 {
		return 0, 0, false
	}
	pid, err1 := strconv.ParseUint(parts[0], 10, 31)
	fd, err2 := strconv.ParseUint(parts[1], 10, 31)
	return pid, fd, err1 == nil && err2 == nil
}

// open maps the board that a socket's name tells of; nil: it is none. Anybody may have given a socket that name.
func open(rest string) *memory {
	pid, fd, ok := parse(rest)
	if !ok {
		return nil
	}
	file, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", pid, fd),
		unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(file)
	var s unix.Stat_t
	if err := unix.Fstat(file, &s); err != nil || s.Uid != uint32(os.Geteuid()) || s.Size != size {
		return nil
	}
	if got, err := unix.FcntlInt(uintptr(file), unix.F_GET_SEALS, 0); err != nil || got&unix.F_SEAL_SHRINK == 0 {
		return nil
	}
	mem, err := unix.Mmap(file, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	return view(mem)
}
