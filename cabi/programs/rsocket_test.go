// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// rsocketModes are options of rstream and riostream, the same on both sides.
var rsocketModes = map[string][]string{
	"rstream": {
		"", "-T b", "-T a", "-T a -T b", "-T n -T v", "-T r -T v", "-T b -T v -B 4096", "-T s", "-T f", "-k 5 -i 0",
	},
	"riostream": {"", "-T b", "-T a", "-T a -T b", "-T v", "-T b -T v -B 4096"},
}

func TestRsocketStreams(t *testing.T) {
	for program, modes := range rsocketModes {
		for _, mode := range modes {
			for _, size := range []string{"-S 64 -I 100 -C 1", "-S 20000 -I 2 -C 50"} {
				t.Run(strings.Join([]string{program, mode, size}, " "), func(t *testing.T) {
					args := strings.Join([]string{mode, size, "-p PORT"}, " ")
					if mode == "-T s" || mode == "-T f" { // over TCP, which is the kernel's
						args += " -f ip"
					}
					server := program + " -b SERVER " + args
					p := pair{server: server, client: program + " -s SERVER " + args, want: "custom"}
					p.run(t)
					if strings.Contains(mode, "-T b") {
						p.kind = "iwarp"
						p.run(t)
					}
				})
			}
		}
	}
}

// udpong's server never ends by itself.
func TestUdpong(t *testing.T) {
	for _, mode := range []string{"", "-T b", "-T a", "-T e"} {
		t.Run("udpong "+mode, func(t *testing.T) {
			args := mode + " -S 1000 -C 100 -p PORT"
			pair{server: "udpong -b SERVER " + args, client: "udpong -s SERVER " + args, want: "custom",
				endless: true}.run(t)
		})
	}
}

func TestRcopy(t *testing.T) {
	dir := need(t, "rcopy")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	port := freePort(t)
	server := start(t, ctx, dir, serverAddr, "rcopy", "-p", port) // never ends by itself
	for _, size := range []int{1, 100_000, 5_000_000} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(rand.Uint32())
		}
		from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
		if err := os.WriteFile(from, data, 0o644); err != nil {
			t.Fatal(err)
		}
		p := pair{}
		out, err := p.connect(t, ctx, dir, server, "roce:"+clientAddr,
			[]string{"rcopy", from, serverAddr + ":" + to, "-p", port})
		if err != nil || !strings.Contains(out, "bytes in") {
			t.Fatal(err, out)
		}
		if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes were copied, not the %d that were there: %v", len(got), size, err)
		}
	}
	server.cmd.Process.Kill()
	<-server.done
}

// A web server and its client, of which nothing is on rsockets but by librspreload.so.
func TestPreload(t *testing.T) {
	const python = "/usr/bin/python3"
	dir := need(t, python, "env")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	data := make([]byte, 3_000_000)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	www := t.TempDir()
	if err := os.WriteFile(filepath.Join(www, "file"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	preload := []string{"env", "LD_PRELOAD=" + filepath.Join(dir, "librspreload.so")}
	const fetch = "import sys, urllib.request; sys.stdout.buffer.write(urllib.request.urlopen(sys.argv[1]).read())"
	for name, rdma := range map[string]bool{"rsockets": true, "TCP": false} {
		t.Run(name, func(t *testing.T) {
			port := freePort(t)
			args := []string{python, "-m", "http.server", "-b", serverAddr, "-d", www, port}
			if rdma {
				args = append(preload, args...)
			}
			server := start(t, ctx, dir, serverAddr, args...)
			defer func() { server.cmd.Process.Kill(); <-server.done }()
			client := append(preload, python, "-c", fetch, "http://"+serverAddr+":"+port+"/file")
			got, err := pair{}.connect(t, ctx, dir, server, "roce:"+clientAddr, client)
			if err != nil || got != string(data) {
				t.Fatalf("%d bytes, %v, are not those that were served", len(got), err)
			}
			c, err := net.Dial("tcp", net.JoinHostPort(serverAddr, port))
			if err == nil {
				c.Close()
			}
			if rdma != (err != nil) {
				t.Errorf("dialing the server over TCP: %v", err)
			}
		})
	}
}
