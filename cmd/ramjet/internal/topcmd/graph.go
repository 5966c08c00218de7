// SPDX-License-Identifier: Apache-2.0

package topcmd

import (
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"strings"
	"unicode/utf8"
)

// graphLevels are the characters of a graph, the lowest first. A value of zero is a space.
type graphLevels []rune

var (
	blockLevels = graphLevels("▁▂▃▄▅▆▇█")
	asciiLevels = graphLevels("_.-=+*#@")
)

// ascii reports whether graphs use only ASCII, as the whole screen has to then.
func (l graphLevels) ascii() bool { return l[0] < utf8.RuneSelf }

// graphLevelsHere returns the characters that the terminal's locale has.
func graphLevelsHere() graphLevels {
	if cli.LocaleHasUTF8() {
		return blockLevels
	}
	return asciiLevels
}

// line returns values as a graph of one line and width columns, the newest at its right. most is the value of a
// full column.
func (l graphLevels) line(values []float64, width int, most float64) string {
	return l.lines(values, width, 1, most)[0]
}

// lines is a graph of several lines.
func (l graphLevels) lines(values []float64, width, height int, most float64) []string {
	width, height = max(width, 0), max(height, 1)
	if len(values) > width {
		values = values[len(values)-width:]
	}
	all := make([]string, height)
	for row := range all {
		var b strings.Builder
		b.WriteString(strings.Repeat(" ", width-len(values)))
		for _, v := range values {
			b.WriteRune(l.level(v, most, height, height-1-row))
		}
		all[row] = b.String()
	}
	return all
}

// level returns the character of a value at a line, counted from below.
func (l graphLevels) level(v, most float64, height, line int) rune {
	if v <= 0 || most <= 0 {
		return ' '
	}
	full := height * len(l)
	steps := min(max(int(v/most*float64(full)+0.5), 1), full) - line*len(l)
	if steps <= 0 {
		return ' '
	}
	return l[min(steps, len(l))-1]
}
