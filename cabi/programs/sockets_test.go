// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// served is a server and its clients, programs of sockets, which run on rsockets by librspreload.so. DIR in their
// arguments stands for a folder with the file "file".
type served struct {
	server  string
	clients []client
}

// client is a client's command line, and its output.
type client struct{ args, want string }

var socketPrograms = []served{
	{server: "redis-server --bind SERVER --port PORT --dir DIR --save --protected-mode no", clients: []client{
		{"redis-cli -h SERVER -p PORT set key value", "OK"},
		{"redis-cli -h SERVER -p PORT get key", "value"},
		{"redis-benchmark -h SERVER -p PORT -n 1000 -c 20 -P 4 -t set,get --csv", `"GET"`},
	}},
	{server: "nginx -p DIR -c DIR/nginx.conf", clients: []client{
		{"curl --silent --show-error --fail --output DIR/first --output DIR/second http://SERVER:PORT/file http://SERVER:PORT/file", ""},
	}},
	{server: "memcached -u root -l SERVER -p PORT -U 0 -t 2", clients: []client{
		{"curl --silent --show-error --max-time 60 telnet://SERVER:PORT --upload-file DIR/requests",
			"VALUE key 0 5\r\nhello\r\nEND"},
	}},
	{server: "iperf3 --server --bind SERVER --port PORT", clients: []client{
		{"iperf3 --client SERVER --port PORT --bytes 20M", "receiver"},
		{"iperf3 --client SERVER --port PORT --bytes 20M --reverse --parallel 3", "receiver"},
	}},
}

// nginx works in one process: rsockets are not inherited.
const nginxConf = `
daemon off;
master_process off;
pid DIR/pid;
error_log /dev/stderr;
events { worker_connections 64; }
http {
	access_log off;
	sendfile on;
	tcp_nopush on;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;
	server { listen SERVER:PORT; root DIR; }
}
`

func TestSocketPrograms(t *testing.T) {
	for _, p := range socketPrograms {
		t.Run(strings.Fields(p.server)[0], p.run)
	}
}

func (p served) run(t *testing.T) {
	dir := need(t, strings.Fields(p.server)[0], strings.Fields(p.clients[0].args)[0], "env")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	here, port := t.TempDir(), freePort(t)
	fill := strings.NewReplacer("PORT", port, "SERVER", serverAddr, "DIR", here)
	data := make([]byte, 3_000_000)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	for name, text := range map[string]string{"file": string(data), "nginx.conf": fill.Replace(nginxConf),
		"requests": "set key 0 0 5\r\nhello\r\nget key\r\nquit\r\n"} {
		if err := os.WriteFile(filepath.Join(here, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	onRsockets := func(args string) []string {
		preload := []string{"env", "LD_PRELOAD=" + filepath.Join(dir, "librspreload.so")}
		for _, a := range strings.Fields(args) {
			preload = append(preload, fill.Replace(a))
		}
		return preload
	}
	server := start(t, ctx, dir, serverAddr, onRsockets(p.server)...)
	defer func() {
		server.cmd.Process.Kill()
		<-server.done
		if t.Failed() {
			t.Logf("the server said:\n%s", server.out.String())
		}
	}()
	for _, c := range p.clients {
		said, err := pair{}.connect(t, ctx, dir, server, "roce:"+clientAddr, onRsockets(c.args))
		if err != nil || !strings.Contains(said, c.want) {
			t.Fatalf("%s: %v, and not %q:\n%s", c.args, err, c.want, said)
		}
	}
	for _, name := range []string{"first", "second"} { // written by clients
		got, err := os.ReadFile(filepath.Join(here, name))
		if wrote := strings.Contains(p.clients[0].args, name); wrote && (err != nil || !bytes.Equal(got, data)) {
			t.Errorf("%s has %d bytes, %v, not those that were served", name, len(got), err)
		}
	}
	if err := reachedByTCP(port); err == nil {
		t.Error("the server listens on TCP")
	}
}

// reachedByTCP returns nil if a program listens at a TCP port of the server's address.
func reachedByTCP(port string) error {
	c, err := net.Dial("tcp", net.JoinHostPort(serverAddr, port))
	if err != nil {
		return fmt.Errorf("nobody listens: %w", err)
	}
	return c.Close()
}
