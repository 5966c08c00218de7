// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package netio

import (
	"errors"
	"fmt"
	"net/netip"
)

// Connected would send to one peer with less work for the kernel.
type Connected struct{}

// Connect returns an error that wraps errors.ErrUnsupported.
func (s *Socket) Connect(to netip.AddrPort, ttl, tos uint8) (*Connected, error) {
	return nil, fmt.Errorf("netio: connect to %v: %w", to, errors.ErrUnsupported)
}

// LocalAddr, Identification, Send, Unsent, Recount and Close are not called without Connect.
func (*Connected) LocalAddr() netip.AddrPort { return netip.AddrPort{} }
func (*Connected) Identification() uint16    { return 0 }
func (*Connected) Send(*Train) error         { return errors.ErrUnsupported }
func (*Connected) Unsent() int               { return 0 }
func (*Connected) Recount() error            { return errors.ErrUnsupported }
func (*Connected) Close()                    {}
