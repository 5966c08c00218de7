// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe is refused at once, and not waited for.
func TestGetPipe(t *testing.T) {
	b := newBench(t, readable)
	root, _ := b.here()
	b.ok(syscall.Mkfifo(filepath.Join(b.to, "pipe"), 0o600))
	if _, err := b.dial().Get(b.ctx, "pipe", root, "got", nil); err == nil ||
		!strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}
