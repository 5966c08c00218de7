// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package filecopy

import (
	"errors"
	"os"
)

// Files are mapped on Linux only: elsewhere nothing keeps others from truncating them, which would
// end the program.

func mapFile(*os.File, int64, int, bool) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapFile([]byte) error { return nil }

func reserve(*os.File, int64, int64) error { return errors.ErrUnsupported }

func lease(*os.File) bool { return false }

func leased(*os.File) bool { return true }
