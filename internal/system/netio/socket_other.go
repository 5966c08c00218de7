// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package netio

import "net/netip"

// listenBatched opens the plain socket: batched calls are Linux's.
func listenBatched(local netip.AddrPort, o Options) (transport, netip.AddrPort, error) {
	return listenPlain(local, o)
}
