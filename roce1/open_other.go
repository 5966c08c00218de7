// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package roce1

import (
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var errLinux = fmt.Errorf("roce1: %w: frames of RoCE v1 take raw sockets of Linux", verbs.ErrNotSupported)

// Open returns an error: see the package's documentation.
func Open(string, *Options) (*verbs.Device, error) { return nil, errLinux }

// GUID returns an error.
func GUID(string) (uint64, error) { return 0, errLinux }

// Permitted returns an error.
func Permitted() error { return errLinux }

// Pair returns an error.
func Pair() (a, b string, ok bool, err error) { return "", "", false, errLinux }
