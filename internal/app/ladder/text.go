// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Text says how a ladder is written on a terminal.
type Text struct {
	Width int // columns of the terminal; at least MinWidth
	Color bool
}

// MinWidth is the narrowest terminal that a ladder of two hosts fits.
const MinWidth = 60

// MaxTextColumns is how many hosts and switches fit a text of 80 columns.
const MaxTextColumns = 6

// gutter has the time and the mark at the left of each row.
const gutter = 13

// Escape sequences of colors.
const (
	colorReset  = "\x1b[0m"
	colorDim    = "\x1b[2m"
	colorRed    = "\x1b[1;31m"
	colorYellow = "\x1b[33m"
	colorCyan   = "\x1b[36m"
	colorViolet = "\x1b[35m"
)

// page writes a ladder as text.
type page struct {
	*Ladder
	Text
	b  []byte
	at []int // where the columns are, from the gutter on
}

// WriteText draws the ladder with the characters of a terminal.
func (l *Ladder) WriteText(w io.Writer, t Text) error {
	t.Width = max(t.Width, MinWidth)
	p := &page{Ladder: l, Text: t}
	room := t.Width - gutter - 1
	for i := range l.Columns {
		x := 0
		if len(l.Columns) > 1 {
			x = i * room / (len(l.Columns) - 1)
		}
		p.at = append(p.at, x)
	}
	p.heads(func(c *Column) string { return c.Name })
	for n := range 2 {
		p.heads(func(c *Column) string {
			switch {
			case c.Switch && n == 0:
				return "switch"
			case n < len(c.Details):
				return c.Details[n]
			}
			return ""
		})
	}
	for i := range l.Rows {
		p.row(&l.Rows[i])
		if len(p.b) > 1<<16 {
			if _, err := w.Write(p.b); err != nil {
				return err
			}
			p.b = p.b[:0]
		}
	}
	_, err := w.Write(p.b)
	return err
}

// heads writes a line of the columns' heads. Texts are shortened where they would touch.
func (p *page) heads(of func(*Column) string) {
	line, any := p.blank(), false
	for i := range p.Columns {
		text := []rune(of(&p.Columns[i]))
		any = any || len(text) > 0
		room := len(line)
		if n := len(p.at); n > 1 {
			spacing := (len(line) - 1) / (n - 1)
			room = spacing - 1
			for _, next := range []int{i - 1, i + 1} { // columns at the edges have one neighbour
				if (i == 0 || i == n-1) && next >= 0 && next < n {
					room = spacing - 1 - utf8.RuneCountInString(of(&p.Columns[next]))/2
				}
			}
			if n == 2 {
				room = len(line)/2 - 1
			}
		}
		text = cutRunes(text, room)
		x := p.at[i] - len(text)/2
		copy(line[min(max(x, 0), len(line)-len(text)):], text)
	}
	if any {
		p.line("", " ", line, "", 0, 0)
	}
}

func (p *page) blank() []rune {
	line := make([]rune, p.Width-gutter)
	for i := range line {
		line[i] = ' '
	}
	return line
}

// lanes is a line with nothing but the columns.
func (p *page) lanes() []rune {
	line := p.blank()
	for _, x := range p.at {
		line[x] = '│'
	}
	return line
}

// line writes a line; its part from x to y is colored.
func (p *page) line(at, mark string, line []rune, color string, x, y int) {
	p.b = fmt.Appendf(p.b, "%*s ", gutter-3, at)
	if p.Color && color != "" {
		p.b = append(p.b, color+mark+colorReset+" "...)
		p.b = append(p.b, string(line[:x])+color+string(line[x:y])+colorReset...)
		line = line[y:]
	} else {
		p.b = append(p.b, mark+" "...)
	}
	p.b = append(p.b, strings.TrimRight(string(line), " ")...)
	p.b = append(p.b, '\n')
}

// color is a row's color.
func (r *Row) color() string {
	switch {
	case r.Marks&severe != 0:
		return colorRed
	case r.Marks != 0:
		return colorYellow
	case r.Ack:
		return colorDim
	case r.ofCalls():
		return colorViolet
	case r.isSetup():
		return colorCyan
	}
	return ""
}

// ofCalls reports whether a row is of calls of a program, and not of packets.
func (r *Row) ofCalls() bool { return r.Calls > 0 && r.Packets == 0 && r.Repeats == 0 }

// isSetup reports whether a row sets up or ends a connection, or manages a fabric.
func (r *Row) isSetup() bool {
	for _, p := range []string{"CM ", "MPA ", "TCP ", "SMP ", "SA ", "Perf "} {
		if strings.HasPrefix(r.Op, p) {
			return true
		}
	}
	return false
}

// sign is the sign before a row with marks.
func (r *Row) sign() string {
	switch {
	case r.Marks&severe != 0:
		return "!"
	case r.Marks != 0:
		return "~"
	}
	return " "
}

// text is a row's label.
func (r *Row) text(several bool) string {
	parts := append([]string{r.Op}, r.Facts...)
	if several && r.Repeats == 0 {
		parts = append(parts, fmt.Sprintf("#%d", r.Number))
	}
	return strings.Join(parts, "  ")
}

// seconds formats a time in the ten characters that the gutter has: with six decimals, and with fewer where a clock has
// jumped, or the capture is of days. The longest Duration has ten digits.
func seconds(d time.Duration) string {
	decimals := 6
	if d >= 1000*time.Second {
		decimals = 4
	}
	s := fmt.Sprintf("%.*f", decimals, d.Seconds())
	for ; len(s) > gutter-3 && decimals > 0; s = fmt.Sprintf("%.*f", decimals, d.Seconds()) {
		decimals--
	}
	return s
}

// row writes a row and its notes.
func (p *page) row(r *Row) {
	line := p.lanes()
	if r.Repeats > 0 {
		text := []rune(" ⋮  " + r.text(false) + "  to " + seconds(r.Until) + " ")
		if len(text) > len(line)-4 {
			text = cutRunes([]rune(" ⋮  "+r.text(false)+" "), len(line)-4)
		}
		copy(line[2:], text)
		p.line(seconds(r.At), " ", line, colorDim, 2, 2+len(text))
		return
	}
	if r.ofCalls() {
		p.call(r, line)
		return
	}
	label, notes := []rune(r.text(len(p.Conversations) > 1)), r.Notes
	from, to := p.at[r.From], p.at[r.To]
	if from == to {
		p.loop(r, line, label)
	} else if room := abs(to-from) - 7; len(label) > room {
		if rest := strings.Join(r.Facts, "  "); rest != "" {
			notes = append([]string{rest}, notes...)
		}
		label = cutRunes([]rune(r.Op), room)
	}
	x, y := min(from, to), max(from, to)+1
	if from != to {
		p.arrow(r, line, label)
	} else {
		y = len(line)
	}
	p.line(seconds(r.At), r.sign(), line, r.color(), x, y)
	for _, n := range notes {
		p.note(r, n)
	}
}

// call draws a call of a program: a dot at its host, and texts beside it.
func (p *page) call(r *Row, line []rune) {
	at, left, right := p.at[r.From], p.at[0], p.at[len(p.at)-1]
	line[at] = '●'
	label, notes := []rune(r.text(len(p.Conversations) > 1)), r.Notes
	room := right - at - 4
	if p.onRight(r) {
		room = at - left - 4
	}
	if len(label) > room {
		notes = append([]string{strings.Join(r.Facts, "  ")}, notes...)
		label = cutRunes([]rune(r.Op), room)
	}
	x := at + 2
	if p.onRight(r) {
		x = at - 1 - len(label)
	}
	copy(line[x:], label)
	p.line(seconds(r.At), r.sign(), line, r.color(), min(at, x), max(at+1, x+len(label)))
	for _, n := range notes {
		p.note(r, n)
	}
}

// onRight reports whether the texts of a row of calls are at the left of its host, because that is at the right.
func (p *page) onRight(r *Row) bool { return r.From > 0 && r.From == len(p.at)-1 }

// loop draws a packet from a host to itself.
func (p *page) loop(r *Row, line, label []rune) {
	text := []rune("↺ " + string(label))
	x := p.at[r.From] + 2
	if x+len(text) > len(line) {
		x = max(0, p.at[r.From]-1-len(text))
	}
	copy(line[x:], text)
}

// arrow draws an arrow with its label.
func (p *page) arrow(r *Row, line, label []rune) {
	from, to := p.at[r.From], p.at[r.To]
	left, right := min(from, to), max(from, to)
	shaft := '─'
	if r.Packets > 1 {
		shaft = '═'
	}
	for x := left + 1; x < right; x++ {
		switch {
		case line[x] == '│':
			line[x] = '┼'
		default:
			line[x] = shaft
		}
	}
	for _, v := range r.Via {
		line[p.at[v]] = '●'
	}
	text := []rune(" " + string(label) + " ")
	x := left + 3
	if from > to {
		x = right - 2 - len(text)
	}
	copy(line[x:], text)
	for _, v := range r.Via {
		if at := p.at[v]; line[at] == ' ' {
			line[at] = '●'
		}
	}
	if from < to {
		line[from], line[to-1] = '├', '▶'
	} else {
		line[from], line[to+1] = '┤', '◀'
	}
	if r.Marks&Lost != 0 {
		p.cross(line, from, to, x, x+len(text))
	}
}

// cross ends an arrow in the middle of its rest behind the label.
func (p *page) cross(line []rune, from, to, textFrom, textTo int) {
	step, end := 1, (textTo+to)/2
	if from > to {
		step, end = -1, (textFrom+to)/2
	}
	line[end] = '✕'
	for x := end + step; x != to; x += step {
		line[x] = ' '
		for _, c := range p.at {
			if c == x {
				line[x] = '│'
			}
		}
	}
}

// note writes a note below a row, at the side of its sender.
func (p *page) note(r *Row, text string) {
	left, right := min(p.at[r.From], p.at[r.To]), max(p.at[r.From], p.at[r.To])
	byCall := r.ofCalls()
	if left == right {
		left, right = 0, p.Width-gutter-1
	}
	if byCall && !p.onRight(r) {
		left = p.at[r.From]
	}
	for _, part := range wrap(text, right-left-6) {
		line := p.lanes()
		s := []rune(part)
		x := left + 4
		if r.From > r.To || byCall && p.onRight(r) {
			x = right - 3 - len(s)
		}
		copy(line[x:], s)
		color := ""
		if r.Marks != 0 {
			color = r.color()
		} else if p.Color {
			color = colorDim
		}
		p.line("", " ", line, color, x, x+len(s))
	}
}

// wrap breaks a text into lines of at most n characters, at spaces where it can.
func wrap(text string, n int) []string {
	n = max(n, 8)
	var lines []string
	for utf8.RuneCountInString(text) > n {
		s := []rune(text)
		at := n
		for i := n; i > n/2; i-- {
			if s[i] == ' ' {
				at = i
				break
			}
		}
		lines = append(lines, string(s[:at]))
		text = strings.TrimLeft(string(s[at:]), " ")
	}
	return append(lines, text)
}

// cutRunes shortens a text.
func cutRunes(s []rune, n int) []rune {
	if len(s) <= n {
		return s
	}
	if n < 1 {
		return nil
	}
	return append(append([]rune(nil), s[:n-1]...), '…')
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
