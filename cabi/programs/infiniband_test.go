// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
)

// The tests' fabric: a switch and four adapters, whose IP addresses begin with 198.18.0.1.
var fabricName = fmt.Sprintf("programs-%d", os.Getpid())

// adapter returns the device of an adapter, which programs call host-N.
func adapter(n int) string {
	return fmt.Sprintf("host-%d=infiniband:host-%[1]d?fabric=%s", n, fabricName)
}

// runFabric runs the fabric until the test ends.
func runFabric(t *testing.T) {
	t.Helper()
	softfabric.Serve(t, softfabric.Start(t, "star:4"), fabricName)
}

// The output of programs for an adapter: ibv_devinfo by libibverbs, ibstat by libibumad, and sysfs.
func TestInfiniBandPort(t *testing.T) {
	run := need(t, "ibv_devinfo", "ibstat", "cat")
	run = ramjet(t) + " run --libs " + run + " -- "
	runFabric(t)
	const port = "/sys/class/infiniband/host-1/ports/1/"
	for _, c := range []struct{ program, want string }{
		{"ibv_devinfo -v", `transport:\s+InfiniBand`},
		{"ibv_devinfo -v", `state:\s+PORT_ACTIVE`},
		{"ibv_devinfo -v", `sm_lid:\s+1\n`},
		{"ibv_devinfo -v", `port_lid:\s+2\n`},
		{"ibv_devinfo -v", `port_lmc:\s+0x00\n`},
		{"ibv_devinfo -v", `link_layer:\s+InfiniBand`},
		{"ibv_devinfo -v", `max_vl_num:\s+8 \(4\)`},
		{"ibv_devinfo -v", `subnet_timeout:\s+18\n`},
		{"ibv_devinfo -v", `active_width:\s+4X`},
		{"ibv_devinfo -v", `active_speed:\s+25.0 Gbps`},
		{"ibv_devinfo -v", `phys_state:\s+LINK_UP`},
		{"ibv_devinfo -v", `GID\[  0\]:\s+fe80:`},
		{"ibstat", `State: Active`},
		{"ibstat", `Physical state: LinkUp`},
		{"ibstat", `Rate: 100\n`},
		{"ibstat", `Base lid: 2\n`},
		{"ibstat", `SM lid: 1\n`},
		{"cat " + port + "state", `^4: ACTIVE\n$`},
		{"cat " + port + "phys_state", `^5: LinkUp\n$`},
		{"cat " + port + "rate", `^100 Gb/sec \(4X EDR\)\n$`},
		{"cat " + port + "lid", `^0x2\n$`},
		{"cat " + port + "sm_lid", `^0x1\n$`},
		{"cat " + port + "link_layer", `^InfiniBand\n$`},
		{"cat " + port + "gids/0", `^fe80:0000:`},
		{"cat " + port + "gid_attrs/types/0", `^IB/RoCE v1\n$`},
		{"cat " + port + "pkeys/0", `^0xffff\n$`},
	} {
		out := onAdapter(t, run+c.program)
		if !regexp.MustCompile(c.want).MatchString(out) {
			t.Errorf("%s does not say %q:\n%s", c.program, c.want, out)
		}
	}
}

// onAdapter runs a program on the first adapter and returns its output.
func onAdapter(t *testing.T, program string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	out, err := command(ctx, "", adapter(1), strings.Fields(program)...).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", program, err, out)
	}
	return string(out)
}

// subnetPairs find each other by LIDs, programs on librdmacm by addresses that the fabric has.
var subnetPairs = []pair{
	{server: "ibv_rc_pingpong -c -p PORT", client: "ibv_rc_pingpong -c -p PORT localhost", want: "iters in"},
	{server: "ibv_rc_pingpong -e -p PORT", client: "ibv_rc_pingpong -e -p PORT localhost", want: "iters in"},
	{server: "ibv_rc_pingpong -g 0 -p PORT", client: "ibv_rc_pingpong -g 0 -p PORT localhost", want: "iters in"},
	{server: "ibv_uc_pingpong -n 100 -p PORT", client: "ibv_uc_pingpong -n 100 -p PORT localhost", want: "iters in"},
	{server: "ibv_ud_pingpong -n 100 -p PORT", client: "ibv_ud_pingpong -n 100 -p PORT localhost", want: "iters in"},
	{server: "ibv_srq_pingpong -p PORT", client: "ibv_srq_pingpong -p PORT localhost", want: "iters in"},
	{server: "ibv_xsrq_pingpong -p PORT", client: "ibv_xsrq_pingpong -p PORT localhost", want: "success"},
	{server: "ib_write_bw -F -n 20 -p PORT", client: "ib_write_bw -F -n 20 -p PORT localhost", want: "LID 0x02"},
	{server: "ib_write_lat -F -n 20 -p PORT", client: "ib_write_lat -F -n 20 -p PORT localhost", want: table},
	{server: "ib_read_bw -F -n 20 -p PORT", client: "ib_read_bw -F -n 20 -p PORT localhost", want: table},
	{server: "ib_read_lat -F -n 20 -p PORT", client: "ib_read_lat -F -n 20 -p PORT localhost", want: table},
	{server: "ib_send_bw -F -n 20 -p PORT", client: "ib_send_bw -F -n 20 -p PORT localhost", want: table},
	{server: "ib_send_bw -c UD -F -n 20 -p PORT", client: "ib_send_bw -c UD -F -n 20 -p PORT localhost", want: table},
	{server: "ib_send_lat -c UD -F -n 20 -p PORT", client: "ib_send_lat -c UD -F -n 20 -p PORT localhost", want: table},
	{server: "ib_atomic_bw -F -n 20 -p PORT", client: "ib_atomic_bw -F -n 20 -p PORT localhost", want: table},
	{server: "ib_write_bw -R -F -n 20 -p PORT", client: "ib_write_bw -R -F -n 20 -p PORT 198.18.0.1", want: table},
	{server: "rping -s -a 198.18.0.1 -C 20 -v -p PORT", client: "rping -c -a 198.18.0.1 -C 20 -v -p PORT",
		want: "rdma-ping-19"},
	{server: "ucmatose -b 198.18.0.1 -p PORT", client: "ucmatose -s 198.18.0.1 -p PORT", want: "return status 0"},
	{server: "udaddy -b 198.18.0.1", client: "udaddy -s 198.18.0.1", want: "return status 0"},
}

func TestInfiniBandPairs(t *testing.T) {
	need(t)
	runFabric(t)
	for _, p := range subnetPairs {
		p.kind = "infiniband"
		t.Run(p.name(), p.run)
	}
}

// A GID is an address, too.
func TestInfiniBandByGID(t *testing.T) {
	dir := need(t, "rping", "ibaddr")
	runFabric(t)
	gid := regexp.MustCompile(`fe80:\S+`).FindString(onAdapter(t, ramjet(t)+" run --libs "+dir+" -- ibaddr"))
	pair{kind: "infiniband", server: "rping -s -a " + gid + " -C 20 -v -p PORT",
		client: "rping -c -a " + gid + " -C 20 -v -p PORT",
		want:   "rdma-ping-19"}.run(t)
}

// The receiver joins a group by the subnet administrator, and so does the sender.
func TestInfiniBandMckey(t *testing.T) {
	dir := need(t, "mckey")
	runFabric(t)
	mckey(t, dir, adapter(1), "198.18.0.1", adapter(2), "198.18.0.2")
}

// The diagnostic tools see the fabric by management datagrams: directed routes, LIDs, performance counters,
// and the administrator's tables, which come in segments.
func TestInfiniBandDiagnostics(t *testing.T) {
	run := need(t)
	run = ramjet(t) + " run --libs " + run + " -- "
	runFabric(t)
	for _, c := range []struct{ program, want string }{
		{"ibnetdiscover",
			`(?s)"switch-1" base port 0 lid 1.*"host-1" lid 2 4xEDR.*"host-2" lid 3.*"host-3" lid 4.*"host-4" lid 5`},
		{"iblinkinfo", `switch-1:(?s:.*)Active/  LinkUp\)==>\s+2\s+1\[  \] "host-1"`},
		{"ibhosts", `"host-4"(?s:.*)"host-1"`},
		{"ibswitches", `ports 4 "switch-1" base port 0 lid 1`},
		{"smpquery nodedesc 3", `host-2`},
		{"smpquery -D nodeinfo 0", `NodeType:\.+Channel Adapter`},
		{"smpquery -D nodeinfo 0,1", `NodeType:\.+Switch`},
		{"smpquery portinfo 2", `LinkState:\.+Active`},
		{"perfquery", `Lid 2 port 1`},
		{"perfquery -x 3 1", `Lid 3 port 1`},
		{"sminfo", `sm lid 1 .* SMINFO_MASTER`},
		{"ibtracert 2 3", `switch port .*"switch-1"\n.*ca port .*"host-2"`},
		{"ibroute 1", `5 valid lids dumped`},
		{"saquery", `(?s)host-1.*host-4`},
		{"saquery -p", `(?s)(PathRecord dump:.*){25}`},
		{"saquery -g", `ff12:401b`},
		{"saquery LR", `(?s)(LinkRecord dump:.*){8}`},
	} {
		t.Run(c.program, func(t *testing.T) {
			program, args, _ := strings.Cut(c.program, " ")
			if _, err := exec.LookPath(program); err != nil {
				t.Skip(err)
			}
			// By themselves they wait a second for an answer, in which a busy machine may not give one.
			if out := onAdapter(t, run+program+" -t 15000 "+args); !regexp.MustCompile(c.want).MatchString(out) {
				t.Errorf("it does not say %q:\n%s", c.want, out)
			}
		})
	}
}

func TestInfiniBandPing(t *testing.T) {
	need(t, "ibping")
	runFabric(t)
	pair{kind: "infiniband", server: "ibping -S", client: "ibping -c 2 3", endless: true,
		want: "2 packets transmitted, 2 received"}.backwards(t)
}

// backwards has the server on adapter 2, whose LID is 3, and repeats the client until the server answers.
func (p pair) backwards(t *testing.T) {
	dir := need(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	server := start(t, ctx, dir, adapter(2), strings.Fields(p.server)...)
	for {
		out, _ := command(ctx, dir, adapter(1), strings.Fields(p.client)...).CombinedOutput()
		if strings.Contains(string(out), p.want) {
			break
		}
		if ctx.Err() != nil {
			t.Errorf("the client did not say %q:\n%s\nserver:\n%s", p.want, out, server.out.String())
			break
		}
	}
	server.cmd.Process.Kill()
	<-server.done
}

func TestInfiniBandUCX(t *testing.T) {
	dir := need(t, "ucx_perftest")
	runFabric(t)
	for _, transports := range []string{"rc_verbs,ud_verbs", "ud_verbs"} {
		t.Run(transports, func(t *testing.T) {
			run := ramjet(t) + " run --libs " + dir + " -- env UCX_TLS=" + transports + " UCX_NET_DEVICES="
			pair{kind: "infiniband", server: run + "host-1:1 ucx_perftest -p PORT",
				client: run + "host-2:1 ucx_perftest -p PORT -t tag_lat -n 200 localhost",
				want:   "Final:"}.run(t)
		})
	}
}

func TestInfiniBandMPI(t *testing.T) {
	dir := need(t, "mpicc.openmpi", "mpirun.openmpi", "ucx_info")
	runFabric(t)
	program := filepath.Join(t.TempDir(), "rings")
	if out, err := exec.Command("mpicc.openmpi", "-O1", "-Wall", "-Werror", "-o", program,
		"testdata/mpi/rings.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("UCX_TLS", "rc_verbs,ud_verbs")
	t.Setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
	t.Setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
	runMPI(t, dir, adapter(1), program)
}

// Tests of librdmacm are skipped: they take the address of a network interface, which an adapter has not.
func TestInfiniBandPyverbs(t *testing.T) {
	dir := need(t, python)
	tests := pyverbsTests(t)
	runFabric(t)
	runPyverbs(t, dir, tests, "host-1", adapter(1), 112)
}
