// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
)

// ibping's server answers under each subnet manager.
func TestIBPing(t *testing.T) {
	for name, opensm := range map[string]bool{"opensm": true, "built-in": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := infiniband.GenerateFabric("fat-tree:4,2", &infiniband.FabricOptions{NoManager: opensm})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(f.Close)
			x := newTools(t, f, "ibping")
			if opensm {
				newTools(t, f, "opensm").openSM("host-2")
			}
			softfabric.AwaitActive(t, f)
			x.pings(f, "host-3", "host-14")
		})
	}
}

// pings runs ibping's server at one adapter and its client at another. The client asks from the start, so the
// server gets requests while it starts: libumad2sim crashes on a request that comes before its agent is there.
func (x *tools) pings(f *infiniband.Fabric, from, to string) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), upTime)
	defer cancel()
	flood := x.command(ctx, from, "ibping", "-f", "-t", "20", number(findNode(x.t, f, to).Ports[0].LID))
	flood.Stdout, flood.Stderr = io.Discard, io.Discard
	if err := flood.Start(); err != nil {
		x.t.Fatal(err)
	}
	defer flood.Wait()
	defer flood.Process.Kill()
	server := x.command(ctx, to, "ibping", "-S")
	if err := server.Start(); err != nil {
		x.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	defer func() { <-ended }()
	defer server.Process.Kill()
	for {
		once, done := context.WithTimeout(ctx, toolTime)
		client := x.command(once, from, "ibping", "-f", "-c", "2", number(findNode(x.t, f, to).Ports[0].LID))
		out, _ := client.CombinedOutput()
		done()
		if strings.Contains(string(out), "2 packets transmitted, 2 received, 0% packet loss") {
			return
		}
		select {
		case err := <-ended:
			ended <- err
			x.t.Fatalf("ibping's server has ended: %v", err)
		default:
		}
		if ctx.Err() != nil {
			x.t.Fatalf("ibping from %s to %s:\n%s", from, to, out)
		}
	}
}
