// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// addressOf returns an IP address of a device: by which others reach it.
func addressOf(t testing.TB, dev *verbs.Device) netip.Addr {
	t.Helper()
	var addrs []netip.Addr
	if n, ok := dev.Driver().(verbs.NeighborDriver); ok {
		addrs = n.Addrs(1)
	}
	gids, err := dev.GIDs(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gids {
		addrs = append(addrs, g.GID.Addr())
	}
	for _, a := range addrs {
		if a.Is4() {
			return a
		}
	}
	t.Skipf("the device has no IPv4 address: %v", addrs)
	return netip.Addr{}
}

// named returns the devices to connect: those of Ramjet's library, or one of the kernel twice.
func named(t *testing.T) (client, server string) {
	if name := os.Getenv(deviceVariable); name != "" {
		return name, name
	}
	names := ownDevices(t)
	return names[0], names[len(names)-1]
}

// Two ends connect by address and port, exchange private data and messages, and one of them goes.
func TestConnect(t *testing.T) {
	a, b := named(t)
	client, server := open(t, a), open(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	l, err := cm.Listen(server, netip.AddrPortFrom(addressOf(t, server), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type result struct {
		c   *cm.Conn
		err error
	}
	accepted := make(chan result, 1)
	go func() {
		c, err := l.Accept(ctx)
		accepted <- result{c, err}
	}()
	c, err := cm.Dial(ctx, client, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := <-accepted
	if s.err != nil {
		t.Fatal(s.err)
	}
	defer s.c.Close()
	for i, want := range [][]byte{[]byte("hello"), bytes.Repeat([]byte("0123456789"), 100)} {
		from, to := c, s.c
		if i == 1 {
			from, to = to, from
		}
		if err := from.Send(ctx, want); err != nil {
			t.Fatal(err)
		}
		got, err := to.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("%q", got.Bytes())
		}
		got.Release()
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.c.Recv(ctx); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("receiving from a peer that has gone: %v", err)
	}
}
