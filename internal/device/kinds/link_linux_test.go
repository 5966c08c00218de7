// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce1"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Devices of interfaces are listed where they can be opened, and fit the row.
func TestLinkRow(t *testing.T) {
	if !loopback.InNamespace(t, 65536) {
		return
	}
	if err := roce1.Permitted(); err != nil {
		t.Skip(err)
	}
	k, err := Find("roce1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Spare(2); err == nil || !strings.Contains(err.Error(), "type veth") {
		t.Errorf("spare devices without interfaces: %v", err)
	}
	loopback.SetUp(t, "link add left type veth peer name right", "addr add 192.0.2.7/24 dev left", "link set left up",
		"link set right up")
	local, err := k.Local()
	if err != nil || len(local) != 2 {
		t.Fatalf("%+v, %v", local, err)
	}
	for _, l := range local {
		n := Name{k, l.Address}
		dev, err := n.Open(&Options{})
		if err != nil {
			t.Fatal(err)
		}
		a := dev.Query()
		gids, err := dev.GIDs(1)
		if err != nil || gids[0].GID != l.GID || gids[0].Type != verbs.GIDRoCEv1 || a.Transport != k.Transport ||
			dev.Name() != n.String() {
			t.Errorf("%+v: %s, transport %v, %v, %v", l, dev.Name(), a.Transport, gids, err)
		}
		if guid, err := n.GUID(); err != nil || guid != a.NodeGUID || guid != binary.BigEndian.Uint64(l.GID[8:]) {
			t.Errorf("GUID %x, %v, want %x", guid, err, a.NodeGUID)
		}
		dev.Close()
	}
	spare, err := k.Spare(2)
	if slices.Sort(spare); err != nil || !slices.Equal(spare, []string{"left", "right"}) {
		t.Errorf("spare devices: %q, %v", spare, err)
	}
	if _, err := k.Spare(3); err == nil {
		t.Error("a cable has three ends")
	}
	if ip, ok := (Name{k, "left"}).IP(); !ok || ip.String() != "192.0.2.7" {
		t.Errorf("the address of left is %v, %v", ip, ok)
	}
	if ip, ok := (Name{k, "right"}).IP(); ok {
		t.Errorf("right has the address %v", ip)
	}
	if n := k.NameAt("192.0.2.7").String(); n != "roce1:left" {
		t.Errorf("the device of left's address is %s", n)
	}
	if best, err := Best(local[0].GID.Addr()); slices.ContainsFunc(best,
		func(c Choice) bool { return strings.HasPrefix(c.Name, k.Name+":") }) {
		t.Errorf("a device of a link is one of the best: %v, %v", best, err)
	}
}
