// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"
)

// netem disturbs the RoCEv2 packets that the guest sends ("out") or receives ("in") until
// the test ends, as options says in the words of tc-netem(8).
func (g *guest) netem(direction string, options ...string) {
	g.t.Helper()
	g.t.Cleanup(func() { g.call("netem_off", nil, nil) })
	g.call("netem", args{"direction": direction, "args": options}, nil)
}

// netemStats returns how many packets netem let through and dropped in a direction.
func (g *guest) netemStats(direction string) (sent, dropped int) {
	g.t.Helper()
	var answer struct {
		Netem map[string]struct{ Sent, Dropped int }
	}
	g.call("netem_stats", nil, &answer)
	return answer.Netem[direction].Sent, answer.Netem[direction].Dropped
}

// TestGuestNetem sends datagrams to and from the guest's RoCE port through netem, and
// compares the datagrams that arrive with its count of dropped ones.
func TestGuestNetem(t *testing.T) {
	const packets = 200 // all fit into a socket buffer of 208 KiB, in which they wait to be read
	for _, family := range []struct {
		network, host, guest string
	}{{"udp4", hostIPv4, guestIPv4}, {"udp6", hostIPv6, guestIPv6}} {
		t.Run("out/"+family.network, func(t *testing.T) {
			g := dialGuest(t, false)
			g.netem("out", "loss", "30%", "delay", "20ms", "reorder", "50%")
			conn, err := net.ListenPacket(family.network, net.JoinHostPort(family.host, "4791"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			const script = `
import socket, sys
host, n = sys.argv[1], int(sys.argv[2])
s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
for i in range(n): s.sendto(i.to_bytes(2, "big"), (host, 4791))`
			if r := g.run(programTimeout, "python3", "-c", script, family.host, strconv.Itoa(packets)); r.Exit != 0 {
				t.Fatal(r.Output)
			}
			_, lost := g.netemStats("out") // all have been sent, if not all have left
			arrived, reordered, last := 0, 0, -1
			buf := make([]byte, 100)
			for ; ; arrived++ {
				wait := waitTimeout
				if arrived+lost == packets {
					wait = time.Second // nothing is to come
				}
				conn.SetReadDeadline(time.Now().Add(wait))
				if _, _, err := conn.ReadFrom(buf); err != nil {
					break
				}
				i := int(buf[0])<<8 | int(buf[1])
				if i < last {
					reordered++
				}
				last = i
			}
			if arrived+lost != packets || lost == 0 || reordered == 0 {
				t.Errorf("%d arrived, %d of them out of order; netem says %d of %d were lost", arrived, reordered, lost,
					packets)
			}
		})
		t.Run("in/"+family.network, func(t *testing.T) {
			g := dialGuest(t, false)
			g.netem("in", "loss", "30%")
			conn, err := net.Dial(family.network, net.JoinHostPort(family.guest, "4791"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for range packets {
				conn.Write([]byte("no RoCE packet, but to its port"))
			}
			ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
			defer cancel()
			for {
				sent, lost := g.netemStats("in")
				if sent+lost == packets && lost > 0 {
					return
				}
				if ctx.Err() != nil {
					t.Fatalf("netem passed %d and dropped %d of %d", sent, lost, packets)
				}
			}
		})
	}
}
