// SPDX-License-Identifier: Apache-2.0

// Command respserver is a small server of strings and of channels over RDMA, for valkey-cli --rdma,
// valkey-benchmark --rdma and clients in Go. It is an example of package valkey's Listener, and no
// database.
//
//	respserver DEVICE ADDRESS     such as respserver roce:192.0.2.7 :6379
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/valkey"
	"github.com/ramjet-rdma/ramjet/valkey/internal/resp"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: respserver DEVICE ADDRESS, such as respserver roce:192.0.2.7 :6379")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "respserver:", err)
		os.Exit(1)
	}
}

func serve(device, address string) error {
	dev, err := ramjet.Open(device)
	if err != nil {
		return err
	}
	defer dev.Close()
	l, err := valkey.Listen(context.Background(), dev, address)
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	var s resp.Server
	return s.Serve(l)
}
