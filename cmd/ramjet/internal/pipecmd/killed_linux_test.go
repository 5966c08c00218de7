// SPDX-License-Identifier: Apache-2.0

package pipecmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/rnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// pipePeerEnv makes the test binary a pipe that listens.
const pipePeerEnv = "RAMJET_TEST_PIPE_PEER"

func init() {
	at := os.Getenv(pipePeerEnv)
	if at == "" {
		return
	}
	c := New()
	c.SetArgs([]string{"-l", "-v", at})
	if err := c.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(cli.ExitStatus(err))
	}
	os.Exit(0)
}

// pipePeer is another process, which listens.
type pipePeer struct {
	*exec.Cmd
	addr string
	in   io.WriteCloser
}

// kill kills the process and returns once it is gone.
func (p *pipePeer) kill() {
	p.Process.Kill()
	p.Wait()
}

// startPipePeer starts a pipe and returns once it listens.
func startPipePeer(t *testing.T) *pipePeer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &pipePeer{Cmd: exec.Command(self), addr: loopback.Next().String() + ":7000"}
	p.Env = append(os.Environ(), pipePeerEnv+"="+p.addr)
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	said, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	var all strings.Builder
	for lines := bufio.NewReader(said); !strings.Contains(all.String(), "waiting at"); {
		line, err := lines.ReadString('\n')
		all.WriteString(line)
		if err != nil {
			t.Fatalf("it ended: %s", all.String())
		}
	}
	return p
}

// dialPipePeer connects to it, with keep-alive messages.
func dialPipePeer(t *testing.T, p *pipePeer) *rnet.Conn {
	t.Helper()
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return ramjet.Open("roce:" + addr) })
	id, err := cm.NewID(cm.NewEventChannel(), dev, cm.TCP)
	if err != nil {
		t.Fatal(err)
	}
	// On a busy machine the peer may get no processor for the two seconds after which it counts as dead by default.
	if err := id.SetAckTimeout(18); err != nil { // 8.6 s, with all retries
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, err := rnet.DialID(ctx, id, netip.MustParseAddrPort(p.addr), &rnet.Options{KeepAlive: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The same with nothing on its way: only the connection's probes tell.
func TestPipeSilentPeerKilled(t *testing.T) {
	t.Parallel()
	server := startPipePeer(t)
	c := dialPipePeer(t, server)
	if _, err := io.WriteString(server.in, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	server.kill()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	in, end := io.Pipe()
	defer end.Close()
	if err := (&piped{conn: c}).run(ctx, in, io.Discard); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("after the peer's death: %v", err)
	}
}

// The same once the peer has nothing more to send: the pipe does not read from it any more.
func TestPipeHalfClosedPeerKilled(t *testing.T) {
	t.Parallel()
	server := startPipePeer(t)
	c := dialPipePeer(t, server)
	server.in.Close()
	if n, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Fatal(n, err)
	}
	server.kill()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	in, end := io.Pipe()
	defer end.Close()
	if err := (&piped{conn: c}).run(ctx, in, io.Discard); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("after the peer's death: %v", err)
	}
}
