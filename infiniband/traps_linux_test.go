// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
)

// The adapter of a program in another process sends traps, too.
func TestTrapsOfProcess(t *testing.T) {
	var h heard
	f := managed(t, "star:2", infiniband.ManagerOptions{Event: h.event})
	name := serve(t, f)
	two, err := infiniband.Open(name, "host-2", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { two.Close() })
	a, b := newSender(t, device(t, f, "host-1"), 0, 0x11), newSender(t, two, 0, 0x11)
	h.await(t, "a packet with the wrong Q_Key 0x12", func() { a.to(b, 0x12) })
}
