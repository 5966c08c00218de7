// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package citest tests an RDMA program in one process, on two loopback addresses: on a laptop, or on a
// hosted CI runner. docs/ci.md says more.
package citest

import (
	"context"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// open opens a device for a test.
func open(t *testing.T, name string) *verbs.Device {
	t.Helper()
	dev, err := ramjet.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

func TestCounter(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	server, client := open(t, "roce:127.0.72.1"), open(t, "roce:127.0.72.2")

	pd, err := server.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	counter, err := pd.AllocMR(8, verbs.LocalWrite|verbs.RemoteAtomic)
	if err != nil {
		t.Fatal(err)
	}
	l, err := cm.Listen(ctx, server, ":0", cm.WithPD(pd)) // port 0: any that is free
	if err != nil {
		t.Fatal(err)
	}
	go l.Accept(ctx)

	conn, err := cm.Dial(ctx, client, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for want := range uint64(3) {
		got, err := conn.FetchAdd(ctx, counter.Remote(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("ticket %d, want %d", got, want)
		}
	}
}
