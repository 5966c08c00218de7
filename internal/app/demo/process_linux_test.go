// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
)

// A second process that was killed is what is told, also if a connection with it was the first to notice.
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
