// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package forkmark

import "syscall"

// SetConn does nothing: C programs run on Ramjet on Linux only.
func SetConn(syscall.Conn) {}
