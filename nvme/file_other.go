// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nvme

import (
	"io"
	"os"
)

// NewFile returns a file as a disk, for [Namespace]. It is a Deallocator where the file system can punch holes.
func NewFile(f *os.File) io.ReaderAt { return f }
