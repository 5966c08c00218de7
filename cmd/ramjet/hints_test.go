// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"strings"
	"testing"
)

// Errors are in the words of the command line, with a remedy.
func TestHints(t *testing.T) {
	t.Parallel()
	nobody, here := testDevice(t), testDevice(t)
	for _, c := range []struct {
		args   string
		status int
		text   string
	}{
		{"demo extra", cli.ExitUsage, `"extra" is one argument too many`},
		{"perf table extra", cli.ExitUsage, `"extra" is one argument too many`},
		{"cp 192.0.2.7:file 192.0.2.8:", cli.ExitUsage, "fetch to a directory here first"},
		{"ping -c -a 127.0.0.1 -p 70000", cli.ExitUsage, `"70000" is not a port: give 1 to 65535`},
		{"ping -c -a 127.0.0.1 -p 0", cli.ExitUsage, `"0" is not a port: give 1 to 65535`},
		{"serve -p x .", cli.ExitUsage, `"x" is not a port: give 0 to 65535`},
		{"perf send bw no.such.host.invalid", cli.ExitUsage, "give a name that resolves"},
		{"perf send bw -p " + freePort(t) + " " + host(nobody), cli.ExitFailed,
			"start `ramjet perf send bw` there first"},
		{"ping -c -d " + here + " -a " + host(nobody), cli.ExitFailed, "with -d roce:" + host(nobody)},
		{"ping -c -d iwarp:" + host(here) + " -a " + host(nobody), cli.ExitFailed, "with -d iwarp:" + host(nobody)},
		{"pipe -d " + here + " " + host(nobody) + " 7000", cli.ExitFailed, "refused: no listener"},
	} {
		t.Run(c.args, func(t *testing.T) {
			ramjetCmd(t, strings.Fields(c.args)...).wantError(t, c.status, c.text)
		})
	}
}
