// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package rdmasys

import (
	"context"
	"net/netip"
)

// Path is Linux's: elsewhere nothing is known.
func Path(context.Context, Route, netip.Addr) PathTest {
	return PathTest{RoCE: NotSent, Problem: "the way to a peer is measured on Linux only"}
}
