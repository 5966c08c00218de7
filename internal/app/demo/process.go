// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// peerProcess is the second process.
type peerProcess struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr bytes.Buffer
	link   *link
}

// startPeer starts the second process by its command line. It ends when its standard input does, so
// also when this process is killed. gone is called if it ends before that.
func startPeer(ctx context.Context, command []string, gone func(error)) (*peerProcess, error) {
	p := &peerProcess{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	p.cmd.WaitDelay = time.Second
	bound(p.cmd)
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the second process: %w", err)
	}
	p.stdin, p.link = in, newLink(out, in, gone)
	return p, nil
}

// end makes the second process end and waits for it.
func (p *peerProcess) end() {
	p.stdin.Close()
	for range p.link.in { // until it has closed its side
	}
	p.cmd.Wait()
}

// explain adds the second process's own explanation to err.
func (p *peerProcess) explain(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) && errors.Is(context.Cause(ctx), context.Canceled) {
		return context.Canceled // how the second process ended does not matter
	}
	failed := context.Cause(ctx) // not nil once something has been told
	p.end()
	if p.cmd.ProcessState.String() == "signal: interrupt" {
		return context.Canceled // from the terminal; this process gets it too
	}
	if errors.Is(failed, errPeerGone) || failed == nil && !p.cmd.ProcessState.Exited() {
		err = errPeerGone // it was killed, and a connection with it may have told that first
	}
	if errors.Is(err, errPeerGone) {
		text, _, _ := bytes.Cut(bytes.TrimSpace(p.stderr.Bytes()), []byte("\n"))
		return fmt.Errorf("%w: %s", err, cmp.Or(string(text), p.cmd.ProcessState.String()))
	}
	return err
}

// processorTime is the processor time that a process has used, if that is known.
type processorTime struct {
	time  time.Duration
	known bool
}

func (t processorTime) since(before processorTime) processorTime {
	return processorTime{t.time - before.time, t.known && before.known}
}
