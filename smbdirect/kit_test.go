// SPDX-License-Identifier: Apache-2.0

package smbdirect_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/smbdirect"
	"github.com/ramjet-rdma/ramjet/smbdirect/internal/kit"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const patience = kit.Patience

var (
	ok     = kit.OK
	within = kit.Within
)

// kinds runs a test over each kind of device.
func kinds(t *testing.T, f func(t *testing.T, server, client *verbs.Device)) {
	kit.Kinds(t, func(t *testing.T, kind string) {
		server, client := rdmatest.PairOf(t, kind)
		f(t, server, client)
	})
}

// patient returns options with which a busy machine makes no difference.
func patient(o smbdirect.Options) smbdirect.Options {
	o.Negotiate, o.Linger = patience, patience
	if o.Idle == 0 {
		o.Idle = patience
	}
	if o.IdleResponse == 0 {
		o.IdleResponse = patience
	}
	return o
}

// listen listens at a free port.
func listen(t testing.TB, dev *verbs.Device, o smbdirect.Options) *smbdirect.Listener {
	t.Helper()
	l, err := smbdirect.Listen(t.Context(), dev, ":0", smbdirect.ListenOptions{Options: patient(o)})
	ok(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// pair returns both sides of a connection, the server's first.
func pair(t testing.TB, server, client *verbs.Device, so, co smbdirect.Options) (a, b *smbdirect.Conn) {
	t.Helper()
	l := listen(t, server, so)
	b, err := smbdirect.Dial(within(t), client, l.Addr().String(), patient(co))
	ok(t, err)
	t.Cleanup(func() { b.Close() })
	a, err = l.Accept(within(t))
	ok(t, err)
	t.Cleanup(func() { a.Close() })
	return a, b
}

// message returns bytes that follow from a seed.
func message(seed byte, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed, byte(n)}).Read(b)
	return b
}

// receives checks that a message arrives.
func receives(t testing.TB, c *smbdirect.Conn, want []byte) {
	t.Helper()
	got, err := c.ReadMessage(within(t))
	if err != nil {
		t.Error(err)
	} else if !bytes.Equal(got, want) {
		t.Errorf("%d other bytes, want %d", len(got), len(want))
	}
}
