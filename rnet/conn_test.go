// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

// netTesting has nettest run once at a time: it gives each of its parts a minute, of which others take their share.
var netTesting sync.Mutex

// testConn runs nettest's checks of net.Conn.
func testConn(t *testing.T, pipe nettest.MakePipe) {
	netTesting.Lock()
	defer netTesting.Unlock()
	nettest.TestConn(t, pipe)
}

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
			testConn(t, func() (net.Conn, net.Conn, func(), error) {
				a, b := byHand(t, da, db, o, o)
				return a, b, func() { a.Close(); b.Close() }, nil
			})
		})
	}
}
