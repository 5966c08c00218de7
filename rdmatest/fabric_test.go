// SPDX-License-Identifier: Apache-2.0

package rdmatest_test

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/rdmatest"
)

// TestDropPacket: the nth packet, and no other one, is lost, and the message comes all the same.
func TestDropPacket(t *testing.T) {
	rdmatest.Run(t, 5, func(w *rdmatest.World) {
		f := w.Fabric("star:3")
		a, b := w.Host("server"), w.Host("client")
		server, client := a.InfiniBand(f, "host-1"), b.InfiniBand(f, "host-2")
		if err := f.DropPacket(infiniband.End{Node: "host-2", Port: 1}, 3+int(w.Seed()%20)); err != nil {
			w.Fatal(err)
		}
		if err := converse(w, a, b, server, client, 20); err != nil {
			w.Fatal(err)
		}
		lost := uint64(0)
		for _, n := range f.View().Nodes {
			for _, p := range n.Ports {
				lost += uint64(p.Counters.RcvErrors)
			}
		}
		if lost != 1 {
			w.Errorf("%d packets are lost", lost)
		}
	})
}

// TestCableDelay: everything takes as long as the cable does.
func TestCableDelay(t *testing.T) {
	rdmatest.Run(t, 5, func(w *rdmatest.World) {
		f := w.Fabric("star:3")
		a, b := w.Host("server"), w.Host("client")
		server, client := a.InfiniBand(f, "host-1"), b.InfiniBand(f, "host-2")
		cable := infiniband.End{Node: "host-2", Port: 1}
		if err := f.SetDelay(cable, time.Millisecond); err != nil {
			w.Fatal(err)
		}
		start := time.Now()
		if err := converse(w, a, b, server, client, 20); err != nil {
			w.Fatal(err)
		}
		if took := time.Since(start); took < 40*time.Millisecond || took > 60*time.Millisecond {
			w.Errorf("20 round trips over a cable of 1 ms take %v", took)
		}
	})
}

// TestPacketErrorRate: with a part of the packets corrupted everything comes, late.
func TestPacketErrorRate(t *testing.T) {
	rdmatest.Run(t, 5, func(w *rdmatest.World) {
		f := w.Fabric("star:3")
		a, b := w.Host("server"), w.Host("client")
		server, client := a.InfiniBand(f, "host-1"), b.InfiniBand(f, "host-2")
		if err := f.SetPacketErrorRate(infiniband.End{Node: "host-2", Port: 1}, 0.05); err != nil {
			w.Fatal(err)
		}
		if err := converse(w, a, b, server, client, 20); err != nil {
			w.Fatal(err)
		}
	})
}
