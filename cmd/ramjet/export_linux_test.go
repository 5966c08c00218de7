// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process is exported with its name while it runs, on standard output and to Prometheus; SIGTERM ends the server with
// success.
func TestExport(t *testing.T) {
	t.Parallel()
	device, pid := serving(t)
	want := fmt.Sprintf(`ramjet_cm_ids{pid="%s",process="ramjet",device="%s",state="listening"} 1`, pid, device)
	var r result
	for until := time.Now().Add(patience); !strings.Contains(r.stdout, want); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("no %s in %+v", want, r)
		}
		r = ramjetCmd(t, "export", "--once")
		r.wantSuccess(t)
	}
	url, stop := exporter(t)
	a, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if b, err := io.ReadAll(a.Body); err != nil || !strings.Contains(string(b), want) {
		t.Errorf("no %s in %s: %v", want, b, err)
	}
	stop()
}

// exporter starts a server, and returns its URL, and a function that ends it as systemd does.
func exporter(t *testing.T) (url string, stop func()) {
	t.Helper()
	made, _ := command(t.Context(), t, "export", "--listen", "127.0.0.1")
	c := exec.CommandContext(t.Context(), made.Path, made.Args[1:]...)
	c.Env = made.Env
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), func() {
		c.Process.Signal(syscall.SIGTERM)
		if err := c.Wait(); err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
	}
}

func TestExportRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"give 0 to":          {"--queue-pairs", "-1"},
		"give 1 to":          {"--series", "0"},
		"give HOST":          {"--listen", "a:b:c"},
		"takes no arguments": {"4242"},
	} {
		ramjetCmd(t, append([]string{"export"}, args...)...).wantError(t, cli.ExitUsage, want)
	}
}
