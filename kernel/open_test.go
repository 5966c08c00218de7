// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The error is the reason why a device file cannot be opened, not that libibverbs found no other.
func TestRealErrno(t *testing.T) {
	folder := t.TempDir() // which nobody opens for writing
	for _, c := range []struct {
		said syscall.Errno
		file string
		want syscall.Errno
	}{
		{syscall.ENOENT, folder, syscall.EISDIR},
		{syscall.ENOENT, filepath.Join(folder, "uverbs0"), syscall.ENOENT},
		{syscall.ENOENT, "/dev/null", syscall.ENOENT},
		{syscall.EAGAIN, folder, syscall.EAGAIN},
	} {
		if got := realErrno(c.said, c.file); got != c.want {
			t.Errorf("%s: %v, want %v", c.file, got, c.want)
		}
	}
}

// The error of a device that cannot be opened names the files to look at.
func TestNotOpened(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.ENOENT: "modprobe ib_uverbs",
		syscall.EAGAIN: "rdma.max",
	} {
		if err := notOpened(errno, "no-such"); !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v does not say %q", errno, err, want)
		}
	}
}
