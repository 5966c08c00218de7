// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/roce"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// Two devices on loopback addresses, and a message between them.
func Example() {
	ctx := context.Background()
	server := must(roce.Open(loopbackAddress(), nil))
	defer server.Close()
	l := must(cm.Listen(ctx, server, ":0"))
	go func() {
		conn := must(l.Accept(ctx))
		msg := must(conn.Recv(ctx))
		conn.Send(ctx, append([]byte("hello, "), msg.Bytes()...))
		msg.Release()
	}()

	client := must(roce.Open(loopbackAddress(), nil))
	defer client.Close()
	conn := must(cm.Dial(ctx, client, l.Addr().String()))
	defer conn.Close()
	if err := conn.Send(ctx, []byte("gopher")); err != nil {
		log.Fatal(err)
	}
	msg := must(conn.Recv(ctx))
	defer msg.Release()
	fmt.Printf("%s\n", msg.Bytes())
	// Output: hello, gopher
}
