// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestPingpong runs server and client of each kind, and looks at the output of both.
func TestPingpong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		qps  int
		size int
	}{
		{"rc -e", 1, 4096},
		{"rc -s 1 -m 256", 1, 1},
		{"uc -e -s 9000", 1, 9000},
		{"ud -e", 1, 1024},
		{"ud -e -s 4096", 1, 4096},
		{"srq -e", 16, 4096},
		{"srq -e -q 3 -r 10 -s 64", 3, 64},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			const iters = 100
			args := append([]string{"pingpong"}, strings.Fields(c.args)...)
			args = append(args, "-c", "-n", fmt.Sprint(iters), "-p", freePort(t))
			pcap := filepath.Join(t.TempDir(), "server.pcapng")
			server, serverResult := command(ctx, t, append(args, "-d", testDevice(t), "--pcap", pcap)...)
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			args = append(args, "-d", testDevice(t), "127.0.0.1")
			client := ramjetCmd(t, args...)
			for client.status != 0 && strings.Contains(client.stderr, "start it first") && ctx.Err() == nil {
				time.Sleep(20 * time.Millisecond) // the server does not listen yet
				client = ramjetCmd(t, args...)
			}
			results := map[string]result{"client": client, "server": serverResult(t, server.Wait())}
			address := regexp.MustCompile(`(?m)^  (local|remote) address: {1,2}LID 0x0000, QPN 0x[0-9a-f]{6}, PSN 0x[0-9a-f]{6}, GID ::ffff:127\.[0-9.]+$`)
			figures := regexp.MustCompile(fmt.Sprintf(`(?m)^%d bytes in \d+\.\d\d seconds = \d+\.\d\d Mbit/sec\n%d iters in \d+\.\d\d seconds = \d+\.\d\d usec/iter\n\z`,
				2*iters*c.size, iters))
			for side, r := range results {
				if r.status != 0 || !figures.MatchString(r.stdout) ||
					len(address.FindAllString(r.stdout, -1)) != 2*c.qps {
					t.Errorf("%s: status %d, stderr %s, stdout:\n%s", side, r.status, r.stderr, r.stdout)
				}
			}
			if frames := verifyRecording(t, pcap); frames < 2*iters {
				t.Errorf("%d frames recorded, want at least %d", frames, 2*iters)
			}
		})
	}
}

func TestPingpongWithoutServer(t *testing.T) {
	r := ramjetCmd(t, "pingpong", "rc", "-d", testDevice(t), "-p", freePort(t), "127.0.0.1")
	r.stdout = "" // the local address
	r.wantError(t, cli.ExitFailed, "start it first")
}
