// SPDX-License-Identifier: Apache-2.0

package rdmatest_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/rdmatest"
)

// Two connected devices, in real time.
func ExampleConns() {
	var t *testing.T // of TestHello

	a, b := rdmatest.Pair(t)
	server, client := rdmatest.Conns(t, a, b)
	if err := server.Send(t.Context(), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	m, err := client.Recv(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.Release()
}
