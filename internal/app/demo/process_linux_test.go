// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process that is stopped stands still, and goes on later.
func TestStop(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := startPeer(ctx, []string{"cat"}, func(error) {})
	if err != nil {
		t.Skip(err)
	}
	defer p.end()
	goOn, err := p.stop(ctx)
	if err != nil {
		t.Fatal(err)
	}
	before := p.processorTime()
	if err := p.link.send(message{Ask: askVerify}); err != nil {
		t.Fatal(err)
	}
	if !p.standsStill() {
		t.Error("it runs")
	}
	if used := p.processorTime().since(before); used.time != 0 {
		t.Errorf("it used %v meanwhile", used.time)
	}
	goOn()
	if m, err := p.link.receive(ctx, nil); err != nil || m.Ask != askVerify {
		t.Errorf("%+v, %v", m, err)
	}
}

// The error is that the second process was killed, also if a connection with it was the first to notice.
func TestPeerKilled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	p, err := startPeer(ctx, []string{"sleep", "600"}, func(error) {})
	if err != nil {
		t.Skip(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err = p.explain(ctx, syscall.ECONNRESET)
	if !errors.Is(err, errPeerGone) || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("%v", err)
	}
}
