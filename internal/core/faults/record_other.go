// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package faults

import (
	"errors"
	"os"
)

// mapRecord fails: records are for `ramjet run`, which is for unix.
func mapRecord(*os.File, int) ([]byte, error) { return nil, errors.ErrUnsupported }
