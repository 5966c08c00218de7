// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
)

// An adapter whose cable was out is in its groups again when it comes back, without its program: the manager
// has forgotten it meanwhile, and asks for its registrations (ClientReregister).
func TestMulticastAgain(t *testing.T) {
	f := softfabric.Start(t, "star:3")
	group := netip.MustParseAddr("239.255.77.2")
	var all []*datagrams
	var ud *cm.UDParam
	for _, adapter := range []string{"host-1", "host-3"} {
		var s *datagrams
		s, ud = joinGroup(t, f, adapter, group)
		all = append(all, s)
	}
	members := func() int { // ports that the switch sends the group's datagrams to
		return f.Running().GroupPorts("switch-1", ud.AH.DLID)
	}
	waitFor(t, "two ports have joined", func() bool { return members() == 2 })
	end := infiniband.End{Node: "host-3", Port: 1}
	if err := f.Pull(end); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the manager forgets the port", func() bool { return members() == 1 })
	if err := f.Plug(end, infiniband.End{Node: "switch-1", Port: 3}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the port joins again", func() bool { return members() == 2 })
	softfabric.AwaitActive(t, f)
	all[0].send(all[0].id.QP(), ud, "to all")
	all[1].received("to all")
}
