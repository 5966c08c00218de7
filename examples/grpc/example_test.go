// SPDX-License-Identifier: Apache-2.0

// Package grpc is gRPC over RDMA: a module of its own, so that Ramjet does not depend on gRPC.
package grpc_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/rnet"
)

// gRPC runs over a Listener and a Dialer of package rnet: here with its own health service.
func Example() {
	server, err := ramjet.Open("roce:127.6.0.5")
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := ramjet.Open("roce:127.6.0.6")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	l, err := rnet.Listen(context.Background(), server, ":0")
	if err != nil {
		log.Fatal(err)
	}
	s := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	go s.Serve(l)
	defer s.Stop()

	dialer := rnet.Dialer{Device: client}
	conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "rdma", address)
		}))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Status)
	// Output: SERVING
}
