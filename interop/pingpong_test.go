// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// pingpongs are rdma-core's programs that exchange QPNs over TCP and then bounce messages.
// Each takes -g GID_INDEX -p PORT -s SIZE -n ITERATIONS and, as the client, the server's
// address; all but the one for UD take -m MTU. The exchange over TCP is over IPv4, because
// their servers listen on nothing else; the GID says what the messages go over.
var pingpongs = []struct {
	program string
	sized   bool // takes -m
	size    int
}{
	{"ibv_rc_pingpong", true, 9000},
	{"ibv_uc_pingpong", true, 9000},
	{"ibv_ud_pingpong", false, 1000},
	{"ibv_srq_pingpong", true, 9000},
}

const (
	pingpongPort       = 18515
	pingpongIterations = 200
)

// gidIndex returns the row of the guest's GID table that has its address on this link.
func (g *guest) gidIndex() int {
	g.t.Helper()
	var answer struct{ GIDs []string }
	g.call("info", nil, &answer)
	want := gidText(mustGID(g.t, g.address))
	for i, gid := range answer.GIDs {
		if gidText(mustGID(g.t, gid)) == want {
			return i
		}
	}
	g.t.Fatalf("no GID for %s in %v", g.address, answer.GIDs)
	return 0
}

// job is a program that runs in the guest.
type job struct {
	g      *guest
	Handle string `json:"job"`
}

// jobResult is how a program ended, with what it wrote to standard output and error.
type jobResult struct {
	Exit     int
	TimedOut bool `json:"timed_out"`
	Output   string
}

// run runs a program in the guest and waits for it.
func (g *guest) run(limit time.Duration, argv ...string) (r jobResult) {
	g.t.Helper()
	g.call("run", args{"argv": argv, "timeout_ms": limit}, &r)
	return r
}

// spawn starts a program in the guest; port, unless 0, is where it is going to listen.
func (g *guest) spawn(port int, argv ...string) *job {
	g.t.Helper()
	j := &job{g: g}
	g.call("spawn", args{"argv": argv, "listen": port}, j)
	return j
}

func (j *job) wait(limit time.Duration) (r jobResult) {
	j.g.t.Helper()
	j.g.call("wait", args{"job": j.Handle, "timeout_ms": limit}, &r)
	return r
}

// wantPingpong fails the test unless a program ended well and counted all iterations.
func wantPingpong(t testing.TB, who string, r jobResult) {
	t.Helper()
	if r.Exit != 0 || !strings.Contains(r.Output, fmt.Sprintf("%d iters in", pingpongIterations)) {
		t.Errorf("%s: exit %d, timed out %v:\n%s", who, r.Exit, r.TimedOut, r.Output)
	}
}

// TestGuestPingpong runs each program in the guest against itself.
func TestGuestPingpong(t *testing.T) {
	for _, pp := range pingpongs {
		for _, l := range links {
			if !pp.sized && l.mtu != verbs.MTU4096 {
				continue // it uses the port's MTU
			}
			t.Run(pp.program+"/"+l.name, func(t *testing.T) {
				g := dialGuest(t, l.ipv6)
				argv := []string{pp.program, "-e", "-d", "rxe0", "-g", strconv.Itoa(g.gidIndex()), "-p", strconv.Itoa(pingpongPort),
					"-s", strconv.Itoa(pp.size), "-n", strconv.Itoa(pingpongIterations)}
				if pp.sized {
					argv = append(argv, "-m", l.mtu.String())
				}
				server := g.spawn(pingpongPort, argv...)
				wantPingpong(t, "client", g.run(30*time.Second, append(argv, guestIPv4)...))
				wantPingpong(t, "server", server.wait(10*time.Second))
			})
		}
	}
}
