// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/manual"
)

// Help of every command fits a terminal of 80 columns, examples apart, and folding loses no word.
func TestHelpFits(t *testing.T) {
	for _, c := range manual.Commands(newRootCmd(io.Discard)) {
		words := strings.Fields(c.CommandPath())[1:]
		root := newRootCmd(io.Discard)
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(append(words, "--help"))
		if err := root.Execute(); err != nil {
			t.Errorf("%s: %v", c.CommandPath(), err)
			continue
		}
		section := ""
		for line := range strings.Lines(out.String()) {
			line = strings.TrimRight(line, "\n")
			if strings.HasSuffix(line, ":") && !strings.HasPrefix(line, " ") {
				section = line
			}
			if n := utf8.RuneCountInString(line); n > cli.HelpWidth && section != "Examples:" {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), n, line)
			}
		}
		found, _, err := root.Find(words)
		if err != nil {
			t.Fatal(err)
		}
		whole := strings.Join(strings.Fields(found.UsageString()), " ")
		if folded := strings.Join(strings.Fields(out.String()), " "); !strings.HasSuffix(folded, whole) {
			t.Errorf("%s: words are lost:\n%s\n%s", c.CommandPath(), folded, whole)
		}
	}
}

// Only commands that open devices take certificates: others would ignore them.
func TestCertificatesWhereDevicesAre(t *testing.T) {
	ramjetCmd(t, "explain", "--tls-ca", "ca.pem", "wc", "1").wantError(t, cli.ExitUsage, "unknown flag: --tls-ca")
	for _, args := range [][]string{{"devices"}, {"perf", "send", "bw"}, {"run"}} {
		r := ramjetCmd(t, append(args, "--help")...)
		r.wantSuccess(t)
		if !strings.Contains(r.stdout, "--tls-cert") {
			t.Errorf("%v: %s", args, r.stdout)
		}
	}
}
