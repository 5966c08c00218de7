// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/rnet"
)

// A client calls a server, both over devices of this host.
func TestEcho(t *testing.T) {
	server, err := ramjet.Open("roce:127.6.0.7")
	if err != nil {
		t.Fatal(err)
	}
	client, err := ramjet.Open("roce:127.6.0.8")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	defer client.Close()
	l, err := rnet.Listen(t.Context(), server, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go serve(l)
	if err := call(client, l.Addr().String()); err != nil {
		t.Error(err)
	}
}
