// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shm_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/shm"
)

// Two devices, as two processes of a host would have one each, and a message between them.
func Example() {
	ctx := context.Background()
	server := must(shm.Open("127.0.12.15", nil))
	defer server.Close()
	l := must(cm.Listen(server, ":7471"))
	go func() {
		conn := must(l.Accept(ctx))
		msg := must(conn.Recv(ctx))
		conn.Send(ctx, append([]byte("hello, "), msg.Bytes()...))
		msg.Release()
	}()

	client := must(shm.Open("127.0.12.16", nil))
	defer client.Close()
	conn := must(cm.Dial(ctx, client, "127.0.12.15:7471"))
	defer conn.Close()
	if err := conn.Send(ctx, []byte("gopher")); err != nil {
		log.Fatal(err)
	}
	msg := must(conn.Recv(ctx))
	defer msg.Release()
	fmt.Printf("%s\n", msg.Bytes())
	// Output: hello, gopher
}
