// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// A server that answers each message of one client.
func Example() {
	ctx := context.Background()
	server := must(roce.Open(loopbackAddress(), nil))
	defer server.Close()
	l := must(cm.Listen(ctx, server, ":0"))
	go func() {
		conn := must(l.Accept(ctx))
		defer conn.Close()
		for {
			msg, err := conn.Recv(ctx)
			if err != nil {
				return // io.EOF
			}
			conn.Send(ctx, append([]byte("hello, "), msg.Bytes()...))
			msg.Release()
		}
	}()

	client := must(roce.Open(loopbackAddress(), nil))
	defer client.Close()
	conn := must(cm.Dial(ctx, client, l.Addr().String()))
	defer conn.Close()
	if err := conn.Send(ctx, []byte("gopher")); err != nil {
		log.Fatal(err)
	}
	answer := must(conn.Recv(ctx))
	fmt.Printf("%s\n", answer.Bytes())
	// Output: hello, gopher
}

// The client writes into memory whose key it learned with the private data.
func ExampleConn_Write() {
	ctx := context.Background()
	server := must(roce.Open(loopbackAddress(), nil))
	defer server.Close()
	pd := must(server.AllocPD())
	mr := must(pd.RegMR(make([]byte, 64), verbs.LocalWrite|verbs.RemoteWrite))
	where := must(mr.Remote().MarshalBinary())
	l := must(cm.Listen(ctx, server, ":0", cm.WithPD(pd), cm.WithPrivateData(where)))
	go l.Accept(ctx)

	client := must(roce.Open(loopbackAddress(), nil))
	defer client.Close()
	conn := must(cm.Dial(ctx, client, l.Addr().String()))
	defer conn.Close()
	var there verbs.Remote
	if err := there.UnmarshalBinary(conn.Param().PrivateData[:verbs.RemoteSize]); err != nil {
		log.Fatal(err)
	}
	buf := must(conn.Pool().Get(64))
	n := copy(buf.Bytes(), "into another's memory")
	if err := conn.Write(ctx, buf.SGE(n), there); err != nil {
		log.Fatal(err)
	}
	mr.Do(func(b []byte) { fmt.Printf("%s\n", b[:n]) })
	// Output: into another's memory
}

// A program in the manner of librdmacm: one loop for the events of a listener, its
// connections, and a client.
func ExampleEventChannel() {
	server, client := must(roce.Open(loopbackAddress(), nil)), must(roce.Open(loopbackAddress(), nil))
	defer server.Close()
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	createQP := func(id *cm.ID) {
		pd, cq := must(id.Device().AllocPD()), must(id.Device().CreateCQ(16, nil))
		must(id.CreateQP(pd, verbs.QPInit{SendCQ: cq, RecvCQ: cq}))
	}

	ch := cm.NewEventChannel()
	defer ch.Close()
	listener := must(cm.NewID(ch, server, cm.TCP))
	defer listener.Close()
	err := errors.Join(listener.Bind(netip.MustParseAddrPort("0.0.0.0:7471")), listener.Listen(10))
	caller := must(cm.NewID(ch, client, cm.TCP))
	err = errors.Join(err, caller.ResolveAddr(netip.AddrPort{}, listener.LocalAddr(), time.Second))

	for ended := 0; ended < 2 && err == nil; {
		e := must(ch.Get(ctx))
		switch e.Type {
		case cm.AddrResolved:
			createQP(e.ID)
			err = e.ID.ResolveRoute(time.Second)
		case cm.RouteResolved:
			err = e.ID.Connect(&cm.ConnParam{RetryCount: 7, RNRRetryCount: 7})
		case cm.ConnectRequest:
			fmt.Println(e.Type)
			createQP(e.ID)
			err = e.ID.Accept(nil)
		case cm.Established:
			if e.ID == caller {
				fmt.Println(e.Type)
				err = e.ID.Disconnect()
			}
		case cm.Disconnected:
			ended++
			err = e.ID.Close()
		case cm.TimewaitExit:
		default:
			err = fmt.Errorf("%v: %w", e.Type, e.Err)
		}
	}
	fmt.Println(err)
	// Output:
	// connect request
	// established
	// <nil>
}

// A client draws tickets from a counter in the server's memory. The server does nothing for that.
func ExampleConn_FetchAdd() {
	ctx := context.Background()
	server := must(roce.Open(loopbackAddress(), nil))
	defer server.Close()
	pd := must(server.AllocPD())
	mr := must(pd.RegMR(make([]byte, 8), verbs.LocalWrite|verbs.RemoteAtomic))
	where := must(mr.Remote().MarshalBinary())
	l := must(cm.Listen(ctx, server, ":0", cm.WithPD(pd), cm.WithPrivateData(where)))
	go l.Accept(ctx)

	client := must(roce.Open(loopbackAddress(), nil))
	defer client.Close()
	conn := must(cm.Dial(ctx, client, l.Addr().String()))
	defer conn.Close()
	var counter verbs.Remote
	if err := counter.UnmarshalBinary(conn.Param().PrivateData[:verbs.RemoteSize]); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		fmt.Println("ticket", must(conn.FetchAdd(ctx, counter, 1)))
	}
	// Output:
	// ticket 0
	// ticket 1
	// ticket 2
}
