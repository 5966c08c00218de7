// SPDX-License-Identifier: Apache-2.0

package infiniband_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
)

func TestOpenSM(t *testing.T) {
	f, err := infiniband.GenerateFabric("fat-tree:4,2", &infiniband.FabricOptions{NoManager: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.ServeIBSim(t.Context(), "quick"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "opensm", "-f", "/tmp/osm.log", "-o")
	c.Dir = t.TempDir()
	c.Env = append(os.Environ(), "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so", "IBSIM_SOCKNAME=quick", "OSM_CACHE_DIR="+c.Dir, "OSM_TMP_DIR="+c.Dir)
	out, err := c.CombinedOutput()
	t.Logf("%v\n%s", err, out)
	for _, tool := range [][]string{{"ibnetdiscover"}, {"iblinkinfo"}, {"ibhosts"}, {"saquery"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		c := exec.CommandContext(ctx, tool[0], tool[1:]...)
		c.Dir, c.Env = t.TempDir(), append(os.Environ(), "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so", "IBSIM_SOCKNAME=quick")
		out, err := c.CombinedOutput()
		t.Logf("%v: %v\n%s", tool, err, out[:min(len(out), 3000)])
		cancel()
	}
}
