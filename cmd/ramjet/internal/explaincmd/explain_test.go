// SPDX-License-Identifier: Apache-2.0

package explaincmd

import (
	"io"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/app/explain"
)

// TestExplainedFits writes each error's entry in 80 columns.
func TestExplainedFits(t *testing.T) {
	for _, e := range explain.All() {
		var b strings.Builder
		if err := writeExplained(&b, []explain.Entry{e}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if len(line) > 81 && strings.Contains(strings.TrimSpace(line), " ") &&
				line != strings.SplitAfter(b.String(), "\n")[0] {
				t.Errorf("%s: a line of %d columns: %s", e.Name, len(line)-1, line)
			}
		}
	}
}

func TestExplainLogUnknown(t *testing.T) {
	if err := explainLog(io.Discard, strings.NewReader("all is well\n"), false); err == nil ||
		!strings.Contains(err.Error(), "no line of the log is known") {
		t.Error(err)
	}
}
