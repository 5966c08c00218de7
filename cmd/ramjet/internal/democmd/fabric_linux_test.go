// SPDX-License-Identifier: Apache-2.0

package democmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/demo"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// init makes the test binary the demo's second process.
func init() {
	if len(os.Args) != 2 || os.Args[1] != PeerName {
		return
	}
	c := NewPeer()
	c.SetArgs([]string{})
	if err := c.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(cli.ExitStatus(err))
	}
	os.Exit(0)
}

// TestDemoFabric pulls a cable of a fabric that each manager manages, while data is on its way.
func TestDemoFabric(t *testing.T) {
	kind, err := kinds.Find("infiniband")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, opensm string, why error) *demo.Report {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		d := &demo.Demo{Kind: kind, Peer: []string{self, PeerName},
			Open: func(name string) (*verbs.Device, error) { return kinds.Open(name, &kinds.Options{}) }}
		f, err := startDemoFabric(ctx, opensm, why)
		if err != nil {
			t.Fatal(err)
		}
		defer f.end()
		name := fmt.Sprintf("demo-test-%d-%t", os.Getpid(), why == nil)
		if err := f.fabric.Serve(ctx, name); err != nil {
			t.Fatal(err)
		}
		d.Spare, d.Fabric = []string{"host-1?fabric=" + name, "host-2?fabric=" + name}, f
		start := time.Now()
		r, err := d.Run(ctx)
		if err != nil {
			t.Fatal(err)
		}
		c := r.Cable
		t.Logf("%v: %+v", time.Since(start), c)
		stream := int64(c.Messages * c.Size)
		switch {
		case slices.Equal(c.RouteBefore, c.RouteAfter) || len(c.RouteAfter) != 3:
			t.Errorf("routes before and after: %q, %q", c.RouteBefore, c.RouteAfter)
		case c.Cable != "the cable at "+c.RouteBefore[1]:
			t.Errorf("%q was pulled, of the route %q", c.Cable, c.RouteBefore)
		case c.PulledAfter >= c.Messages:
			t.Errorf("it was pulled after %d of %d messages", c.PulledAfter, c.Messages)
		case c.BytesDuring < stream || c.BytesBefore < stream || c.BytesAfter < stream:
			t.Errorf("bytes verified: %+v", c)
		case c.PacketsAfter < uint64(c.BytesAfter)/4096 || c.PacketsBefore < uint64(c.BytesBefore)/4096:
			t.Errorf("packets: %+v", c)
		}
		return r
	}
	t.Run("own manager", func(t *testing.T) {
		if r := run(t, "", errors.New("not asked for")); !strings.HasPrefix(r.Cable.Manager, "Ramjet's own (") {
			t.Errorf("managed by %s", r.Cable.Manager)
		}
	})
	t.Run("OpenSM", func(t *testing.T) {
		opensm, err := findOpenSM()
		if err != nil {
			t.Skip(err)
		}
		testrun.SkipUnlessLong(t, "a second demo, which measures for seconds")
		r := run(t, opensm, nil)
		if !strings.HasPrefix(r.Cable.Manager, "OpenSM (") {
			t.Errorf("managed by %s", r.Cable.Manager)
		}
		if text := cableText(r.Cable); !strings.Contains(text, "No error.") ||
			!strings.Contains(text, r.Cable.RouteAfter[1]) {
			t.Errorf("%s", text)
		}
	})
}
