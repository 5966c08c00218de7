// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A device that acts as a NIC shows programs the differences in docs/nic.md.
func TestNIC(t *testing.T) {
	dir := need(t)
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("gcc", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Werror", "-o", program,
		"testdata/nic/nic.c", filepath.Join(dir, "libibverbs.so.1")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := []string{ramjet(t), "run", "--libs", dir, "--nic", "--", program}
	for _, kind := range []string{"roce", "shm"} {
		t.Run(kind, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			if out, err := command(ctx, dir, kind+":"+serverAddr, run...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// Programs of rdma-core and perftest run on devices that act as NICs.
func TestProgramsOnNICs(t *testing.T) {
	run := ramjet(t) + " run --libs " + need(t) + " --nic -- "
	for _, kind := range []string{"roce", "iwarp", "shm"} {
		for _, p := range []pair{
			{server: "ibv_rc_pingpong -g 0 -c -p PORT", client: "ibv_rc_pingpong -g 0 -c -p PORT SERVER",
				want: "iters in"},
			{server: "ibv_srq_pingpong -g 0 -n 200 -p PORT", client: "ibv_srq_pingpong -g 0 -n 200 -p PORT SERVER",
				want: "iters in"},
			{server: "rping -s -a SERVER -C 20 -v -p PORT", client: "rping -c -a SERVER -C 20 -v -p PORT",
				want: "rdma-ping-19"},
			{server: "ib_write_bw -R -s 65536 -n 500 -p PORT", client: "ib_write_bw -R -s 65536 -n 500 -p PORT SERVER",
				want: table},
			{server: "ib_send_bw -R -s 4096 -n 500 -p PORT", client: "ib_send_bw -R -s 4096 -n 500 -p PORT SERVER",
				want: table},
			{server: "ib_read_lat -R -n 200 -p PORT", client: "ib_read_lat -R -n 200 -p PORT SERVER", want: table},
		} {
			name := p.name()
			if kind == "iwarp" && strings.HasPrefix(p.server, "ibv_srq_pingpong") {
				// It posts up to 15 sends more than it waits for. If the peer ends first, they fail, and a stream
				// reports that at once: maybe before the data of other streams.
				p.surplus = "Failed status transport retry counter exceeded (12) for wr_id 2" // a SEND
			}
			p.kind, p.server, p.client = kind, run+p.server, run+p.client
			t.Run(kind+" "+name, p.run)
		}
	}
}

// A wrong value is reported, and the variable has no effect on other devices.
func TestNICVariable(t *testing.T) {
	dir := need(t, "ibv_devinfo")
	c := command(t.Context(), dir, serverAddr, "ibv_devinfo", "-v")
	c.Env = append(c.Env, "RAMJET_NIC=yes")
	if out, err := c.CombinedOutput(); !strings.Contains(string(out),
		`RAMJET_NIC is "yes": 1 has devices act as NICs`) {
		t.Errorf("%v\n%s", err, out)
	}
}
