// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// A peer replies over RoCEv2 at its own address, and not at an address that a router replaces, as a service's. iWARP
// passes the router.
func TestDoctorNAT(t *testing.T) {
	t.Parallel()
	ctx, enter, ok := inNamespaces(t, "nft")
	if !ok {
		return
	}
	for _, c := range []string{"add table ip nat", "add chain ip nat pre { type nat hook prerouting priority -100; }",
		"add rule ip nat pre ip daddr 198.51.100.7 dnat to 192.0.2.2"} {
		if out, err := exec.CommandContext(ctx, enter[0], append(enter[1:], "nft", c)...).CombinedOutput(); err != nil {
			t.Skipf("nft %s: %v: %s", c, err, out) // a kernel without it
		}
	}
	loopback.IP(t, "route add 198.51.100.0/24 via 192.0.2.2")
	for _, kind := range []string{"roce", "iwarp"} {
		words := append(append([]string(nil), enter...), program, "ping", "-s", "-P", "-d", kind+":192.0.2.2")
		s, out := exec.CommandContext(ctx, words[0], words[1:]...), new(testrun.Buffer)
		s.Stdout, s.Stderr, s.WaitDelay = out, out, time.Minute
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		defer s.Wait()
		defer s.Process.Kill()
		for !strings.Contains(out.String(), "waiting") {
			if ctx.Err() != nil {
				t.Fatalf("the server does not listen: %s", out)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	for _, c := range []struct {
		peer        string
		environment []string
		want        string
	}{
		{"192.0.2.2", nil, "it answers a request for a connection"},
		{"198.51.100.7", nil, "note: peer 198.51.100.7: it does not reply over RoCEv2"},
		{"198.51.100.7", []string{"KUBERNETES_SERVICE_HOST=198.51.100.1", "DB_SERVICE_HOST=198.51.100.7"},
			"problem: peer 198.51.100.7: it is the address of the service db ($DB_SERVICE_HOST)"},
	} {
		d := exec.CommandContext(ctx, program, "doctor", c.peer)
		d.Env = append(d.Environ(), c.environment...)
		out, _ := d.CombinedOutput() // the status is of other findings, too
		text := strings.Join(strings.Fields(string(out)), " ")
		if !strings.Contains(text, c.want) {
			t.Errorf("%s: no %q in\n%s", c.peer, c.want, out)
		}
		if c.peer == "192.0.2.2" && strings.Contains(text, "does not reply") {
			t.Errorf("%s", out)
		}
	}
	if out, err := exec.CommandContext(ctx, program, "ping", "-c", "-a", "198.51.100.7", "-d", "iwarp:192.0.2.1", "-C",
		"3", "-V").CombinedOutput(); err != nil {
		t.Errorf("iWARP: %v: %s", err, out)
	}
}
