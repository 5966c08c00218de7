// SPDX-License-Identifier: Apache-2.0

package rdmatest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/rdmatest"
)

// A client sends a server a message, on a network that loses packets and parts hosts for a time.
func ExampleRun() {
	var t *testing.T // of TestHello

	rdmatest.Run(t, 100, hello)
}

// hello is the test of one world.
func hello(w *rdmatest.World) {
	server, client := w.Host("server"), w.Host("client")
	s, c := server.RoCE(), client.RoCE()
	w.Draw(rdmatest.Packets | rdmatest.Passing)

	l, err := cm.Listen(w.Context(), s, ":7")
	if err != nil {
		w.Fatal(err)
	}
	received := server.Go(func(ctx context.Context) error {
		conn, err := l.Accept(ctx)
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
		<-conn.Done() // the client closes it: until then it may not know that its message is here
		return nil
	})
	client.Go(func(ctx context.Context) error {
		conn, err := cm.Dial(ctx, c, server.Addr().String()+":7")
		if err != nil {
			return err
		}
		defer conn.Close()
		return conn.Send(ctx, []byte("hello"))
	})
	if err := received.Wait(); err != nil {
		w.Fatal(err)
	}
}
