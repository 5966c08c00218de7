// SPDX-License-Identifier: Apache-2.0

//go:build unix

package iwarp

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// receive hands packets to their associations until the socket is closed.
func (m *sctpMux) receive() {
	defer close(m.done)
	m.raw.Read(func(fd uintptr) bool {
		m.reading.Lock()
		defer m.reading.Unlock()
		for m.receiveOne(fd) {
		}
		return false // waits until there is more
	})
}

// poll receives the socket's datagrams, on behalf of a program that polls: Go's scheduler would not
// look at the socket for milliseconds while a goroutine is busy polling.
func (m *sctpMux) poll() {
	if !m.reading.TryLock() {
		return
	}
	defer m.reading.Unlock()
	const most = 64 // packets
	m.raw.Control(func(fd uintptr) {
		for i := 0; i < most && m.receiveOne(fd); i++ {
		}
	})
}

// receiveOne receives a packet. It returns false if there is none.
func (m *sctpMux) receiveOne(fd uintptr) bool {
	n, sa, err := unix.Recvfrom(int(fd), m.packet, unix.MSG_DONTWAIT)
	if err != nil {
		return err != unix.EAGAIN && err != unix.EBADF // other errors concern packets that were sent
	}
	var from netip.AddrPort
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		from = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		from = netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	m.take(m.packet[:n], from)
	return true
}
