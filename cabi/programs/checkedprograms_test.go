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

const (
	fioServer = "fio --thread --ioengine=rdma --port=PORT --bs=64k --size=1m --name=job --rw=read"
	fioClient = "fio --thread --ioengine=rdma --port=PORT --bs=64k --size=1m --name=job --rw=write --hostname=SERVER"
)

// Programs of other projects have no findings, or the findings that docs/check.md describes, also with protected pages.
func TestCheckedPrograms(t *testing.T) {
	run := ramjet(t) + " run --libs " + need(t) + " -- "
	for _, c := range []struct {
		kinds, server, client string
		want                  string
		finds                 [2]string // on both sides
		maybe                 string    // rules whose findings depend on chance, such as the progress of the other side
		ready                 string    // see pair
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
		{kinds: "roce", server: "rdma_xserver -p PORT", client: "rdma_xclient -s SERVER -p PORT",
			want: "rdma_xclient: end 0", finds: [2]string{"", "inline-limit"}},
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
			finds: [2]string{"memory-freed", "memory-freed"}, maybe: "receive-touched"},
		{kinds: "roce", server: "env UCX_TLS=rc_verbs,ud_verbs ucx_perftest -t ucp_put_bw -n 300 -s 65536 -p PORT",
			want:  "Final:",
			finds: [2]string{"memory-freed", "memory-freed"}, maybe: "receive-touched send-modified"},
		{kinds: "roce", server: fioServer, client: fioClient + " --verb=write", want: "total=0,16,0,0",
			finds: [2]string{"leak", "leak"}, maybe: "events-left memory-freed", ready: "waiting for connection"},
		{kinds: "shm", server: fioServer, client: fioClient + " --verb=read", want: "total=0,16,0,0",
			finds: [2]string{"leak", "leak"}, maybe: "events-left memory-freed", ready: "waiting for connection"},
	} {
		if c.client == "" {
			c.client = c.server + " SERVER"
		}
		for _, kind := range strings.Fields(c.kinds) {
			p := pair{kind: kind, server: run + c.server, client: run + c.client, ready: c.ready, want: c.want}
			p.compare = func(server, client string) error {
				for i, said := range []string{server, client} {
					got := found(said, strings.Fields(c.maybe))
					if got := strings.Join(got, " "); got != c.finds[i] {
						return fmt.Errorf("found %q, and not %q:\n%s", got, c.finds[i], said)
					}
				}
				return nil
			}
			words := strings.Fields(c.server)
			if words[0] == "env" {
				words = words[2:]
			}
			for _, options := range []string{"exitcode=0", "exitcode=0 protect"} {
				t.Run(kind+" "+c.client+" "+options, func(t *testing.T) {
					need(t, words[0])
					t.Setenv("RAMJET_CHECK", options)
					p.run(t)
				})
			}
		}
	}
}

// found returns the rules of the findings in a program's output, without some.
func found(said string, without []string) (rules []string) {
	for _, m := range regexp.MustCompile(`(?m)^ramjet check: ([a-z-]+):`).FindAllStringSubmatch(said, -1) {
		if !slices.Contains(without, m[1]) {
			rules = append(rules, m[1])
		}
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}
