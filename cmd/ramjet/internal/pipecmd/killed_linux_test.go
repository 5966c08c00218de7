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

// withPipePeer has a test use a connection to another process, with keep-alive messages, and kill that process. A peer
// counts as dead after a second. On a busy machine the peer may get no processor for that long: then use returns
// ETIMEDOUT before it kills the peer, and all begins again with more patience.
func withPipePeer(t *testing.T, use func(c *rnet.Conn, server *pipePeer) error) {
	t.Helper()
	for timeout := uint8(15); ; timeout++ { // 1.1 s, with all retries, and each time twice that
		err := func() error {
			server := startPipePeer(t)
			defer server.kill()
			open := func(addr string) (*verbs.Device, error) { return ramjet.Open("roce:" + addr) }
			dev, _ := loopback.Open(t, open)
			id, err := cm.NewID(cm.NewEventChannel(), dev, cm.TCP)
			if err != nil {
				t.Fatal(err)
			}
			if err := id.SetAckTimeout(timeout); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			c, err := rnet.DialID(ctx, id, netip.MustParseAddrPort(server.addr),
				&rnet.Options{KeepAlive: 10 * time.Millisecond})
			if err != nil {
				return err
			}
			defer c.Close()
			return use(c, server)
		}()
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.ETIMEDOUT) || timeout == 20 { // 34 s
			t.Fatal(err)
		}
		t.Logf("with an ACK timeout of %d: %v", timeout, err)
	}
}

// wantDeath runs a pipe on a connection whose peer is dead.
func wantDeath(t *testing.T, c *rnet.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	in, end := io.Pipe()
	defer end.Close()
	if err := (&piped{conn: c}).run(ctx, in, io.Discard); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("after the peer's death: %v", err)
	}
}

// The same with nothing on its way: only the connection's probes tell.
func TestPipeSilentPeerKilled(t *testing.T) {
	t.Parallel()
	withPipePeer(t, func(c *rnet.Conn, server *pipePeer) error {
		if _, err := io.WriteString(server.in, "x"); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			return err
		}
		server.kill()
		wantDeath(t, c)
		return nil
	})
}

// The same once the peer has nothing more to send: the pipe does not read from it any more.
func TestPipeHalfClosedPeerKilled(t *testing.T) {
	t.Parallel()
	withPipePeer(t, func(c *rnet.Conn, server *pipePeer) error {
		server.in.Close()
		if n, err := c.Read(make([]byte, 1)); err != io.EOF {
			return fmt.Errorf("%d bytes, %w", n, err)
		}
		server.kill()
		wantDeath(t, c)
		return nil
	})
}
