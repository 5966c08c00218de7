// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package netio

import "net"

// besideSocket is about network namespaces, which are of Linux.
func besideSocket(*net.UDPConn, transport) error { return nil }
