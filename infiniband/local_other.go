// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package infiniband

import (
	"context"
	"errors"
	"net"
)

var errLinux = errors.New("infiniband: fabrics of other processes are reached on Linux only: elsewhere a fabric and its devices are in one process")

// Names returns the names of the fabrics that the user's processes run: none.
func Names() []string { return nil }

func listenLocal(string) (*net.UnixListener, error)            { return nil, errLinux }
func dialLocal(context.Context, string) (*net.UnixConn, error) { return nil, errLinux }
func admit(*net.UnixConn) error                                { return errLinux }
func stopped(*net.UnixConn) int                                { return 0 }
func writeNow(*net.UnixConn, []byte) int                       { return 0 }
