// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

// A host learns at each port how it reaches namespaces, and where it does not reach them it is told so.
func TestAccess(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		second := disk(2, 64<<10)
		second.Group = 3
		s := set(t, kind, nvme.TargetOptions{}, disk(1, 64<<10), second)
		other, err := s.target.Listen(t.Context(), s.targets, ":0")
		ok(t, err)
		c := s.dial(t, nvme.HostOptions{})
		if id := c.Identity(); id.ANA&wire.ANAReportsAll != wire.ANAReportsAll || id.ANAGroups != nvme.MaxGroups {
			t.Errorf("%+v", id)
		}
		d, err := nvme.Dial(within(t), s.dev, other.Addr().String(), diskNQN, nvme.HostOptions{KeepAlive: patience,
			Timeout: patience})
		ok(t, err)
		defer d.Close()
		read := func(c *nvme.Controller, id uint32) error {
			d, err := c.Open(within(t), id)
			ok(t, err)
			_, err = d.ReadAt(make([]byte, 512), 0)
			return err
		}
		states := func(c *nvme.Controller) (list []wire.ANAState) {
			groups, err := c.Access(within(t))
			ok(t, err)
			for i, g := range groups {
				if want := []wire.ANAGroup{{ID: 1, State: g.State, Namespaces: []uint32{1}}, {ID: 3, State: g.State,
					Namespaces: []uint32{2}}}[i]; !reflect.DeepEqual(g, want) {
					t.Errorf("%+v", g)
				}
				list = append(list, g.State)
			}
			return list
		}
		both := []wire.ANAState{wire.ANAOptimized, wire.ANAOptimized}
		if a, b := states(c), states(d); !reflect.DeepEqual(a, both) || !reflect.DeepEqual(b, both) {
			t.Error(a, b)
		}
		for state, want := range map[wire.ANAState]error{wire.ANANonOptimized: nil, wire.ANAOptimized: nil,
			wire.ANAInaccessible:   wire.AsymmetricAccessInaccessible,
			wire.ANAPersistentLoss: wire.AsymmetricAccessPersistentLoss,
			wire.ANAChange:         wire.AsymmetricAccessTransition} {
			ok(t, other.SetAccess(3, state))
			if got := states(d); !reflect.DeepEqual(got, []wire.ANAState{wire.ANAOptimized, state}) {
				t.Error(got)
			}
			err := read(d, 2)
			var refused *nvme.CommandError
			if !errors.Is(err, want) || want != nil && (!errors.As(err, &refused) || !refused.Retry) {
				t.Errorf("%#x: %v", state, err)
			}
			ok(t, read(d, 1))
			ok(t, read(c, 2))
		}
		if got := states(c); !reflect.DeepEqual(got, both) {
			t.Error(got)
		}
		for _, group := range []uint32{0, nvme.MaxGroups + 1} {
			if other.SetAccess(group, wire.ANAOptimized) == nil {
				t.Error("group", group)
			}
		}
		if other.SetAccess(1, 7) == nil {
			t.Error("state 7")
		}
		second.ID, second.Group = 3, nvme.MaxGroups+1
		if s.sub.AddNamespace(second) == nil {
			t.Error("a namespace in group", second.Group)
		}
	})
}

// A log that is longer than a command carries is read in parts.
func TestLongAccess(t *testing.T) {
	var list []nvme.Namespace
	for id := range uint32(nvme.MaxNamespaces) {
		n := disk(id+1, 512)
		n.Group = 1 + id%nvme.MaxGroups
		list = append(list, n)
	}
	groups, err := set(t, "shm", nvme.TargetOptions{}, list...).dial(t, nvme.HostOptions{}).Access(within(t))
	ok(t, err)
	n := 0
	for i, g := range groups {
		if n += len(g.Namespaces); g.ID != uint32(i+1) || g.Namespaces[0] != g.ID {
			t.Errorf("%+v", g)
		}
	}
	if n != nvme.MaxNamespaces {
		t.Errorf("%d namespaces in %d groups", n, len(groups))
	}
}

// A host that asks for them gets notices of changes, once until it reads the log; and groups alone if it likes.
func TestAccessEvents(t *testing.T) {
	s := set(t, "shm", nvme.TargetOptions{}, disk(1, 4096))
	r, err := connect(t, s, admin())
	ok(t, err)
	r.connectTo(wire.ConnectParams{SQSize: 31}, connectData)
	r.enable()
	if done := r.ask(wire.Command{Opcode: wire.AdminSetFeatures, CDW10: uint32(wire.FeatureAsyncEvents),
		CDW11: wire.EventANA}, nil); done.Status != wire.Success {
		t.Fatal(done)
	}
	for _, state := range []wire.ANAState{wire.ANAInaccessible, wire.ANANonOptimized} {
		r.cid++
		c := wire.Command{Opcode: wire.AdminAsyncEvent, Flags: wire.FlagSGL, CID: r.cid}
		ok(t, r.c.Send(within(t), c.Append(nil)))
		ok(t, s.port.SetAccess(1, state))
		if done := r.hear(); done.Status != wire.Success || done.Result != wire.EventANAChanged {
			t.Fatalf("%+v", done)
		}
		log := wire.Command{SGL: r.keyed(64)}
		log.SetLogPage(wire.LogANA, 0, 64)
		log.CDW10 |= wire.ANAGroupsOnly
		if done := r.ask(log, nil); done.Status != wire.Success {
			t.Fatal(done)
		}
		_, groups, decoded := wire.DecodeANA(r.data.Bytes()[:64])
		if !decoded || len(groups) != 1 || groups[0].State != state || groups[0].Namespaces != nil {
			t.Errorf("%+v", groups)
		}
	}
}
