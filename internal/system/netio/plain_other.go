// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin && !freebsd

package netio

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

func listenGroup(netip.AddrPort, *net.Interface) (*net.UDPConn, error) {
	return nil, fmt.Errorf("multicast: %w on this system", errors.ErrUnsupported)
}

func multicastRoute(netip.Addr, *net.Interface) error { return nil }

func multicastThrough(*net.UDPConn, bool, *net.Interface) error {
	return fmt.Errorf("multicast: %w on this system", errors.ErrUnsupported)
}

// dontFragment leaves the system's default.
func dontFragment(*net.UDPConn, bool) error { return nil }
