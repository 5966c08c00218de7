// SPDX-License-Identifier: Apache-2.0

package rdmatest_test

import (
	"regexp"
	"runtime"
	"testing"

	"github.com/ramjet-rdma/ramjet/rdmatest"
)

// TestConns: connections of each kind, of which nothing is left.
func TestConns(t *testing.T) {
	for _, kind := range []string{"roce", "iwarp", "infiniband", "shm"} {
		t.Run(kind, func(t *testing.T) {
			a, b := rdmatest.PairOf(t, kind)
			server, client := rdmatest.Conns(t, a, b)
			if err := server.Send(t.Context(), []byte("hello")); err != nil {
				t.Fatal(err)
			}
			m, err := client.Recv(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := string(m.Bytes()); got != "hello" {
				t.Errorf("%q arrives", got)
			}
			m.Release()
		})
	}
}

// TestBrokenLeak leaves a completion queue, a region and its domain behind.
func TestBrokenLeak(t *testing.T) {
	onlyBroken(t)
	for _, kind := range []string{"roce", "iwarp", "infiniband", "shm"} {
		a, _ := rdmatest.PairOf(t, kind)
		pd, err := a.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pd.AllocMR(8, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := a.CreateCQ(8, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLeft: objects that a test leaves behind are named.
func TestLeft(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("127.0.0.0/8 is local as a whole on Linux only")
	}
	t.Parallel()
	out := runBroken(t, "TestBrokenLeak")
	for _, device := range []string{"roce:127", "iwarp:127", "infiniband:host-1", "shm:127"} {
		if !regexp.MustCompile(device + `\S* has objects left at the end: ` +
			`protection domains 1, memory regions 1, completion queues 1; close`).MatchString(out) {
			t.Errorf("%s is missing in\n%s", device, out)
		}
	}
}
