// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package iwarp

import (
	"errors"
	"net"
	"net/netip"
	"time"
)

// receive hands packets to their associations until the socket is closed.
func (m *sctpMux) receive() {
	defer close(m.done)
	for {
		n, from, err := m.udp.ReadFromUDPAddrPort(m.packet)
		switch {
		case err == nil:
			m.take(m.packet[:n], netip.AddrPortFrom(from.Addr().Unmap(), from.Port()))
		case errors.Is(err, net.ErrClosed):
			return
		default: // of packets that were sent, or an error that lasts: it is not to keep a processor busy
			time.Sleep(time.Millisecond)
		}
	}
}

// poll does nothing: only the socket's goroutine reads it.
func (m *sctpMux) poll() {}
