// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"path/filepath"
	"syscall"
	"testing"
)

// What keeps a device file from being opened counts, not that libibverbs found no other.
func TestRealErrno(t *testing.T) {
	folder := t.TempDir() // which nobody opens for writing
	for _, c := range []struct {
		said syscall.Errno
		file string
		want syscall.Errno
	}{
		{syscall.ENOENT, folder, syscall.EISDIR},
		{syscall.ENOENT, filepath.Join(folder, "uverbs0"), syscall.ENOENT},
		{syscall.EINVAL, "/dev/null", syscall.EINVAL},
	} {
		if got := realErrno(c.said, c.file); got != c.want {
			t.Errorf("%s: %v, want %v", c.file, got, c.want)
		}
	}
}
