// SPDX-License-Identifier: Apache-2.0

package fabriccontrol

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
)

// A problem is reported when it is found and not by each sweep; so is its end.
func TestEventsOnce(t *testing.T) {
	var got []string
	l := NewEvents(func(line string) { got = append(got, strings.TrimPrefix(line, "subnet manager: ")) })
	duplicate := infiniband.ManagerEvent{Kind: infiniband.EventDuplicateGUID, GUID: 5, Port: 2, Text: `"leaf"`}
	done := infiniband.ManagerEvent{Kind: infiniband.EventSweepDone, Count: 3}
	failed := infiniband.ManagerEvent{Kind: infiniband.EventSweepFailed, Count: 1}
	standby := infiniband.ManagerEvent{Kind: infiniband.EventBecameStandby}
	master := infiniband.ManagerEvent{Kind: infiniband.EventBecameMaster}
	trap := infiniband.ManagerEvent{Kind: infiniband.EventTrapReceived, GUID: 5, Text: "trap"}
	for i, step := range []struct {
		events []infiniband.ManagerEvent
		want   []infiniband.ManagerEvent
	}{
		{[]infiniband.ManagerEvent{master, done}, nil},
		{[]infiniband.ManagerEvent{duplicate, done, failed}, []infiniband.ManagerEvent{duplicate, done, failed}},
		{[]infiniband.ManagerEvent{duplicate, done, failed}, nil},
		{[]infiniband.ManagerEvent{done}, []infiniband.ManagerEvent{done}},
		{[]infiniband.ManagerEvent{done}, nil},
		{[]infiniband.ManagerEvent{duplicate, done, failed}, []infiniband.ManagerEvent{duplicate, done, failed}},
		{[]infiniband.ManagerEvent{trap, trap}, []infiniband.ManagerEvent{trap}},
		{[]infiniband.ManagerEvent{standby}, []infiniband.ManagerEvent{standby}},
		{[]infiniband.ManagerEvent{master}, []infiniband.ManagerEvent{master}},
	} {
		got = nil
		for _, e := range step.events {
			l.Handle(e)
		}
		var want []string
		for _, e := range step.want {
			want = append(want, e.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("step %d: %q, want %q", i, got, want)
		}
	}
}

// A cable that is pulled and put in again is reported, with the names of its ends.
func TestEventsOfCable(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	l := NewEvents(func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	})
	f, err := infiniband.GenerateFabric("ring:3,1",
		&infiniband.FabricOptions{Manager: infiniband.ManagerOptions{Event: l.Handle}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	await := func(what string) {
		t.Helper()
		for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			mu.Lock()
			all := strings.Join(lines, "\n")
			mu.Unlock()
			if strings.Contains(all, what) {
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("nobody has told %q:\n%s", what, all)
			}
		}
	}
	softfabric.AwaitActive(t, f) // the manager knows the cable, and has finished with it
	if err := f.Pull(infiniband.End{Node: "switch-1", Port: 3}); err != nil {
		t.Fatal(err)
	}
	await(`no cable any more: port 3 of "switch-1"`)
	if err := f.Plug(infiniband.End{Node: "switch-1", Port: 3}, infiniband.End{Node: "switch-2", Port: 2}); err != nil {
		t.Fatal(err)
	}
	await(`new cable: port 3 of "switch-1"`)
}
