// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet"
)

// TestBest names shared memory first for a peer on this host, and not at all for another.
func TestBest(t *testing.T) {
	names, err := ramjet.Best(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(names, "roce:127.0.0.1") {
		t.Errorf("%q do not have RoCE", names)
	}
	if runtime.GOOS == "linux" && names[0] != "shm:" {
		t.Errorf("%q do not begin with shared memory", names)
	}
	for _, name := range names {
		dev, err := ramjet.Open(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		dev.Close()
	}
	names, err = ramjet.Best(netip.MustParseAddr("192.0.2.200"))
	if err != nil {
		t.Skip("there is no network here: ", err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "shm:") {
			t.Errorf("%q: shared memory does not reach another host", names)
		}
	}
}
