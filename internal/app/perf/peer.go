// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"
)

// LoopbackAddress returns an address of 127.0.0.0/8 that is unlikely to be in use.
func LoopbackAddress() netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(64 + rand.IntN(128)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))})
}

// Peer is the second process of a measurement on one machine.
type Peer struct {
	Address string // of its control connection, for Dial
	cmd     *exec.Cmd
	stdin   io.Closer
}

// StartPeer starts cmd, which must call [RunPeer], and waits until it listens.
func StartPeer(cmd *exec.Cmd) (*Peer, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the second process: %w", err)
	}
	p := &Peer{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		p.Close()
		return nil, errors.New("the second process did not start")
	}
	p.Address = strings.TrimSpace(line)
	return p, nil
}

// Close ends the process by closing its standard input.
func (p *Peer) Close() error {
	p.stdin.Close()
	kill := time.AfterFunc(30*time.Second, func() { p.cmd.Process.Kill() })
	defer kill.Stop()
	return p.cmd.Wait()
}

// RunPeer is the second process. It listens at local, writes the address to out, and serves one
// client after the other until in ends.
func RunPeer(ctx context.Context, local netip.Addr, opt Options, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		io.Copy(io.Discard, in)
		stop()
	}()
	l, err := net.Listen("tcp", netip.AddrPortFrom(local, 0).String())
	if err != nil {
		return err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		// The client reports errors.
		_ = Serve(ctx, conn, opt)
	}
}
