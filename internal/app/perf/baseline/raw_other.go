// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package baseline

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

var errNotHere = fmt.Errorf("%w on this system", errors.ErrUnsupported)

func (s *Server) listenRaw(netip.AddrPort) error { return errNotHere }

func runRaw(context.Context, Config, netip.AddrPort, netip.AddrPort) (Result, error) {
	return Result{}, errNotHere
}

// PermitsCongestion returns an error that wraps [errors.ErrUnsupported]: congestion control is
// chosen on Linux only.
func PermitsCongestion(name string) error {
	return fmt.Errorf("congestion control %q: %w", name, errNotHere)
}

func congestionControl(name string) func(network, address string, c syscall.RawConn) error {
	if name == "" {
		return nil
	}
	return func(string, string, syscall.RawConn) error { return PermitsCongestion(name) }
}
