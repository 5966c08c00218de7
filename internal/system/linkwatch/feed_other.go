// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package linkwatch

import "net/netip"

// addrFeed would report changes.
type addrFeed struct{}

func newAddrFeed(netip.Addr, int) *addrFeed { return nil }

func (*addrFeed) start(func(state, int)) {}
func (*addrFeed) close()                 {}
