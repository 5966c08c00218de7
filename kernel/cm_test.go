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
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// addressOf returns an IP address of a device: by which others reach it.
func addressOf(t testing.TB, dev *verbs.Device) netip.Addr {
	t.Helper()
	var addrs []netip.Addr
	if n, ok := driver.DeviceOf(dev).(driver.Connector); ok {
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

// named returns the devices to connect: devices of Ramjet's library, or one of the kernel twice.
func named(t *testing.T) (client, server string) {
	if name := os.Getenv(deviceVariable); name != "" {
		return name, name
	}
	names := ownDevices(t)
	return names[0], names[len(names)-1]
}

// A peer that has the reply refuses it: the side that has accepted learns of that.
func TestRefusedReply(t *testing.T) {
	server := open(t, ownDevices(t)[0])
	client, addr := loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ch := [2]*cm.EventChannel{cm.NewEventChannel(), cm.NewEventChannel()}
	next := func(i int, want cm.EventType) *cm.Event {
		t.Helper()
		e, err := ch[i].Get(ctx)
		if err != nil || e.Type != want {
			t.Fatalf("%v, %v, want %v", e, err, want)
		}
		return e
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	l, err := cm.NewID(ch[0], server, cm.TCP)
	must(err)
	defer l.Close()
	must(l.Bind(netip.AddrPort{}))
	must(l.Listen(0))
	id, err := cm.NewID(ch[1], client, cm.TCP)
	must(err)
	must(id.ResolveAddr(netip.AddrPortFrom(addr, 0), netip.AddrPortFrom(addressOf(t, server), l.LocalAddr().Port()),
		time.Minute))
	next(1, cm.AddrResolved)
	must(id.ResolveRoute(time.Minute))
	next(1, cm.RouteResolved)
	// With a queue pair of its own the client would establish the connection without being asked.
	p := cm.DefaultConnParam
	p.QPNum = 100
	must(id.Connect(&p))
	in := next(0, cm.ConnectRequest).ID
	defer in.Close()
	pd, err := server.AllocPD()
	must(err)
	cq, err := server.CreateCQ(16, nil)
	must(err)
	_, err = in.CreateQP(pd, verbs.QPInit{SendCQ: cq, RecvCQ: cq})
	must(err)
	must(in.Accept(nil))
	next(1, cm.ConnectResponse)
	must(id.Close())
	next(0, cm.Rejected)
}

// Two ends connect by address and port, exchange private data and messages, and one of them goes.
func TestConnect(t *testing.T) {
	a, b := named(t)
	client, server := open(t, a), open(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	l, err := cm.Listen(ctx, server, netip.AddrPortFrom(addressOf(t, server), 0).String())
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
