// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
)

// At every width the bar is one line that leaves the last column free, and shows the progress where that fits at all.
func TestBarLineWidth(t *testing.T) {
	var out bytes.Buffer
	width := 0
	l := NewBarLineOf(&out, func() int { return width })
	for _, name := range []string{"", "a", "a rather long name of a file that lies somewhere.iso",
		"目录/文件名称很长很长很长很长很长很长.iso"} {
		for width = 0; width <= 250; width++ {
			out.Reset()
			l.Show(func(n int) string {
				return BarText(n, name, 42, 100, "1.23 GB of 3.00 GB", "512.3 MB/s", "3s left")
			})
			got, begins := strings.CutPrefix(out.String(), EraseBelow)
			line, ends := strings.CutSuffix(got, "\r")
			if !begins || !ends || strings.ContainsAny(line, "\r\n\x1b") {
				t.Fatalf("%d columns: %q", width, out.String())
			}
			if n := text.StringWidthWithoutEscSequences(line); n > max(width-1, 0) {
				t.Fatalf("%d columns: %q takes %d", width, line, n)
			}
			if width >= 5 && !strings.Contains(line, "42%") {
				t.Fatalf("%d columns: %q does not say how far it is", width, line)
			}
			if all := []string{"█", "GB of", "MB/s", "left"}; width >= 120 {
				for _, w := range all {
					if !strings.Contains(line, w) {
						t.Fatalf("%d columns: no %q in %q", width, w, line)
					}
				}
			}
		}
	}
}
