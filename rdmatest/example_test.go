// SPDX-License-Identifier: Apache-2.0

package rdmatest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/rdmatest"
)

// A server answers a client, on a network that loses packets and parts hosts for a time.
func ExampleRun() {
	var t *testing.T // of TestHello

	rdmatest.Run(t, 100, func(w *rdmatest.World) {
		server, client := w.Host("server"), w.Host("client")
		s, c := server.RoCE(), client.RoCE()
		w.Draw(rdmatest.Packets | rdmatest.Passing)

		l, err := cm.Listen(t.Context(), s, ":7")
		if err != nil {
			w.Fatal(err)
		}
		server.Go(func(ctx context.Context) error {
			conn, err := l.Accept(ctx)
			if err != nil {
				return err
			}
			return conn.Send(ctx, []byte("hello"))
		})
		err = client.Go(func(ctx context.Context) error {
			conn, err := cm.Dial(ctx, c, server.Addr().String()+":7")
			if err != nil {
				return err
			}
			defer conn.Close()
			m, err := conn.Recv(ctx)
			if err != nil {
				return err
			}
			defer m.Release()
			if got := string(m.Bytes()); got != "hello" {
				return fmt.Errorf("%q arrives", got)
			}
			return nil
		}).Wait()
		if err != nil {
			w.Fatal(err)
		}
	})
}

// Two connected devices, in real time.
func ExampleConns() {
	var t *testing.T // of TestHello

	a, b := rdmatest.Pair(t)
	server, client := rdmatest.Conns(t, a, b)
	if err := server.Send(t.Context(), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	m, err := client.Recv(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.Release()
}
