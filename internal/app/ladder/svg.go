// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// Measures of a picture in pixels.
const (
	svgLeft    = 104 // the times
	svgRight   = 28
	svgTop     = 26 // of the title's first line
	svgLine    = 18 // between lines of the title
	svgPair    = 640
	svgSpacing = 300 // between columns if there are more than two
	svgRow     = 25
	svgNote    = 13
	svgSlope   = 7 // from where an arrow begins down to where it ends
	svgHead    = 46
	svgChar    = 6.15 // the width of a character of a label
)

// svgStyles are for a light background, and for a dark one where the viewer prefers that.
const svgStyles = `
text{font-family:"DejaVu Sans","Segoe UI",Helvetica,Arial,sans-serif;font-size:11px;fill:#1f2733}
.bg{fill:#fff}.title{font-size:14px;font-weight:bold}.muted,.note{fill:#66707f}.note{font-size:10px}
.head{font-weight:bold;text-anchor:middle;font-size:12px}.detail{text-anchor:middle;fill:#66707f}
.time{text-anchor:end;fill:#66707f;font-family:"DejaVu Sans Mono",Menlo,Consolas,monospace;font-size:10px}
.lane{stroke:#c3cad4;stroke-width:1.5}.box{fill:#e6edf8;stroke:#42628f}.box.switch{fill:#f7efdf;stroke:#94753a}
.label{paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}
.row line,.row path{stroke:#3d5a80;stroke-width:1.4;fill:none}.row .tip{fill:#3d5a80;stroke:none}
.row.many line{stroke-width:4}.row .dot{fill:#3d5a80}
.ack line,.ack path{stroke:#98a2b0}.ack .tip,.ack .dot{fill:#98a2b0}.ack .label{fill:#66707f}
.setup line,.setup path{stroke:#0f7c8a}.setup .tip,.setup .dot{fill:#0f7c8a}
.call .dot{fill:#7a4fb5}.call .label{fill:#5f3a94}
.warn line,.warn path{stroke:#b26a00}.warn .tip,.warn .dot{fill:#b26a00}.warn .label,.warn .note{fill:#8f5500}
.bad line,.bad path{stroke:#c4161c}.bad .tip,.bad .dot{fill:#c4161c}.bad .label{fill:#a80f15;font-weight:bold}.bad .note{fill:#a80f15}
.repeat{fill:#eef1f5;stroke:#c3cad4}.on .label{text-decoration:underline}.off{opacity:.2}
@media (prefers-color-scheme:dark){
text{fill:#e4e8ee}.bg{fill:#15191f}.muted,.note,.detail,.time{fill:#98a2b0}.label{stroke:#15191f}
.lane{stroke:#4a5461}.box{fill:#22304a;stroke:#7f9fd0}.box.switch{fill:#3a2f1a;stroke:#c9a65e}
.row line,.row path{stroke:#8fb3e0}.row .tip,.row .dot{fill:#8fb3e0}.repeat{fill:#222831;stroke:#4a5461}
.ack line,.ack path{stroke:#6b7684}.ack .tip,.ack .dot{fill:#6b7684}.ack .label{fill:#98a2b0}
.setup line,.setup path{stroke:#4fc3d0}.setup .tip,.setup .dot{fill:#4fc3d0}
.call .dot{fill:#b998e6}.call .label{fill:#cdb4f0}
.warn line,.warn path{stroke:#e0a030}.warn .tip,.warn .dot{fill:#e0a030}.warn .label,.warn .note{fill:#f0b850}
.bad line,.bad path{stroke:#ff6b6b}.bad .tip,.bad .dot{fill:#ff6b6b}.bad .label,.bad .note{fill:#ff8f8f}}
`

// picture writes a ladder as SVG.
type picture struct {
	*Ladder
	w             io.Writer
	err           error
	b             []byte
	x             []float64
	width, height float64
	times         float64 // where times end
	title         []titleLine
	narrow        bool // it has a width that was asked for: texts are wrapped
	second        bool // of a page that has its styles and hints from the first one
}

// titleLine is a line above the picture, of a class of the styles.
type titleLine struct{ class, text string }

// MinPicture is the narrowest picture of two hosts that can be read.
const MinPicture = 320

// Measures of a picture whose width was asked for.
const (
	narrowTimes   = 66  // where times end
	narrowLeft    = 80  // the first column
	narrowRight   = 30  // from the last column on
	narrowSpacing = 110 // the least between columns
	titleChar     = 8.0 // the width of a character of the first line
	boldChar      = 7.0 // of the label of a failure
	noteChar      = 5.8 // of a note
)

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// WriteSVG draws the ladder as a picture; title has the lines above it. Each row has a title of its own with all that
// is known about it, which browsers show when it is pointed at. If width is not 0, the picture has that width in
// pixels, if its columns fit, and texts have as many lines as they need.
func (l *Ladder) WriteSVG(w io.Writer, title []string, width int) error {
	return (&picture{Ladder: l, w: w}).draw(title, width)
}

// PictureWidth is the width in pixels of the picture that WriteSVG draws without title and width.
func (l *Ladder) PictureWidth() int {
	p := picture{Ladder: l}
	p.measure(nil, 0)
	return int(math.Ceil(p.width))
}

func (p *picture) draw(title []string, width int) error {
	p.measure(title, width)
	class := ""
	if p.second {
		class = ` class="narrow"`
	}
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg"%s width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f">`+"\n",
		class, p.width, p.height, p.width, p.height)
	if !p.second {
		p.printf("<style>%s</style>\n", svgStyles)
	}
	p.printf("<rect class=\"bg\" width=\"100%%\" height=\"100%%\"/>\n")
	for i, t := range p.title {
		p.printf(`<text class="%s" x="20" y="%d">%s</text>`+"\n", t.class, svgTop+i*svgLine, escaper.Replace(t.text))
	}
	y := p.heads()
	for i := range p.Rows {
		y = p.row(i, y)
	}
	p.printf("</svg>\n")
	p.flush()
	return p.err
}

func (p *picture) printf(format string, a ...any) {
	p.b = fmt.Appendf(p.b, format, a...)
	if len(p.b) > 1<<16 {
		p.flush()
	}
}

func (p *picture) flush() {
	if p.err == nil {
		_, p.err = p.w.Write(p.b)
	}
	p.b = p.b[:0]
}

// measure places the columns and finds the size.
func (p *picture) measure(title []string, width int) {
	p.narrow, p.times = width > 0, svgLeft-8
	n := max(len(p.Columns), 1)
	left, spacing := float64(svgLeft+90), float64(svgSpacing)
	if n <= 2 {
		spacing = svgPair
	}
	p.width = left + float64(n-1)*spacing + 90 + svgRight
	if p.narrow {
		p.times, left = narrowTimes, narrowLeft
		p.width = max(float64(width), MinPicture, left+float64(n-1)*narrowSpacing+narrowRight)
		spacing = (p.width - left - narrowRight) / float64(max(n-1, 1))
	}
	for i := range p.Columns {
		p.x = append(p.x, left+float64(i)*spacing)
	}
	class, char := "title", titleChar
	for _, t := range title {
		lines := []string{t}
		if p.narrow {
			lines = wrap(t, int((p.width-30)/char))
		} else {
			p.width = max(p.width, 40+float64(utf8.RuneCountInString(t))*titleChar)
		}
		for _, line := range lines {
			p.title = append(p.title, titleLine{class, line})
		}
		class, char = "muted", svgChar+0.5
	}
	p.height = p.top() + svgHead + 30
	for i := range p.Rows {
		p.height += p.rowHeight(&p.Rows[i])
	}
}

func (p *picture) top() float64 { return float64(svgTop + len(p.title)*svgLine) }

func (p *picture) rowHeight(r *Row) float64 {
	return svgRow + float64((len(p.labels(r))-1+len(p.notes(r)))*svgNote)
}

// room is how many characters of a text of a row fit a line; all do where texts are not wrapped.
func (p *picture) room(r *Row, char float64) int {
	left, right := p.ends(r)
	if r.Repeats > 0 || left == right {
		left, right = p.x[0], p.x[len(p.x)-1]
	}
	return int((right - left - 22) / char)
}

// labels are the lines of text above a row's arrow.
func (p *picture) labels(r *Row) []string {
	label := p.label(r)
	if !p.narrow {
		return []string{label}
	}
	char := svgChar
	if r.Marks&severe != 0 {
		char = boldChar
	}
	return wrap(label, p.room(r, char))
}

// notes are the lines below it.
func (p *picture) notes(r *Row) []string {
	if !p.narrow {
		return r.Notes
	}
	var lines []string
	for _, n := range r.Notes {
		lines = append(lines, wrap(n, p.room(r, noteChar))...)
	}
	return lines
}

// heads draws the boxes of hosts and switches, and their lanes. It returns where the first row begins.
func (p *picture) heads() float64 {
	y := p.top()
	for i := range p.Columns {
		c := &p.Columns[i]
		class := "box"
		name, detail := c.Name, strings.Join(c.Details, ", ")
		if c.Switch {
			class, detail = "box switch", "switch"
		}
		p.printf(`<line class="lane" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, p.x[i], p.x[i], y+30, p.height-10)
		wide, x := 8*float64(max(utf8.RuneCountInString(name), utf8.RuneCountInString(detail)))+16, p.x[i]
		if p.narrow {
			wide = min(wide, p.width/float64(len(p.Columns))-6)
			most := int(wide-10) / 7
			name, detail = string(cutRunes([]rune(name), most)), string(cutRunes([]rune(detail), most))
			x = min(max(x, wide/2+3), p.width-wide/2-3)
		} else {
			wide = max(120, wide)
		}
		p.printf(`<rect class="%s" rx="5" x="%.1f" y="%.1f" width="%.1f" height="34"/>`, class, x-wide/2, y-4, wide)
		p.printf(`<text class="head" x="%.1f" y="%.1f">%s</text><text class="detail" x="%.1f" y="%.1f">%s</text>`+"\n",
			x, y+10, escaper.Replace(name),
			x, y+24, escaper.Replace(detail))
	}
	return y + svgHead
}

// class is a row's class in the styles.
func (r *Row) class() string {
	class := "row"
	switch {
	case r.Marks&severe != 0:
		class += " bad"
	case r.Marks != 0:
		class += " warn"
	case r.Ack:
		class += " ack"
	case r.ofCalls():
		class += " call"
	case r.isSetup():
		class += " setup"
	}
	if r.Packets > 1 {
		class += " many"
	}
	return class
}

// hint is all that is known about a row, a line each.
func (r *Row) hint() []string {
	lines := []string{r.text(false)}
	lines = append(lines, r.Notes...)
	lines = append(lines, r.More...)
	if r.Call != nil {
		return append(lines, append(r.Call.hint(), "at "+seconds(r.At)+" s")...)
	}
	if r.ofCalls() {
		return append(lines, fmt.Sprintf("%s to %s s, %s", seconds(r.At), seconds(r.Until),
			units.Count(r.Calls)+" calls or completions"))
	}
	frame := fmt.Sprintf("frame %d, at %s s", r.Frame, seconds(r.At))
	if r.Packets > 1 {
		frame = fmt.Sprintf("from frame %d on, %s to %s s, %s", r.Frame, seconds(r.At), seconds(r.Until),
			units.Plural(r.Packets, "packet"))
	}
	if r.Arrived > 0 && r.Packets == 1 {
		frame += ", on the way for " + units.Duration(r.Arrived-r.At)
	}
	return append(lines, frame)
}

// row draws a row at y and returns where the next one begins.
func (p *picture) row(i int, y float64) float64 {
	r := &p.Rows[i]
	p.printf(`<g class="%s" data-row="%d">`, r.class(), i)
	if !p.second {
		p.printf(`<title>%s</title>`, escaper.Replace(strings.Join(r.hint(), "\n")))
	}
	p.printf(`<text class="time" x="%.0f" y="%.1f">%s</text>`, p.times, y+14, seconds(r.At))
	labels := p.labels(r)
	below := y + float64((len(labels)-1)*svgNote)
	switch {
	case r.Repeats > 0:
		p.repeat(labels, y)
	case r.ofCalls():
		p.call(r, labels, y)
	case r.From == r.To:
		p.loop(r, labels, y)
	default:
		p.arrow(r, labels, y, below)
	}
	left, right := p.ends(r)
	x, anchor := left+14, "start"
	if r.From > r.To || p.leftOf(r) {
		x, anchor = right-14, "end"
	}
	for n, note := range p.notes(r) {
		p.printf(`<text class="note" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, anchor, x,
			below+svgRow+3+float64(n*svgNote), escaper.Replace(note))
	}
	p.printf("</g>\n")
	return y + p.rowHeight(r)
}

// lines writes the lines of a label, the first at y.
func (p *picture) lines(lines []string, anchor string, x, y float64) {
	for i, line := range lines {
		p.printf(`<text class="label" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, anchor, x, y+float64(i*svgNote),
			escaper.Replace(line))
	}
}

// ends returns where a row's packet goes from and to, from left to right.
func (p *picture) ends(r *Row) (left, right float64) {
	return min(p.x[r.From], p.x[r.To]), max(p.x[r.From], p.x[r.To])
}

// label is a row's text, with spaces that SVG does not take together.
func (p *picture) label(r *Row) string {
	if r.Repeats > 0 {
		return "⟳ " + strings.Join(append([]string{r.Op}, r.Facts...), " · ") + " · to " + seconds(r.Until)
	}
	gap := "\u2002\u2002"
	if p.narrow {
		gap = " \u2002"
	}
	return strings.ReplaceAll(r.text(len(p.Conversations) > 1), "  ", gap)
}

// repeat draws a repetition of rows.
func (p *picture) repeat(lines []string, y float64) {
	most := 0
	for _, l := range lines {
		most = max(most, utf8.RuneCountInString(l))
	}
	wide, high := float64(most)*svgChar+24, 19+float64((len(lines)-1)*svgNote)
	middle := (p.x[0] + p.x[len(p.x)-1]) / 2
	p.printf(`<rect class="repeat" rx="9" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, middle-wide/2, y+1, wide,
		high)
	for i, l := range lines {
		p.printf(`<text text-anchor="middle" x="%.1f" y="%.1f">%s</text>`, middle, y+14.5+float64(i*svgNote),
			escaper.Replace(l))
	}
}

// leftOf reports whether the texts of a row of one host are at its left.
func (p *picture) leftOf(r *Row) bool {
	if r.From != r.To || r.From == 0 {
		return false
	}
	return p.narrow || r.ofCalls() && r.From == len(p.x)-1
}

// call draws a call of a program.
func (p *picture) call(r *Row, labels []string, y float64) {
	x := p.x[r.From]
	p.printf(`<rect class="dot" x="%.1f" y="%.1f" width="8" height="8"/>`, x-4, y+10)
	if p.leftOf(r) {
		p.lines(labels, "end", x-14, y+18)
		return
	}
	p.lines(labels, "start", x+14, y+18)
}

// loop draws a packet from a host to itself.
func (p *picture) loop(r *Row, labels []string, y float64) {
	x := p.x[r.From]
	p.printf(`<path d="M%.1f %.1fh22v9h-16"/><path class="tip" d="M%.1f %.1fl8 -4v8z"/>`, x, y+6, x, y+15)
	if p.narrow && r.From > 0 {
		p.lines(labels, "end", x-8, y+15)
		return
	}
	p.lines(labels, "start", x+30, y+15)
}

// arrow draws an arrow, which passes the switches at which it was recorded, with the first line of its label at y and
// the last one at below.
func (p *picture) arrow(r *Row, labels []string, y, below float64) {
	from, to := p.x[r.From], p.x[r.To]
	y1, y2, sign := below+14, below+14+svgSlope, 1.0
	if to < from {
		sign = -1
	}
	at := func(x float64) float64 { return y1 + (y2-y1)*(x-from)/(to-from) }
	end := to - sign*7
	if r.Marks&Lost != 0 {
		end = from + (to-from)*0.82
	}
	p.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, from, y1, end, at(end))
	if r.Marks&Lost != 0 {
		p.printf(`<path d="M%.1f %.1fl10 10m0 -10l-10 10"/>`, end-5, at(end)-5)
	} else {
		p.printf(`<path class="tip" d="M%.1f %.1fL%.1f %.1fL%.1f %.1fz"/>`, to, y2, to-sign*9, y2-4.2, to-sign*9,
			y2+3.8)
	}
	for _, v := range r.Via {
		p.printf(`<circle class="dot" cx="%.1f" cy="%.1f" r="3"/>`, p.x[v], at(p.x[v]))
	}
	anchor := "start"
	if sign < 0 {
		anchor = "end"
	}
	p.lines(labels, anchor, from+sign*14, y+10.5)
}
