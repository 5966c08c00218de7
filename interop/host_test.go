// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// buildRamjet builds the command and returns its path, which is good until the test ends.
func buildRamjet(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ramjet")
	if out, err := exec.Command("go", "build", "-o", path, "../cmd/ramjet").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// program is a program of this host, with its output. It is killed when the test
// ends.
type program struct {
	*exec.Cmd
	t  testing.TB
	mu sync.Mutex
	b  bytes.Buffer
}

func newProgram(t testing.TB, path string, argv ...string) *program {
	ctx, cancel := context.WithTimeout(t.Context(), programTimeout)
	t.Cleanup(cancel)
	p := &program{Cmd: exec.CommandContext(ctx, path, argv...), t: t}
	p.Stdout, p.Stderr = p, p
	return p
}

// Write takes the program's output.
func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *program) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

// start starts the program and returns when it has written text.
func (p *program) start(text string) {
	p.t.Helper()
	if err := p.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.waitFor(text)
}

// waitFor waits until the program has written text.
func (p *program) waitFor(text string) {
	p.t.Helper()
	for end := time.Now().Add(programTimeout); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if strings.Contains(p.output(), text) {
			return
		}
	}
	p.t.Fatalf("it does not say %q:\n%s", text, p.output())
}

// result returns how the program ended. It must have ended.
func (p *program) result() jobResult {
	return jobResult{Exit: p.ProcessState.ExitCode(), Output: p.output()}
}
