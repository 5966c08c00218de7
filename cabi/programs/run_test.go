// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ramjet builds the command.
func ramjet(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "ramjet")
	if text, err := exec.Command("go", "build", "-o", out, "../../cmd/ramjet").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// Programs that look into /sys and /dev find their devices there.
func TestSysfs(t *testing.T) {
	dir := need(t)
	run := []string{ramjet(t), "run", "--libs", dir, "--"}
	t.Setenv("TMPDIR", t.TempDir())
	for _, c := range []struct{ args, want string }{
		{"cat /sys/class/infiniband/roce_" + serverAddr + "/ports/1/gid_attrs/types/0", "RoCE v2\n"},
		{"ls /sys/class/infiniband_verbs", "uverbs0\n"},
		{"test -c /dev/infiniband/uverbs0", ""},
		{"find /sys/class/infiniband -name node_guid", "roce_" + serverAddr + "/node_guid\n"},
		{"cat /sys/class/net/lo/mtu", "\n"}, // others are what they are
		{"ibstat", "State: Active"},
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

// UCX wants to find its devices in /dev, and the kinds of their addresses in /sys.
func TestUCX(t *testing.T) {
	dir := need(t, "ucx_perftest")
	run := ramjet(t) + " run --libs " + dir + " -- env UCX_TLS=TRANSPORTS ucx_perftest -p PORT TEST"
	t.Setenv("TMPDIR", t.TempDir())
	for _, c := range []struct{ transports, test string }{
		{"rc_verbs,ud_verbs", "-t tag_lat -n 100 -s 100"},
		{"rc_verbs,ud_verbs", "-t tag_bw -n 100 -s 100000"},
		{"rc_verbs,ud_verbs", "-t ucp_put_lat -n 100 -s 8"},
		{"rc_verbs,ud_verbs", "-t ucp_get -n 100 -s 1000"},
		{"rc_verbs,ud_verbs", "-t ucp_fadd -n 100 -s 8"},
		{"rc_verbs,ud_verbs", "-t ucp_am_bw -n 100 -s 9000"},
		{"rc_verbs,ud_verbs", "-t stream_bw -n 100 -s 1000"},
		{"ud_verbs", "-t tag_lat -n 100 -s 100"},
	} {
		args := strings.NewReplacer("TRANSPORTS", c.transports, "TEST", c.test).Replace(run)
		t.Run(c.transports+" "+c.test, pair{server: args, client: args + " 127.0.0.1", want: "Final:"}.run)
	}
}
