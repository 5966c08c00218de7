// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/rnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestStreams: sockets of package rnet work on a fabric, by the adapters' IP addresses.
func TestStreams(t *testing.T) {
	f := softfabric.Start(t, "star:2")
	server, err := f.Open("host-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	client, err := f.Open("198.18.0.2", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	l, err := rnet.Listen(t.Context(), server, ":7471")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.Copy(c, c)
	}()
	c, err := rnet.Dial(t.Context(), client, "198.18.0.1:7471")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	want := bytes.Repeat([]byte("over and over "), 50_000)
	go func() {
		c.Write(want)
		c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes came back, or others: %v", len(got), len(want), err)
	}
}

// Datagram sockets need IP on the host, and say so.
func TestNoPackets(t *testing.T) {
	f := softfabric.Start(t, "pair")
	for _, address := range []string{":0", "198.18.0.1:0"} {
		p, err := rnet.ListenPacket(t.Context(), device(t, f, "host-1"), address)
		if err == nil {
			p.Close()
		}
		if !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "cm.UDP") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
