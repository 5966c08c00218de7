// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// An ICMP error may reflect a moment, such as one process taking a port over from another. It
// counts if it is repeated after a pause of probeInterval. While nothing arrives the pauses grow from
// firstProbe to maxProbeInterval: hosts send few such errors per second.
const (
	probeInterval    = 150 * time.Millisecond
	firstProbe       = time.Second
	maxProbeInterval = 8 * time.Second
)

// Refused probes whether a socket receives at to. If there is none, it returns ICMP's report:
// syscall.ECONNREFUSED (no socket has the port), EHOSTUNREACH or ENETUNREACH. If nothing is reported
// it waits until ctx ends, and returns its error.
//
// It probes from a port of its own with datagrams that question makes, given that port. Their
// receivers have to drop them.
func (s *Socket) Refused(ctx context.Context, to netip.AddrPort, question func(from netip.AddrPort) []byte) error {
	local := net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.local.Addr(), 0))
	c, err := net.DialUDP("udp", local, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := besideSocket(c, s.impl); err != nil {
		return err
	}
	datagram := question(c.LocalAddr().(*net.UDPAddr).AddrPort())
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()
	said, pause := error(nil), firstProbe
	for ctx.Err() == nil {
		c.SetReadDeadline(time.Now().Add(pause))
		_, err := c.Write(datagram)
		for err == nil && ctx.Err() == nil { // a datagram that arrives here is not an answer
			_, err = c.Read(make([]byte, 1))
		}
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			said, pause = nil, min(2*pause, maxProbeInterval)
		case !unreachable(err):
			return err
		case said != nil:
			return err
		default:
			said = err
			select {
			case <-time.After(probeInterval):
			case <-ctx.Done():
			}
		}
	}
	return ctx.Err()
}

// unreachable reports whether a socket's error is an ICMP error of an earlier datagram.
func unreachable(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.ENETUNREACH)
}
