// SPDX-License-Identifier: Apache-2.0

// Echo is a gRPC service and its client over RDMA, hardware included: one call for each message, and then all of them
// on a stream. The client compares every byte.
//
//	go run ./echo                                 the server
//	go run ./echo 127.0.0.1                       a client, in another terminal
//	go run ./echo -d kernel:mlx5_0 192.0.2.7      on a NIC
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ramjet-rdma/ramjet"
	_ "github.com/ramjet-rdma/ramjet/kernel" // devices of the kernel
	"github.com/ramjet-rdma/ramjet/rnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const port = ":7485"

// sizes are the lengths of the messages, in bytes.
var sizes = []int{0, 1, 100, 4096, 70_000, 1 << 20}

// echo is the service. protoc would have written this, and the two names below, for a .proto file.
var echo = grpc.ServiceDesc{ServiceName: "ramjet.Echo", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Once",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			m := &wrapperspb.BytesValue{}
			return m, decode(m)
		}}},
	Streams: []grpc.StreamDesc{{StreamName: "Stream", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, s grpc.ServerStream) error {
			for m := (&wrapperspb.BytesValue{}); ; {
				if s.RecvMsg(m) != nil {
					return nil // the client has sent all
				}
				if err := s.SendMsg(m); err != nil {
					return err
				}
			}
		}}}}

const once, stream = "/ramjet.Echo/Once", "/ramjet.Echo/Stream"

func main() {
	log.SetFlags(0)
	device := flag.String("d", "roce:127.0.0.1", "device")
	flag.Parse()

	dev, err := ramjet.Open(*device)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	if flag.NArg() > 0 {
		if err := call(dev, flag.Arg(0)+port); err != nil {
			log.Fatal(err)
		}
		return
	}
	l, err := rnet.Listen(context.Background(), dev, port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", l.Addr())
	log.Fatal(serve(l))
}

func serve(l net.Listener) error {
	s := grpc.NewServer()
	s.RegisterService(&echo, nil)
	return s.Serve(l)
}

func call(dev *verbs.Device, address string) error {
	dialer := rnet.Dialer{Device: dev}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "rdma", address)
		}))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := conn.NewStream(ctx, &echo.Streams[0], stream)
	if err != nil {
		return err
	}
	for _, way := range []func(to, from *wrapperspb.BytesValue) error{
		func(to, from *wrapperspb.BytesValue) error { return conn.Invoke(ctx, once, to, from) },
		func(to, from *wrapperspb.BytesValue) error {
			if err := s.SendMsg(to); err != nil {
				return err
			}
			return s.RecvMsg(from)
		},
	} {
		for _, n := range sizes {
			to, from := wrapperspb.Bytes(bytes.Repeat([]byte("echo "), n/5+1)[:n]), &wrapperspb.BytesValue{}
			if err := way(to, from); err != nil {
				return fmt.Errorf("%d bytes: %w", n, err)
			}
			if !bytes.Equal(to.Value, from.Value) {
				return fmt.Errorf("%d bytes came back as %d others", n, len(from.Value))
			}
		}
	}
	fmt.Printf("%s to %s: %d messages came back, by calls and on a stream\n", dev.Name(), address, 2*len(sizes))
	return s.CloseSend()
}
