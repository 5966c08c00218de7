// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"fmt"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
)

// Two devices of one address, as two processes have them: each has listeners of its own,
// one port has one listener, and one can call the other.
func TestSharedAddress(t *testing.T) {
	a := open(t)
	addr := a.Name()[len("roce:"):]
	b, err := roce.Open(addr, nil)
	if err != nil {
		t.Skipf("an address has one device here: %v", err)
	}
	defer b.Close()
	l := listen(t, a)
	_, err = cm.Listen(t.Context(), b, l.Addr().String())
	fails(t, err, cm.ErrAddrInUse, addr, fmt.Sprint(l.Addr().Port()))
	other := listen(t, b)
	for _, c := range []struct {
		from, to string
		l        *cm.Listener
	}{{"b", "a", l}, {"a", "b", other}, {"a", "a", l}} {
		dev := a
		if c.from == "b" {
			dev = b
		}
		in := accept(t, c.l)
		conn, err := cm.Dial(within(t), dev, c.l.Addr().String())
		ok(t, err)
		s := <-in
		ok(t, s.err)
		ok(t, conn.Send(within(t), []byte(c.from+" to "+c.to)))
		m, err := s.c.Recv(within(t))
		ok(t, err)
		if string(m.Bytes()) != c.from+" to "+c.to {
			t.Errorf("%q", m.Bytes())
		}
		m.Release()
		ok(t, conn.Close())
		ok(t, s.c.Close())
	}
	at := l.Addr().String()
	ok(t, l.Close())
	again, err := cm.Listen(t.Context(), b, at) // the port is free again
	ok(t, err)
	ok(t, again.Close())
}

func TestIPv6(t *testing.T) {
	loopback.Alone(t)
	dev, err := roce.Open("::1", nil)
	if err != nil {
		t.Skip(err)
	}
	defer dev.Close()
	l := listen(t, dev)
	in := accept(t, l)
	c, err := cm.Dial(within(t), dev, l.Addr().String())
	ok(t, err)
	s := <-in
	ok(t, s.err)
	if s.c.PeerAddr() != c.LocalAddr() {
		t.Errorf("%v is %v there", c.LocalAddr(), s.c.PeerAddr())
	}
	ok(t, c.Send(within(t), []byte("hello")))
	ok(t, s.c.Close())
	ok(t, c.Close())
}
