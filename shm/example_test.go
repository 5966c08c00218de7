// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shm_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/shm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Two devices, as two processes of a host would have one each, and a message between them.
func Example() {
	ctx := context.Background()
	server := must(shm.Open(loopbackAddress(), nil))
	defer server.Close()
	l := must(cm.Listen(ctx, server, ":0"))
	go func() {
		conn := must(l.Accept(ctx))
		msg := must(conn.Recv(ctx))
		conn.Send(ctx, append([]byte("hello, "), msg.Bytes()...))
		msg.Release()
	}()

	client := must(shm.Open(loopbackAddress(), nil))
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

// A table in a file that several processes have. One of them serves it, to be read only, and clients READ it. Whoever
// has the file can change the table.
func Example_sharedTable() {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", "table"))
	defer os.RemoveAll(dir)
	table := must(os.Create(filepath.Join(dir, "table")))
	defer table.Close()
	must(0, table.Truncate(1<<20))

	server := must(shm.Open(loopbackAddress(), nil))
	defer server.Close()
	pd := must(server.AllocPD())
	region := must(pd.RegShared(table.Fd(), 0, 1<<20, verbs.RemoteRead))
	where := must(region.Remote().MarshalBinary())
	l := must(cm.Listen(ctx, server, ":0", cm.WithPD(pd), cm.WithPrivateData(where)))
	go l.Accept(ctx)

	client := must(shm.Open(loopbackAddress(), nil))
	defer client.Close()
	conn := must(cm.Dial(ctx, client, l.Addr().String()))
	defer conn.Close()
	var remote verbs.Remote
	must(0, remote.UnmarshalBinary(conn.Param().PrivateData[:verbs.RemoteSize]))
	buf := must(conn.Pool().Get(32))
	for _, row := range []string{"first", "second"} {
		must(table.WriteAt([]byte(fmt.Sprintf("%-8s", row)), 4096)) // by any process
		must(0, conn.Read(ctx, buf.SGE(8), remote.At(4096)))
		fmt.Printf("%q\n", buf.Bytes()[:8])
	}
	// Output:
	// "first   "
	// "second  "
}
