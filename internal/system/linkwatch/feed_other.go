// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package linkwatch

import "net/netip"

// addrReader would report changes.
type addrReader struct{}

func newAddrFeed(netip.Addr, int) *addrReader { return nil }

func (*addrReader) start(func(state, int)) {}
func (*addrReader) close()                 {}
