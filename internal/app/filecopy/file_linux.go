// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a part of a file with all of its pages present: a missing page is reported here and
// not by a signal later.
func mapFile(f *os.File, off int64, n int, write bool) ([]byte, error) {
	prot, advice := unix.PROT_READ, unix.MADV_POPULATE_READ
	if write {
		prot, advice = unix.PROT_READ|unix.PROT_WRITE, unix.MADV_POPULATE_WRITE
	}
	b, err := unix.Mmap(int(f.Fd()), off, n, prot, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.ErrUnsupported // the file system has no mappings
	}
	switch err := unix.Madvise(b, advice); err {
	case nil:
		return b, nil
	case unix.EINVAL: // before Linux 5.14
		err = errors.ErrUnsupported
		fallthrough
	default:
		unix.Munmap(b)
		return nil, fmt.Errorf("mapping the file: %w", err)
	}
}

func unmapFile(b []byte) error { return unix.Munmap(b) }

// reserve allocates the blocks for the bytes from..size of a file, without making it longer.
func reserve(f *os.File, from, size int64) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err == nil && uint64(size-from)/uint64(fs.Bsize) > fs.Bavail {
		// fallocate would fill the disk before it fails
		return fmt.Errorf("%w: %d bytes are needed", unix.ENOSPC, size-from)
	}
	for {
		switch err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, from, size-from); err {
		case unix.EINTR:
		case unix.EOPNOTSUPP, unix.ENOSYS:
			return errors.ErrUnsupported
		default:
			return err
		}
	}
}

// lease makes the system notify us when another program wants to write or truncate the file. That
// then waits until the lease is released, with the file, or for 45 s (fcntl(2), F_SETLEASE). lease reports
// whether it got the lease: not if the file is open for writing already, nor on other users' files.
func lease(f *os.File) bool {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	return err == nil
}

// leased reports whether no program has asked to write the file yet.
func leased(f *os.File) bool {
	l, err := unix.FcntlInt(f.Fd(), unix.F_GETLEASE, 0)
	return err == nil && l == unix.F_RDLCK
}
