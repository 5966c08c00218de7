// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The words that shells are offered, and whether files are too.
func TestCompletionValues(t *testing.T) {
	const files, noFiles, dirs, extensions, noSpace = ":0", ":4", ":16", ":8", ":2"
	keys := t.TempDir()
	if err := os.WriteFile(filepath.Join(keys, "key.pem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, offers, directive string
	}{
		{"devices ", "roce:127.0.0.1", noFiles},
		{"ping -d ", "roce:127.0.0.1", noFiles},
		{"demo -d iw", "iwarp+sctp", noFiles},
		{"perf send bw -d ", "roce:127.0.0.1", noFiles},
		{"perf send bw -c ", "UD", noFiles},
		{"perf send lat -m ", "4096", noFiles},
		{"perf atomic lat -A ", "CMP_AND_SWAP", noFiles},
		{"perf table -d ", "iwarp:", noFiles},
		{"perf send ", "lat", noFiles},
		{"bench ", "notification", noFiles},
		{"bench notification -d iw", "iwarp+sctp", noFiles},
		{"bench notification --png ", "png", extensions},
		{"perf send bw --size ", "", noFiles},
		{"perf send bw somewhere ", "", noFiles},
		{"serve ", "", dirs},
		{"man ", "", dirs},
		{"run --libs ", "", dirs},
		{"cp ", "", files},
		{"cp localho", "localhost:", noSpace},
		{"run s", "sh", files},
		{"stat ", "qp", noFiles},
		{"stat qp ", "", noFiles},
		{"explain ", "IBV_WC_RETRY_EXC_ERR", noFiles},
		{"explain REM", "REM_ACCESS_ERR", noFiles},
		{"top --sort ", "rtt", noFiles},
		{"top ", "", noFiles},
		{"fabric --routing ", "up-down", noFiles},
		{"fabric --fat-tree ", "4,2", noFiles},
		{"fabric show --topology ", "", files},
		{"ladder ../../internal/testkit/captured/", "", files},
		{"ladder " + filepath.Dir(rxeCapture) + "/", "pcap", extensions},
		{"fault ", "", noFiles},
		{"fault 1 ", "partition", ":6"},
		{"fault 1 /", "", files},
		{"fault 1 -d ", "", noFiles},
		{"run --faults ", "loss", ":6"},
		{"run --fault-log ", "", files},
		{"doctor --log ", "", files},
		{"export --listen ", "127.0.0.1", noFiles},
		{"fabric --listen ", "127.0.0.1:", ":6"},
		{"fabric --lmc ", "7", noFiles},
		{"pipe -l ", "127.0.0.1:", ":6"},
		{"pipe somewhere ", "", noFiles},
		{"bench registration -d ", "shm:", noFiles},
		{"perf read lat -d ", "iwarp:", noFiles},
		{"sim ", "", files},
		{"help ", "demo", noFiles},
		{"help fabric ", "show", noFiles},
		{"ladder --conversation ", "all", noFiles},
		{"devices --tls-key " + keys + "/", "pem", extensions},
		{"demo --pcap ", "pcapng", extensions},
	} {
		args := strings.Split(c.args, " ")
		var out bytes.Buffer
		root := newRootCmd(&out)
		root.SetErr(&bytes.Buffer{})
		root.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, args...))
		if err := root.Execute(); err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if last := lines[len(lines)-1]; last != c.directive {
			t.Errorf("%s: directive %s, want %s: %q", c.args, last, c.directive, lines)
		}
		if c.offers != "" && !slices.Contains(lines, c.offers) {
			t.Errorf("%s: no %s in %q", c.args, c.offers, lines)
		}
	}
}

func TestHostNames(t *testing.T) {
	got := hostNames("127.0.0.1 localhost\n# 10.0.0.9 gone\n\n10.0.0.7\tnode7 seven # the seventh\n::1 localhost\n10.0.0.8\n")
	if want := []string{"localhost", "node7", "seven"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
