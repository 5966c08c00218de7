// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/ramjet-rdma/ramjet/cm"
)

// TestStreamsKept: the pcapng has the data of streams.
func TestStreamsKept(t *testing.T) {
	log := &Log{Packets: true}
	synctest.Test(t, func(t *testing.T) {
		n := New(1, log)
		defer n.Close()
		a, b := n.NewHost(), n.NewHost()
		server, err := a.OpenIWARP()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		client, err := b.OpenIWARP()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		l, err := cm.Listen(t.Context(), server, ":7")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			if conn, err := l.Accept(t.Context()); err == nil {
				conn.Close()
			}
		}()
		conn, err := cm.Dial(t.Context(), client, a.Addr().String()+":7")
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	})
	var file bytes.Buffer
	if err := log.WritePackets(&file); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"MPA ID Req Frame", "MPA ID Rep Frame"} {
		if !bytes.Contains(file.Bytes(), []byte(want)) {
			t.Errorf("there is no %q in the pcapng of %d bytes", want, file.Len())
		}
	}
}
