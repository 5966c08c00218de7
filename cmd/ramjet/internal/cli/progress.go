// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// BarLine is a line at the bottom of a terminal that is rewritten and fits one line at any width.
// The cursor is at its beginning. If the terminal wraps the line because its window became
// narrower, the next write clears all of it.
type BarLine struct {
	w     io.Writer
	width func() int // current columns of the terminal

	mu    sync.Mutex
	shown bool
}

const (
	EraseBelow    = "\x1b[J" // from the cursor to the end of the screen
	StandardWidth = 80       // of a terminal that does not report it
)

// NewBarLine returns nil if w is not a terminal.
func NewBarLine(w io.Writer) *BarLine {
	f := FileOf(w)
	if !IsTerminal(w) {
		return nil
	}
	return NewBarLineOf(w, func() int {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
		return StandardWidth
	})
}

// NewBarLineOf is for a terminal that has so many columns now.
func NewBarLineOf(w io.Writer, width func() int) *BarLine { return &BarLine{w: w, width: width} }

// Show writes the line for the current width, cut to fit. The last column stays free, because some
// terminals move to the next line after it.
func (l *BarLine) Show(line func(width int) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	width := max(l.width()-1, 0)
	fmt.Fprintf(l.w, "%s%s\r", EraseBelow, text.Trim(line(width), width))
	l.shown = true
}

// Aside removes the line while write writes something else, ending with a newline, to the terminal.
func (l *BarLine) Aside(write func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown {
		fmt.Fprint(l.w, EraseBelow)
	}
	l.shown = false
	write()
}

// BarText formats name, a bar of done out of total, the percentage and notes in width columns. Parts
// that do not fit are left out: the last notes first, then the bar. The name is cut.
func BarText(width int, name string, done, total int64, notes ...string) string {
	const minName, maxName, minBar, maxBar = 8, 30, 8, 25
	part := 1.0
	if total > 0 {
		part = min(max(float64(done)/float64(total), 0), 1)
	}
	right := fmt.Sprintf("%3d%%", int(100*part))
	name = text.Snip(name, maxName, "…")
	least := min(text.StringWidthWithoutEscSequences(name), minName)
	for _, n := range notes {
		if n == "" || least+1+len(right)+2+text.StringWidthWithoutEscSequences(n) > width {
			break
		}
		right += ", " + n
	}
	rest := width - text.StringWidthWithoutEscSequences(right) - 1
	if bar := min(rest-text.StringWidthWithoutEscSequences(name)-1, maxBar); bar >= minBar {
		full := int(part * float64(bar))
		right = strings.Repeat("█", full) + strings.Repeat("░", bar-full) + " " + right
		rest -= bar + 1
	}
	if rest < 1 || name == "" {
		return right
	}
	return text.Snip(name, rest, "…") + " " + right
}

// TimeLeft estimates how long the rest of total takes, if done took so long. It is empty if unknown.
func TimeLeft(took time.Duration, done, total int64) string {
	if done <= 0 || took < time.Second {
		return ""
	}
	left := time.Duration(float64(took) / float64(done) * float64(total-done))
	return units.Period(left.Round(time.Second)) + " left"
}

// BarPause is the minimum time between updates of the bar.
const BarPause = 100 * time.Millisecond
