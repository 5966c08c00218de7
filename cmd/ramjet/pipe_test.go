// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/rnet"
)

// startPipe starts a pipe with an input of its own, which ends when the returned writer is
// closed. With -l and -v it returns once the pipe listens.
func startPipe(t *testing.T, args ...string) (*running, io.WriteCloser) {
	t.Helper()
	return startPipeTo(t, nil, args...)
}

// startPipeTo is startPipe with an output other than the result's, unless that is nil.
func startPipeTo(t *testing.T, out *os.File, args ...string) (*running, io.WriteCloser) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	cmd, end := command(ctx, t, append([]string{"pipe"}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if out != nil {
		cmd.Stdout = out
	}
	listening := make(chan struct{})
	cmd.Stderr = io.MultiWriter(cmd.Stderr, &watcher{text: "waiting at", seen: listening})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := newRunning(t, cmd, func() result {
		defer cancel()
		return end(t, waitOnly(cmd))
	})
	if args[0] != "-l" {
		return r, in
	}
	select {
	case <-listening:
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	return r, in
}

// watcher closes seen when a line has text.
type watcher struct {
	text string
	seen chan struct{}
	got  []byte
}

func (w *watcher) Write(b []byte) (int, error) {
	before := bytes.Contains(w.got, []byte(w.text))
	w.got = append(w.got, b...)
	if !before && bytes.Contains(w.got, []byte(w.text)) {
		close(w.seen)
	}
	return len(b), nil
}

// waitOnly is cmd.Wait, for which an input that was not read is no fault.
func waitOnly(cmd *exec.Cmd) error {
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return nil
	}
	return err
}

// Both sides send while they receive; each hears of the other's end and goes on.
func TestPipe(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 5 << 20} {
		at, data := testDevice(t), make([]byte, n)
		rand.NewChaCha8([32]byte{byte(n)}).Read(data)
		server, serverIn := startPipe(t, "-l", "-v", host(at)+":7000")
		client, clientIn := startPipe(t, "-d", testDevice(t), "-v", host(at), "7000")
		for _, in := range []io.WriteCloser{clientIn, serverIn} {
			if _, err := in.Write(data); err != nil {
				t.Error(err)
			}
			in.Close()
		}
		for name, r := range map[string]result{"client": client.wait(), "server": server.wait()} {
			if r.status != 0 || r.stdout != string(data) {
				t.Errorf("%s of %d bytes: status %d, %d bytes, %s", name, n, r.status, len(r.stdout), r.stderr)
			}
			if name == "client" && !strings.Contains(r.stderr, "connected with "+host(at)+":7000") {
				t.Errorf("%s", r.stderr)
			}
		}
	}
}

// An answer that is written after the question has ended.
func TestPipeHalfClose(t *testing.T) {
	t.Parallel()
	at := testDevice(t)
	l, err := rnet.Listen(t.Context(), openDeviceOf(t, at), ":7000")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	question := make(chan []byte, 1)
	go func() {
		c, err := l.AcceptConn()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		b, _ := io.ReadAll(c)
		question <- b
		c.Write(bytes.ToUpper(b))
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd, end := command(ctx, t, "pipe", "-d", testDevice(t), host(at), "7000")
	cmd.Stdin = strings.NewReader("question")
	r := end(t, cmd.Run())
	r.wantSuccess(t)
	if r.stdout != "QUESTION" || string(<-question) != "question" {
		t.Errorf("%+v", r)
	}
}

func TestPipeInterrupted(t *testing.T) {
	t.Parallel()
	at := testDevice(t)
	l, err := rnet.Listen(t.Context(), openDeviceOf(t, at), ":7000")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, clientIn := startPipe(t, "-d", testDevice(t), host(at), "7000")
	if _, err := io.WriteString(clientIn, "x"); err != nil {
		t.Fatal(err)
	}
	c, err := l.AcceptConn()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	client.interrupt()
	client.wait().wantError(t, cli.ExitInterrupted, "interrupted")
	if n, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestPipePeerKilled(t *testing.T) {
	t.Parallel()
	at := testDevice(t)
	server, _ := startPipe(t, "-l", "-v", host(at)+":7000")
	client, clientIn := startPipe(t, "-v", "-d", testDevice(t), host(at), "7000")
	if _, err := clientIn.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	server.kill()
	clientIn.Write([]byte("x")) // if all before has arrived, only probes would tell, which are seconds apart
	if r := client.wait(); r.status != cli.ExitFailed || !strings.Contains(r.stderr, "ramjet pipe: ") {
		t.Errorf("after the peer's death: %+v", r)
	}
}

// A peer that closes the connection, not one direction of it, ends the pipe though its input is open.
func TestPipePeerCloses(t *testing.T) {
	t.Parallel()
	at := testDevice(t)
	l, err := rnet.Listen(t.Context(), openDeviceOf(t, at), ":7000")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, _ := startPipe(t, "-d", testDevice(t), host(at), "7000")
	c, err := l.AcceptConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	client.wait().wantError(t, cli.ExitFailed, "has closed the connection")
}

// An interruption ends each wait of the pipe: for its input, as the peer has nothing more to send;
// for a reader of its output; for a peer that does not take data.
func TestPipeInterruptedAnywhere(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(c *rnet.Conn, in io.Writer){
		"input":  func(c *rnet.Conn, _ io.Writer) { c.CloseWrite() },
		"output": func(c *rnet.Conn, _ io.Writer) { go c.Write(make([]byte, 4<<20)) },
		"peer":   func(_ *rnet.Conn, in io.Writer) { go in.Write(make([]byte, 8<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := testDevice(t)
			l, err := rnet.Listen(t.Context(), openDeviceOf(t, at), ":7000")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			r, w, err := os.Pipe() // which is not read
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			client, in := startPipeTo(t, w, "-d", testDevice(t), host(at), "7000")
			w.Close()
			c, err := l.AcceptConn()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			prepare(c, in)
			time.Sleep(300 * time.Millisecond) // until it most likely waits there; it is heard before, too
			client.interrupt()
			client.wait().wantError(t, cli.ExitInterrupted, "interrupted")
		})
	}
}

// The reader of the output is gone, as with `| head`: the pipe ends the connection.
func TestPipeOutputClosed(t *testing.T) {
	t.Parallel()
	at := testDevice(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	server, _ := startPipeTo(t, w, "-l", "-v", host(at)+":7000")
	w.Close()
	id, err := cm.NewID(cm.NewEventChannel(), openDeviceOf(t, testDevice(t)), cm.TCP)
	if err != nil {
		t.Fatal(err)
	}
	if err := id.SetAckTimeout(20); err != nil { // 34 s, with all retries: a busy machine may let the peer wait
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := rnet.DialID(ctx, id, netip.MustParseAddrPort(host(at)+":7000"),
		&rnet.Options{KeepAlive: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "x"); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%d bytes, %v", n, err)
	}
	if got := server.wait(); got.status != cli.ExitFailed || !strings.Contains(got.stderr, "\nramjet pipe: write ") {
		t.Errorf("%+v", got)
	}
}

func TestPipeErrors(t *testing.T) {
	t.Parallel()
	here := testDevice(t)
	for _, c := range []struct {
		args   string
		status int
		text   string
	}{
		{"", cli.ExitUsage, "an argument is missing: write `ramjet pipe"},
		{"127.0.0.1", cli.ExitUsage, "give HOST and PORT"},
		{"127.0.0.1 x", cli.ExitUsage, `"x" is not a port`},
		{"127.0.0.1 70000", cli.ExitUsage, `"70000" is not a port`},
		{"-l 127.0.0.1 7000", cli.ExitUsage, "--listen takes one argument"},
		{"-l 0", cli.ExitUsage, `"0" is not a port`},
		{"-l 203.0.113.77:7000", cli.ExitUsage, "203.0.113.77 is not an address of this host"},
		{"-d " + here + " -l 127.0.0.1:7000", cli.ExitUsage, "127.0.0.1 is not an address of " + here},
		{"-d " + here + " no.such.host.invalid 7000", cli.ExitUsage, "no.such.host.invalid"},
		{"-d " + here + " --timeout 300ms " + host(testDevice(t)) + " 7000", cli.ExitFailed, ":7000: "},
	} {
		t.Run(c.args, func(t *testing.T) {
			ramjetCmd(t, append([]string{"pipe"}, strings.Fields(c.args)...)...).wantError(t, c.status, c.text)
		})
	}
	at := testDevice(t)
	l, err := cm.Listen(t.Context(), openDeviceOf(t, at), ":7000")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ramjetCmd(t, "pipe", "-d", here, host(at), "7001").wantError(t, cli.ExitFailed, "no listener")
}

// With --json both ends write how much they have sent and received.
func TestPipeJSON(t *testing.T) {
	t.Parallel()
	at := testDevice(t)
	server, serverIn := startPipe(t, "-l", "-v", host(at)+":7000")
	client, clientIn := startPipe(t, "-d", testDevice(t), "--json", host(at), "7000")
	if _, err := clientIn.Write([]byte("a question")); err != nil {
		t.Error(err)
	}
	clientIn.Close()
	serverIn.Close()
	server.wait().wantSuccess(t)
	r := client.wait()
	r.wantSuccess(t)
	var got struct {
		Peer     string   `json:"peer"`
		Sent     int64    `json:"sent_bytes"`
		Received *int64   `json:"received_bytes"`
		Elapsed  int64    `json:"elapsed_ns"`
		Devices  []string `json:"devices"`
	}
	if err := json.Unmarshal([]byte(r.stderr), &got); err != nil || strings.Count(r.stderr, "\n") != 1 {
		t.Fatalf("%v: %q", err, r.stderr)
	}
	if got.Peer != host(at)+":7000" || got.Sent != 10 || got.Received == nil || *got.Received != 0 ||
		got.Elapsed <= 0 || len(got.Devices) != 1 {
		t.Errorf("%+v", got)
	}
}
