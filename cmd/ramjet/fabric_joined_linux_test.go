// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// withRoom is a switch with an adapter, and a port for a cable to elsewhere; %s tells two of them apart.
const withRoom = `
switchguid=0x%[1]s00
Switch 2 "switch-%[1]s"
[1] "host-%[1]s"[1]

caguid=0x%[1]s10
Hca 1 "host-%[1]s"
[1](%[1]s11) "switch-%[1]s"[1]
`

// Fabrics in two network namespaces are joined by a cable, and ping finds an adapter beyond it by its IP
// address.
func TestFabricsJoined(t *testing.T) {
	t.Parallel()
	ctx, enter, ok := inNamespaces(t)
	if !ok {
		return
	}
	run := func(prefix []string, args ...string) (*exec.Cmd, *testrun.Buffer) {
		t.Helper()
		words := append(append(append([]string(nil), prefix...), program), args...)
		c, out := exec.CommandContext(ctx, words[0], words[1:]...), new(testrun.Buffer)
		c.Stdout, c.Stderr, c.WaitDelay = out, out, time.Minute
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			c.Process.Kill()
			c.Wait()
			if t.Failed() {
				t.Logf("%v:\n%s", words, out)
			}
		})
		return c, out
	}
	await := func(out *testrun.Buffer, text string) {
		t.Helper()
		for !strings.Contains(out.String(), text) {
			if ctx.Err() != nil {
				t.Fatalf("it never says %q:\n%s", text, out)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	a := writeFiles(t, "a.net", fmt.Sprintf(withRoom, "a"))
	b := writeFiles(t, "b.net", fmt.Sprintf(withRoom, "b"))
	name := fabricName(t)
	_, up := run(nil, "fabric", a, "--name", name, "--listen", "192.0.2.1:7470")
	await(up, "Devices of")
	_, joined := run(enter, "fabric", b, "--name", name, "--host", "1", "--no-manager", "--join",
		"192.0.2.1:7470,switch-b[2],switch-a[2]")
	await(joined, "Devices of")
	_, serving := run(nil, "ping", "-s", "-d", "infiniband:host-a?fabric="+name)
	await(serving, "waiting")
	for {
		once, done := context.WithTimeout(ctx, time.Minute)
		words := append(append([]string(nil), enter...), program, "ping", "-c", "-v", "-V", "-C", "5", "-d",
			"infiniband:host-b?fabric="+name, "-a", "198.18.0.1")
		out, err := exec.CommandContext(once, words[0], words[1:]...).CombinedOutput()
		done()
		if err == nil {
			t.Logf("%s", out)
			return
		}
		// the server may not be registered yet
		if !strings.Contains(string(out), "no such address") || ctx.Err() != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
