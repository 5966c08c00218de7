// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"fmt"
	"strconv"
	"testing"
)

// TestProcesses runs several Ramjet processes on one address. The guest reaches each by its
// port, and each reaches the guest and the others. The first process, which holds things
// together for all, is killed in the middle: the connections of the others go on, and they
// get new ones.
func TestProcesses(t *testing.T) {
	const long, size = 300, 2000
	ramjet := buildRamjet(t)
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			g := dialGuest(t, f.ipv6)
			serve := func(port int, more ...string) *program {
				p := newProgram(t, ramjet,
					append([]string{"ping", "-s", "-P", "-V", "-a", f.host, "-p", strconv.Itoa(port)}, more...)...)
				p.start("waiting for clients")
				return p
			}
			fromGuest := func(port int) {
				t.Helper()
				r := g.run(programTimeout, "rping", "-c", "-V", "-a", f.host, "-p", strconv.Itoa(port), "-C", "5")
				wantProgram(t, fmt.Sprintf("rping to port %d", port), r)
			}
			fromHere := func(to string, port int) {
				t.Helper()
				p := newProgram(t, ramjet, "ping", "-c", "-V", "-d", "roce:"+f.host, "-a", to, "-p", strconv.Itoa(port),
					"-C", "5")
				p.Run()
				wantProgram(t, fmt.Sprintf("ping from here to %s port %d", to, port), p.result(), "5 pings")
			}
			first, second := serve(7601), serve(7602, "-v")
			theirs := g.spawnCM(7603, "rping", "-s", "-P", "-a", f.guest, "-p", "7603")
			all := func(ports ...int) {
				t.Helper()
				for _, port := range ports {
					fromGuest(port)
					fromHere(f.host, port)
				}
				fromHere(f.guest, 7603)
			}
			all(7601, 7602)

			going := g.spawn(0, "rping", "-c", "-V", "-a", f.host, "-p", "7602", "-C", strconv.Itoa(long), "-S",
				strconv.Itoa(size))
			second.waitFor("rdma-ping-20:")
			first.Process.Kill()
			first.Wait()
			all(7602)
			serve(7601)
			all(7601, 7602)
			wantProgram(t, "the rping that was going on", going.wait(programTimeout))
			second.waitFor(fmt.Sprintf("%d pings, %d,000 bytes each way", long, long*size/1000))
			theirs.kill()
		})
	}
}
