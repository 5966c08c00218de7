// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"net"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

func TestNetTest(t *testing.T) {
	t.Parallel()
	da, _ := open(t)
	db, _ := open(t)
	for name, o := range map[string]Options{
		"default":   {},
		"sleeping":  {Spin: -1},
		"probing":   {Spin: -1, KeepAlive: time.Microsecond},
		"small":     {SendBuffer: 1 << 10, RecvBuffer: 1 << 10, SendQueue: 16, RecvQueue: 16, Inline: -1},
		"long ring": {SendBuffer: 3 << 20, RecvBuffer: 5 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
				a, b := byHand(t, da, db, o, o)
				return a, b, func() { a.Close(); b.Close() }, nil
			})
		})
	}
}
