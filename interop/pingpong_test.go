// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// pingpongs are rdma-core's programs that exchange QPNs over TCP and then bounce messages.
// Each takes -g GID_INDEX -p PORT -s SIZE -n ITERATIONS and, as the client, the server's
// address; all but the one for UD take -m MTU. The exchange over TCP is over IPv4, because
// their servers listen on nothing else; the GID decides the protocol of the messages.
var pingpongs = []struct {
	kind  string
	sized bool // takes -m
	size  int
}{
	{"rc", true, 9000},
	{"uc", true, 9000},
	{"ud", false, 1000},
	{"srq", true, 9000},
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

// jobResult is the result of a program, with its standard output and error.
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

// spawn starts a program in the guest; port, unless 0, is the port at which it is going to listen.
func (g *guest) spawn(port int, argv ...string) *job {
	g.t.Helper()
	j := &job{g: g}
	g.call("spawn", args{"argv": argv, "listen": port}, j)
	return j
}

// ended reports whether the program has ended.
func (j *job) ended() bool {
	j.g.t.Helper()
	var answer struct{ Ended bool }
	j.g.call("ended", args{"job": j.Handle}, &answer)
	return answer.Ended
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

// eachPingpong runs test for every program over every link, with its arguments on both
// sides; the peer's program adds its device, and its row of the GID table.
func eachPingpong(t *testing.T, test func(t *testing.T, kind string, l link, argv []string)) {
	for _, pp := range pingpongs {
		for i, l := range links {
			if !pp.sized && l.mtu != verbs.MTU4096 {
				continue // it uses the port's MTU
			}
			t.Run(pp.kind+"/"+l.name, func(t *testing.T) {
				argv := []string{"-c", "-p", strconv.Itoa(pingpongPort), "-s", strconv.Itoa(pp.size), "-n",
					strconv.Itoa(pingpongIterations)}
				if pp.sized {
					argv = append(argv, "-m", l.mtu.String())
				}
				if i%2 == 0 || !pp.sized && l.ipv6 {
					argv = append(argv, "-e")
				}
				test(t, pp.kind, l, argv)
			})
		}
	}
}

// pingpong is the command line of the guest's program.
func (g *guest) pingpong(kind string, argv []string, server ...string) []string {
	g.t.Helper()
	return slices.Concat([]string{"ibv_" + kind + "_pingpong", "-d", "rxe0", "-g", strconv.Itoa(g.gidIndex())}, argv,
		server)
}

// TestGuestPingpong runs each program in the guest against itself.
func TestGuestPingpong(t *testing.T) {
	eachPingpong(t, func(t *testing.T, kind string, l link, argv []string) {
		g := dialGuest(t, l.ipv6)
		argv = append(argv, "-e") // two that poll have one processor
		server := g.spawn(pingpongPort, g.pingpong(kind, argv)...)
		wantPingpong(t, "client", g.run(programTimeout, g.pingpong(kind, argv, guestIPv4)...))
		wantPingpong(t, "server", server.wait(programTimeout))
	})
}

// TestPingpong runs "ramjet pingpong" against the program of the same kind in the guest.
func TestPingpong(t *testing.T) {
	ramjet := buildRamjet(t)
	command := func(t *testing.T, kind string, l link, argv []string, server ...string) *program {
		address := hostIPv4
		if l.ipv6 {
			address = hostIPv6
		}
		return newProgram(t, ramjet, slices.Concat([]string{"pingpong", kind, "-d", "roce:" + address}, argv,
			server)...)
	}
	t.Run("ramjet→rxe", func(t *testing.T) {
		eachPingpong(t, func(t *testing.T, kind string, l link, argv []string) {
			g := dialGuest(t, l.ipv6)
			server := g.spawn(pingpongPort, g.pingpong(kind, argv)...)
			c := command(t, kind, l, argv, guestIPv4)
			c.Run()
			wantPingpong(t, "client", c.result())
			wantPingpong(t, "server", server.wait(programTimeout))
		})
	})
	t.Run("rxe→ramjet", func(t *testing.T) {
		eachPingpong(t, func(t *testing.T, kind string, l link, argv []string) {
			g := dialGuest(t, l.ipv6)
			c := command(t, kind, l, argv)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			waitForListener(t, pingpongPort)
			wantPingpong(t, "client", g.run(programTimeout, g.pingpong(kind, argv, hostIPv4)...))
			c.Wait()
			wantPingpong(t, "server", c.result())
		})
	})
}

// waitForListener waits until a TCP socket of this network namespace listens on port. It
// looks, and does not connect: a pingpong's server takes one client.
func waitForListener(t *testing.T, port int) {
	t.Helper()
	want := fmt.Sprintf(":%04X ", port)
	for deadline := time.Now().Add(programTimeout); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			b, _ := os.ReadFile(table)
			for line := range strings.Lines(string(b)) {
				if f := strings.Fields(line); len(f) > 3 && f[3] == "0A" && strings.Contains(f[1]+" ", want) {
					return
				}
			}
		}
	}
	t.Fatalf("nobody listens on port %d", port)
}
