// SPDX-License-Identifier: Apache-2.0

package main

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

// barLine is a line at the bottom of a terminal that is rewritten and fits one line at any width.
// The cursor is at its beginning. If the terminal wraps the line because its window became
// narrower, the next write clears all of it.
type barLine struct {
	w     io.Writer
	width func() int // current columns of the terminal

	mu    sync.Mutex
	shown bool
}

const (
	eraseBelow    = "\x1b[J" // from the cursor to the end of the screen
	standardWidth = 80       // of a terminal that does not report it
)

// newBarLine returns nil if w is not a terminal.
func newBarLine(w io.Writer) *barLine {
	f := fileOf(w)
	if !isTerminal(w) {
		return nil
	}
	return newBarLineOf(w, func() int {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
		return standardWidth
	})
}

// newBarLineOf is for a terminal that has so many columns now.
func newBarLineOf(w io.Writer, width func() int) *barLine { return &barLine{w: w, width: width} }

// show writes the line for the current width, cut to fit. The last column stays free, because some
// terminals move to the next line after it.
func (l *barLine) show(line func(width int) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	width := max(l.width()-1, 0)
	fmt.Fprintf(l.w, "%s%s\r", eraseBelow, text.Trim(line(width), width))
	l.shown = true
}

// aside removes the line while write writes something else, ending with a newline, to the terminal.
func (l *barLine) aside(write func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown {
		fmt.Fprint(l.w, eraseBelow)
	}
	l.shown = false
	write()
}

// barText formats name, a bar of done out of total, the percentage and notes in width columns. What
// does not fit is left out: the last notes first, then the bar. The name is cut.
func barText(width int, name string, done, total int64, notes ...string) string {
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

// timeLeft estimates how long the rest of total takes at the pace of done since began. It is empty
// if unknown.
func timeLeft(began time.Time, done, total int64) string {
	took := time.Since(began)
	if done <= 0 || took < time.Second {
		return ""
	}
	left := time.Duration(float64(took) / float64(done) * float64(total-done))
	return units.Period(left.Round(time.Second)) + " left"
}

// barPause is the minimum time between updates of the bar.
const barPause = 100 * time.Millisecond
