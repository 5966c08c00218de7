// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
)

// guestGroup is the multicast group that a guest joins, if there is one.
const guestGroup = "RAMJET_TEST_GROUP"

// A process that is killed is a member no more: its port leaves the group at the administrator, unless another
// program at the port is a member, as which it receives what comes.
func TestKilledMember(t *testing.T) {
	for name, opensm := range map[string]bool{"opensm": true, "built-in": false} {
		t.Run(name, func(t *testing.T) {
			f, err := infiniband.GenerateFabric("star:4", &infiniband.FabricOptions{NoManager: opensm})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(f.Close)
			if opensm {
				newTools(t, f, "opensm").openSM("host-2", "ipoib_mcgroup_creation_validation FALSE")
			}
			softfabric.AwaitActive(t, f)
			served := serve(t, f)
			group := netip.MustParseAddr("239.255.77.4")
			t.Setenv(guestGroup, group.String())
			far, ud := joinGroup(t, f, "host-3", group)
			other, _ := joinGroup(t, f, "host-4", group) // OpenSM leaves a group of one port as it is
			guests := []*process{startGuest(t, served), startGuest(t, served)}
			near, _ := joinGroup(t, f, "host-1", group)
			waitFor(t, "the ports have joined", func() bool { return members(f, ud.AH.DLID) == 3 })
			kill := func(p *process) {
				seated, _ := seats(f, "host-1")
				p.Process.Kill()
				waitFor(t, "the process is gone", func() bool { n, _ := seats(f, "host-1"); return n == seated-1 })
			}
			kill(guests[0])
			far.send(far.id.QP(), ud, "to who lives")
			near.received("to who lives")
			near.ok(near.id.LeaveMulticast(group))
			newAsker(t, near.id.Device()).left(ud)
			far.send(far.id.QP(), ud, "again")
			other.received("to who lives")
			other.received("again")
			if n := members(f, ud.AH.DLID); n != 3 {
				t.Errorf("%d ports in the group, which a process at each of three is in", n)
			}
			kill(guests[1])
			waitFor(t, "the port leaves with the last of its programs", func() bool { return members(f, ud.AH.DLID) == 2 })
		})
	}
}
