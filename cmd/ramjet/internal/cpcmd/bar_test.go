// SPDX-License-Identifier: Apache-2.0

package cpcmd

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
)

// Lines that are written meanwhile go where they belong, and the bar is gone by then.
func TestCopyBarLog(t *testing.T) {
	var terminal, other bytes.Buffer
	b := &copyBar{line: cli.NewBarLineOf(&terminal, func() int { return 40 }), total: 100}
	b.file("one")
	b.draw()
	io.WriteString(b.log(&other), "sum  one\n")
	if other.String() != "sum  one\n" {
		t.Errorf("the other writer has %q", other.String())
	}
	if !strings.HasSuffix(terminal.String(), "\r"+cli.EraseBelow) {
		t.Errorf("the terminal has %q", terminal.String())
	}
}
