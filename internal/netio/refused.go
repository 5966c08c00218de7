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

// A word of ICMP may be about a moment, such as one process taking a port over from another:
// it counts when it comes again after a pause of askAgain. While nothing comes the pauses get
// longer, from firstAsk to lastAsk: hosts send few such words a second.
const (
	askAgain = 150 * time.Millisecond
	firstAsk = time.Second
	lastAsk  = 8 * time.Second
)

// Refused asks whether anybody receives at to, and returns what ICMP says if nobody does:
// syscall.ECONNREFUSED (nobody has the port), EHOSTUNREACH or ENETUNREACH. Where nothing is
// said it waits until ctx ends, and returns its error.
//
// It asks from a port of its own with datagrams that question makes, given that port: those
// who receive them have to drop them.
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
	said, pause := error(nil), firstAsk
	for ctx.Err() == nil {
		c.SetReadDeadline(time.Now().Add(pause))
		_, err := c.Write(datagram)
		for err == nil && ctx.Err() == nil { // what may arrive here is no answer
			_, err = c.Read(make([]byte, 1))
		}
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			said, pause = nil, min(2*pause, lastAsk)
		case !unreachable(err):
			return err
		case said != nil:
			return err
		default:
			said = err
			select {
			case <-time.After(askAgain):
			case <-ctx.Done():
			}
		}
	}
	return ctx.Err()
}

// unreachable reports whether a socket's error is what ICMP said of an earlier datagram.
func unreachable(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}
