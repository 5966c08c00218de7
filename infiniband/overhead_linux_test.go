// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// A rate of congestion control counts all bytes of packets on a link: payload, headers, both CRCs and delimiters.
func TestLinkOverhead(t *testing.T) {
	const mtu, packets, delimiters = 4096, 16, 2
	f := softfabric.Start(t, "line:1,2")
	open := func(name string) *side {
		d, err := f.Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return newSide(t, d, packets*mtu)
	}
	a, b := open("host-1"), open("host-2")
	connectAt(t, a, b, 0)
	from := route(t, f, "host-1", "host-2")[0]
	var took uint64
	waitFor(t, "no other packet is counted", func() bool { // the manager's sweeps ask the port
		before := findNode(t, f, from.Node).Ports[from.Port-1].Counters
		a.write(t, b)
		a.wait(t, 1)
		after := findNode(t, f, from.Node).Ports[from.Port-1].Counters
		took = 4*(after.XmitData-before.XmitData) + packets*(ib.VCRCLen+delimiters) // which counters leave out
		return after.XmitPkts-before.XmitPkts == packets
	})
	if want := uint64(packets*(mtu+infiniband.LinkOverhead()) + ib.RETHLen); took != want {
		t.Errorf("%d packets of %d bytes take %d bytes of the link, want %d", packets, mtu, took, want)
	}
}
