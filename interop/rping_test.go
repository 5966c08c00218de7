// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

const (
	rpingPort  = 7174
	rpingCount = 5
	rpingMax   = 65535
)

// rpingSizes are from about the smallest that rping takes to the largest.
var rpingSizes = []int{26, 64, 1000, 1023, 1024, 4096, 9001, rpingMax}

// wantPings fails the test unless a server says that it has seen all pings of each client.
// rping's exit code says little: it ends with 0 too where its server goes away.
func wantPings(t testing.TB, server *program, clients int) {
	t.Helper()
	if n := strings.Count(server.output(), fmt.Sprintf("\n%d pings", rpingCount)); n != clients {
		t.Fatalf("%d clients of %d have had all their answers:\n%s", n, clients, server.output())
	}
}

// TestRping runs "ramjet ping" against rdma-core's rping, both roles: each ping is read
// and written back over a connection of its own, and the client compares every byte. rping
// makes its queue pair with the connection manager or, with -q, itself.
func TestRping(t *testing.T) {
	ramjet := buildRamjet(t)
	for _, f := range both {
		t.Run(f.toGuest()+"/"+f.name, func(t *testing.T) {
			g := dialGuest(t, f.ipv6)
			server := g.spawnCM(rpingPort, "rping", "-s", "-P", "-a", f.guest, "-S", strconv.Itoa(rpingMax))
			for _, size := range rpingSizes {
				client := newProgram(t, ramjet, "ping", "-c", "-V", "-d", f.device+f.host, "-a", f.guest,
					"-C", strconv.Itoa(rpingCount), "-S", strconv.Itoa(size))
				client.Run()
				wantProgram(t, fmt.Sprintf("client with %d bytes", size), client.result(),
					fmt.Sprintf("%d pings", rpingCount))
			}
			server.kill()
		})
		t.Run(f.fromGuest()+"/"+f.name, func(t *testing.T) {
			g := dialGuest(t, f.ipv6)
			server := newProgram(t, ramjet, "ping", "-s", "-P", "-V", "-d", f.device+f.host, "-a", f.host)
			server.start("waiting for clients")
			for i, size := range rpingSizes {
				argv := []string{"rping", "-c", "-V", "-a", f.host, "-C", strconv.Itoa(rpingCount), "-S",
					strconv.Itoa(size)}
				if i%4 == 1 && !f.iwarp() { // whose queue pairs a program cannot connect itself
					argv = append(argv, "-q")
				}
				r := g.run(programTimeout, argv...)
				wantProgram(t, "client", r)
				if strings.Contains(r.Output, "mismatch") || strings.Contains(r.Output, "state") {
					t.Fatalf("client with %d bytes:\n%s", size, r.Output)
				}
				server.waitFor(units.Count(rpingCount*size) + " bytes each way")
			}
			wantPings(t, server, len(rpingSizes))
		})
	}
}

// TestRpingKilled kills "ramjet ping" in the middle, so that rping's server gets no message
// that the connection has ended. The next one, from the same address, is served.
func TestRpingKilled(t *testing.T) {
	ramjet := buildRamjet(t)
	g := dialGuest(t, false)
	server := g.spawnCM(rpingPort, "rping", "-s", "-P", "-a", guestIPv4, "-S", strconv.Itoa(rpingMax))
	for range 3 {
		victim := newProgram(t, ramjet, "ping", "-c", "-v", "-d", "roce:"+hostIPv4, "-a", guestIPv4, "-S",
			strconv.Itoa(rpingMax))
		victim.start("rdma-ping-2:")
		victim.Process.Kill()
		victim.Wait()
		next := newProgram(t, ramjet, "ping", "-c", "-V", "-d", "roce:"+hostIPv4, "-a", guestIPv4, "-C", "5")
		next.Run()
		wantProgram(t, "the next client", next.result(), "5 pings")
	}
	server.kill()
}
