// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"net/netip"
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// guestGroup is the multicast group that a guest joins, if there is one.
const guestGroup = "RAMJET_TEST_GROUP"

// A process that is killed is a member no more: its port leaves the group at the administrator, unless another
// program at the port is a member, which receives the group's packets.
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
			far, ud := joinGroup(t, f, "host-3", group)
			other, _ := joinGroup(t, f, "host-4", group) // OpenSM leaves a group of one port as it is
			joins := guestGroup + "=" + group.String()
			guests := []*process{startGuest(t, served, joins), startGuest(t, served, joins)}
			near, _ := joinGroup(t, f, "host-1", group)
			waitFor(t, "the ports have joined", func() bool { return members(f, ud.AH.DLID) == 3 })
			end := func(program func() error) {
				before, _ := attached(f, "host-1")
				near.ok(program())
				waitFor(t, "the program is gone", func() bool { n, _ := attached(f, "host-1"); return n == before-1 })
			}
			end(guests[0].Process.Kill)
			far.send(far.id.QP(), ud, "to who lives")
			near.received("to who lives")
			end(near.id.Device().Close)
			far.send(far.id.QP(), ud, "again")
			other.received("to who lives")
			other.received("again")
			if n := members(f, ud.AH.DLID); n != 3 {
				t.Errorf("%d ports in the group, which a process at each of three is in", n)
			}
			end(guests[1].Process.Kill)
			waitFor(t, "the port leaves with the last of its programs",
				func() bool { return members(f, ud.AH.DLID) == 2 })
		})
	}
}

// Members of a group stay so while another manager takes the subnet over, and gives it back: it asks, and they join
// again. A member that leaves meanwhile takes no other one along.
func TestMembersOfNewManager(t *testing.T) {
	testrun.SkipUnlessLong(t, "waits for a manager that is gone")
	f := managed(t, "fat-tree:2,2", infiniband.ManagerOptions{Priority: 3})
	stays, goes, far := newMember(t, f, "host-1"), newMember(t, f, "host-1"), newMember(t, f, "host-4")
	to := stays.join()
	goes.join()
	far.join()
	a, b := newAsker(t, stays.id.Device()), newAsker(t, far.id.Device())
	manager := func(at bool) {
		t.Helper()
		waitFor(t, "the other manager is there", func() bool {
			p, err := stays.id.Device().Port(1)
			return err == nil && at == (p.SMLID == findNode(t, f, "host-2").Ports[0].LID)
		})
		for _, m := range []*asker{a, b} {
			waitFor(t, "members join again", func() bool { return m.member(to.AH.DGID) == sa.FullMember })
		}
	}
	arrives(t, far, to, "at first", stays, goes, far)
	other := newTools(t, f, "opensm").openSM("host-2", "ipoib_mcgroup_creation_validation FALSE", "sm_priority 14")
	manager(true)
	arrives(t, far, to, "under OpenSM", stays, goes, far)
	goes.ok(goes.id.LeaveMulticast(lab))
	newAsker(t, goes.id.Device()).left(to)
	arrives(t, far, to, "when one has left", stays, far)
	other.end()
	manager(false)
	softfabric.AwaitActive(t, f)
	arrives(t, far, to, "back again", stays, far)
}
