// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Programs that look into /sys and /dev find their devices there.
func TestSysfs(t *testing.T) {
	dir := need(t)
	run := []string{ramjet(t), "run", "--libs", dir, "--"}
	t.Setenv("TMPDIR", t.TempDir())
	for _, c := range []struct{ args, want string }{
		{"cat /sys/class/infiniband/roce0/ports/1/gid_attrs/types/0", "RoCE v2\n"},
		{"ls /sys/class/infiniband_verbs", "uverbs0\n"},
		{"test -c /dev/infiniband/uverbs0", ""},
		{"find /sys/class/infiniband -name node_guid", "roce0/node_guid\n"},
		{"cat /sys/class/net/lo/mtu", "\n"}, // other files are the system's
		{"test ! -e /sys/class/infiniband/roce0/ports/1/counters/port_xmit_data",
			"port_xmit_data: these devices have no counters in /sys"},
		{"ibstat", "State: Active"},
		{"ls -l /sys/class/infiniband", "roce0"},
		{"realpath /sys/class/infiniband/roce0/device", "/ffff:00:00.0\n"},
		{"rdma link show -j", `"ifname":"roce0","state":"ACTIVE","physical_state":"LINK_UP","netdev":"lo"`},
		{"rdma res", "0: roce0"},
		{"rdma -j statistic show", `[{"ifname":"roce0","port":1}]`},
	} {
		args := strings.Fields(c.args)
		t.Run(args[0], func(t *testing.T) {
			if _, err := exec.LookPath(args[0]); err != nil {
				t.Skipf("%s is not installed", args[0])
			}
			out, err := command(t.Context(), dir, serverAddr, append(run, args...)...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v, and not %q:\n%s", err, c.want, out)
			}
		})
	}
}

// Programs that tell their peers the names of their devices have the same names on both sides.
func TestDeviceNames(t *testing.T) {
	dir := need(t, "ibv_devinfo")
	for devices, want := range map[string]string{
		"rdma0=roce:" + serverAddr + " rdma1=iwarp:" + serverAddr: "hca_id:	rdma0",
		"rdma0=roce:" + serverAddr + " rdma0=roce:" + clientAddr:  "there is one of that name already",
		"a/b=roce:" + serverAddr + " rdma0=roce:" + serverAddr:    "is no name for a device",
	} {
		out, err := command(t.Context(), dir, devices, "ibv_devinfo").CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "hca_id:	rdma0") {
			t.Errorf("%s: %v, and not %q:\n%s", devices, err, want, out)
		}
	}
}

// A program that names a device by its address, as devices were called once, finds it, and so does a program that lists
// devices by such names.
func TestNamesOfAddresses(t *testing.T) {
	dir := need(t, "ibv_devinfo")
	run := []string{ramjet(t), "run", "--libs", dir, "--"}
	t.Setenv("TMPDIR", t.TempDir())
	for _, c := range []struct{ devices, args string }{
		{"roce:" + serverAddr + " shm:127.0.0.1", "ibv_devinfo -d roce_" + serverAddr},
		{"roce:" + serverAddr + " shm:127.0.0.1", "ibv_devinfo -d shm_127.0.0.1"},
		{"roce:" + serverAddr + " shm:127.0.0.1", "ibv_devinfo -d shm0"},
		{"roce_" + serverAddr + " shm:127.0.0.1", "ibv_devinfo -d roce_" + serverAddr},
	} {
		args := strings.Fields(c.args)
		out, err := command(t.Context(), dir, c.devices, append(run, args...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "hca_id:	"+args[2]+"\n") {
			t.Errorf("%s: %s: %v\n%s", c.devices, c.args, err, out)
		}
	}
}

// However a program ends, nothing is left of the folder that shows it /sys; and not before all have
// ended that it has started.
func TestRunLeavesNothing(t *testing.T) {
	dir := need(t)
	ramjet, tmp := ramjet(t), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("XDG_RUNTIME_DIR", "")
	folders := func() []string {
		all, err := filepath.Glob(filepath.Join(tmp, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	gone := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		for ; len(folders()) > 0; time.Sleep(10 * time.Millisecond) {
			if ctx.Err() != nil {
				t.Fatalf("left: %q", folders())
			}
		}
	}
	// started runs a shell that says when it is there, and then waits for a line.
	started := func(script string) (*exec.Cmd, io.WriteCloser, *bufio.Reader) {
		c := command(t.Context(), dir, serverAddr, ramjet, "run", "--libs", dir, "--", "sh", "-c", script)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		from := bufio.NewReader(out)
		if line, err := from.ReadString('\n'); err != nil || line != "here\n" {
			t.Fatalf("%q, %v", line, err)
		}
		return c, in, from
	}
	const wait = "echo here; read line; cat /sys/class/infiniband_verbs/uverbs0/ibdev"

	a, in, out := started(wait)
	b, _, _ := started(wait)
	if all := folders(); len(all) != 1 { // which both share
		t.Errorf("folders: %q", all)
	}
	b.Process.Kill()
	b.Wait()
	in.Write([]byte("\n"))
	if line, err := out.ReadString('\n'); err != nil || line != "roce0\n" {
		t.Errorf("one of two has ended, and the other sees %q, %v", line, err)
	}
	if err := a.Wait(); err != nil {
		t.Error(err)
	}
	gone()

	c, in, out := started("(exec 3<&0; " + wait + " <&3) <&0 & exit 0")
	defer c.Wait()
	for { // until the shell has ended, but not its child
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/cmdline", c.Process.Pid)); err != nil {
			break
		}
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.Process.Pid)); err != nil || len(text) == 0 {
			break // it waits to be waited for
		}
		time.Sleep(10 * time.Millisecond)
	}
	in.Write([]byte("\n"))
	if line, err := out.ReadString('\n'); err != nil || line != "roce0\n" {
		t.Errorf("the program has ended, and its child sees %q, %v", line, err)
	}
	gone()
}

// UCX wants to find its devices in /dev, and the kinds of their addresses in /sys.
func TestUCX(t *testing.T) {
	dir := need(t, "ucx_perftest")
	run := ramjet(t) + " run --libs " + dir + " -- env UCX_TLS=TRANSPORTS ucx_perftest -p PORT TEST"
	t.Setenv("TMPDIR", t.TempDir())
	tests := []struct{ transports, test string }{
		{"rc_verbs,ud_verbs", "-t tag_lat -n 100 -s 100"},
		{"rc_verbs,ud_verbs", "-t tag_bw -n 100 -s 100000"},
		{"rc_verbs,ud_verbs", "-t ucp_put_lat -n 100 -s 8"},
		{"rc_verbs,ud_verbs", "-t ucp_get -n 100 -s 1000"},
		{"rc_verbs,ud_verbs", "-t ucp_fadd -n 100 -s 8"},
		{"rc_verbs,ud_verbs", "-t ucp_am_bw -n 100 -s 9000"},
		{"rc_verbs,ud_verbs", "-t stream_bw -n 100 -s 1000"},
		{"ud_verbs", "-t tag_lat -n 100 -s 100"},
		{"rc_v", "-t tag_lat -n 100 -s 100"},
	}
	// UCX finds the devices of long addresses, although it cuts off long names.
	t.Run("a long address", func(t *testing.T) {
		out, err := command(t.Context(), dir, "roce:127.201.202.203", ramjet(t), "run", "--libs", dir, "--", "ucx_info",
			"-d").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Device: roce0:1") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	for _, kind := range []string{"roce", "shm"} {
		for _, c := range tests {
			args := strings.NewReplacer("TRANSPORTS", c.transports, "TEST", c.test).Replace(run)
			t.Run(kind+" "+c.transports+" "+c.test,
				pair{kind: kind, server: args, client: args + " 127.0.0.1", want: "Final:"}.run)
		}
	}
}
