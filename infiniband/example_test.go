// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// A fabric of four adapters at two levels of switches, and a message between two of them.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	f := must(infiniband.GenerateFabric("fat-tree:2,2", nil))
	defer f.Close()
	if err := f.AwaitActive(ctx); err != nil {
		log.Fatal(err)
	}

	server := must(f.Open("host-4", nil)) // 198.18.0.4
	defer server.Close()
	l := must(cm.Listen(ctx, server, ":7471"))
	go func() {
		conn := must(l.Accept(ctx))
		msg := must(conn.Recv(ctx))
		conn.Send(ctx, append([]byte("hello, "), msg.Bytes()...))
		msg.Release()
	}()

	client := must(f.Open("host-1", nil))
	defer client.Close()
	conn := must(cm.Dial(ctx, client, "198.18.0.4:7471"))
	defer conn.Close()
	if err := conn.Send(ctx, []byte("gopher")); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", must(conn.Recv(ctx)).Bytes())
	// Output: hello, gopher
}
