// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"net/netip"
	"testing"
	"time"
)

// TestQueues asks for the bytes that wait at a socket before and after they are received.
func TestQueues(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "::1"} {
		t.Run(addr, func(t *testing.T) {
			local := netip.MustParseAddr(addr)
			a, b := listen(t, local, Options{}), listen(t, local, Options{})
			var q Queues
			defer q.Close()
			if n, ok := q.Received(a.LocalAddr(), b.LocalAddr()); !ok {
				t.Skip("this kernel does not tell")
			} else if n != 0 {
				t.Errorf("%d bytes wait at a new socket", n)
			}
			train := a.NewTrain()
			train.Reset(b.LocalAddr())
			train.Begin(5000)
			train.Add(make([]byte, 5000))
			if err := a.Send(train); err != nil {
				t.Fatal(err)
			}
			b.SetDeadline(time.Now().Add(patience))
			if err := b.Wait(); err != nil { // until it is there
				t.Fatal(err)
			}
			if n, ok := q.Received(a.LocalAddr(), b.LocalAddr()); !ok || n < 5000 {
				t.Errorf("%d bytes wait, %v", n, ok)
			}
			if n, ok := q.Received(b.LocalAddr(), a.LocalAddr()); !ok || n != 0 {
				t.Errorf("%d bytes wait at the sender, %v", n, ok)
			}
			b.Close()
			if n, ok := q.Received(a.LocalAddr(), b.LocalAddr()); ok {
				t.Errorf("%d bytes wait at no socket", n)
			}
			q.Close()
			if _, ok := q.Received(b.LocalAddr(), a.LocalAddr()); ok {
				t.Error("an answer after Close")
			}
		})
	}
}
