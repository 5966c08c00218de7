// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Programs of others have no findings, or those that docs/check.md describes.
func TestCheckedPrograms(t *testing.T) {
	run := ramjet(t) + " run --libs " + need(t) + " --check=exitcode=0 -- "
	for _, c := range []struct {
		kinds, server, client string
		want                  string
		finds                 [2]string // on both sides
		maybe                 string    // a rule that one side's end leads to, if the other is not so far
	}{
		{kinds: "roce shm", server: "ibv_rc_pingpong -g 0 -p PORT", want: "iters in"},
		{kinds: "roce shm", server: "ibv_rc_pingpong -g 0 -e -p PORT", want: "iters in"},
		{kinds: "roce", server: "ibv_rc_pingpong -g 0 -t -p PORT", want: "iters in"},
		{kinds: "shm", server: "ibv_rc_pingpong -g 0 -N -p PORT", want: "iters in"},
		{kinds: "roce", server: "ibv_rc_pingpong -g 0 -c -p PORT", want: "iters in",
			finds: [2]string{"", "receive-touched"}},
		{kinds: "roce shm", server: "ibv_ud_pingpong -g 0 -e -n 100 -p PORT", want: "iters in"},
		{kinds: "roce shm", server: "ibv_srq_pingpong -g 0 -n 200 -p PORT", want: "iters in",
			maybe: "completion-error-unread"},
		{kinds: "roce", server: "ibv_xsrq_pingpong -g 0 -n 200 -p PORT", want: "success"},
		{kinds: "roce shm iwarp", server: "rping -s -a SERVER -C 20 -v -p PORT",
			client: "rping -c -a SERVER -C 20 -v -p PORT", want: "rdma-ping-19",
			maybe: "use-after-destroy"},
		{kinds: "roce shm iwarp", server: "ucmatose -b SERVER -p PORT", client: "ucmatose -s SERVER -p PORT",
			want: "return status 0"},
		{kinds: "roce", server: "udaddy -b SERVER", client: "udaddy -s SERVER", want: "return status 0",
			finds: [2]string{"ud-grh-read", "send-queue-unsignaled"}},
		{kinds: "roce iwarp", server: "rdma_server -p PORT", client: "rdma_client -s SERVER -p PORT",
			want: "rdma_client: end 0"},
		{kinds: "roce iwarp", server: "rstream -b SERVER -T b -S 20000 -I 2 -C 50 -p PORT",
			client: "rstream -s SERVER -T b -S 20000 -I 2 -C 50 -p PORT",
			want:   "custom"},
		{kinds: "roce", server: "ib_write_bw -F -s 1000 -n 100 -b -p PORT", want: table},
		{kinds: "shm", server: "ib_read_lat -F -s 1000 -n 100 -e -p PORT", want: table},
		{kinds: "roce", server: "ib_send_lat -F -c UD -s 1000 -n 100 -p PORT", want: table},
		{kinds: "roce", server: "ib_send_bw -F --use-srq -b -n 100 -p PORT", want: table},
		{kinds: "roce", server: "ib_send_bw -F -c XRC -s 1000 -n 100 -p PORT", want: table,
			finds: [2]string{"", "leak"}},
		{kinds: "shm", server: "ib_atomic_bw -F -n 100 -p PORT", want: table},
		{kinds: "iwarp", server: "ib_read_bw -F -R -n 100 -p PORT", want: table,
			finds: [2]string{"leak receive-touched", "leak receive-touched"},
			maybe: "events-left"},
		{kinds: "roce", server: "env UCX_TLS=ud_verbs ucx_perftest -t tag_bw -n 1000 -s 10000 -p PORT", want: "Final:",
			finds: [2]string{"memory-freed", "memory-freed"}},
		{kinds: "shm", server: "env UCX_TLS=rc_verbs,ud_verbs ucx_perftest -t ucp_am_bw -n 300 -s 9000 -p PORT",
			want:  "Final:",
			finds: [2]string{"memory-freed", "memory-freed"}},
	} {
		if c.client == "" {
			c.client = c.server + " SERVER"
		}
		for _, kind := range strings.Fields(c.kinds) {
			p := pair{kind: kind, server: c.server, client: c.client, want: c.want}
			name := kind + " " + p.server
			p.server, p.client = run+p.server, run+p.client
			p.compare = func(server, client string) error {
				for i, said := range []string{server, client} {
					got := slices.DeleteFunc(found(said), func(rule string) bool { return rule == c.maybe })
					if got := strings.Join(got, " "); got != c.finds[i] {
						return fmt.Errorf("found %q, and not %q:\n%s", got, c.finds[i], said)
					}
				}
				return nil
			}
			t.Run(name, func(t *testing.T) {
				words := strings.Fields(c.server)
				if words[0] == "env" {
					words = words[2:]
				}
				need(t, words[0])
				p.run(t)
			})
		}
	}
}

// found returns the rules of the findings in what a program has said.
func found(said string) (rules []string) {
	for _, m := range regexp.MustCompile(`(?m)^ramjet check: ([a-z-]+):`).FindAllStringSubmatch(said, -1) {
		rules = append(rules, m[1])
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}
