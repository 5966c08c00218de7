// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
)

// TestPark parks at a network until a peer connects, and for a time while nothing happens, after
// each way to wake Wait.
func TestPark(t *testing.T) {
	const patience = 2 * time.Minute
	at := netip.MustParseAddrPort("127.0.0.1:0")
	n, err := newNetwork(at.Addr(), &Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	a, err := n.Listen(at, 1)
	if err != nil {
		t.Fatal(err)
	}
	a.Own(a)
	park := n.(softdev.Parker).Park

	n.Wake()
	const short = 5 * time.Millisecond
	slept := time.Duration(0)
	for try := 0; slept < short && try < 100; try++ { // a signal may end one
		start := time.Now()
		park(short)
		slept = time.Since(start)
	}
	if slept < short {
		t.Error("nothing has arrived, and it does not sleep")
	}
	if err := n.Wait(); err != nil { // ended by Wake
		t.Fatal(err)
	}

	ended := make(chan struct{})
	go func() { park(2 * patience); close(ended) }()
	time.Sleep(time.Millisecond)
	l, err := n.Dial(at, a.Addr(), 0)
	if err != nil {
		t.Fatal(err)
	}
	l.Own(l)
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("a peer has connected, and it sleeps")
	}
}
