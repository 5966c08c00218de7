// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"fmt"
	"io"
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
.warn line,.warn path{stroke:#b26a00}.warn .tip,.warn .dot{fill:#b26a00}.warn .label,.warn .note{fill:#8f5500}
.bad line,.bad path{stroke:#c4161c}.bad .tip,.bad .dot{fill:#c4161c}.bad .label{fill:#a80f15;font-weight:bold}.bad .note{fill:#a80f15}
.repeat{fill:#eef1f5;stroke:#c3cad4}.on .label{text-decoration:underline}.off{opacity:.2}
@media (prefers-color-scheme:dark){
text{fill:#e4e8ee}.bg{fill:#15191f}.muted,.note,.detail,.time{fill:#98a2b0}.label{stroke:#15191f}
.lane{stroke:#4a5461}.box{fill:#22304a;stroke:#7f9fd0}.box.switch{fill:#3a2f1a;stroke:#c9a65e}
.row line,.row path{stroke:#8fb3e0}.row .tip,.row .dot{fill:#8fb3e0}.repeat{fill:#222831;stroke:#4a5461}
.ack line,.ack path{stroke:#6b7684}.ack .tip,.ack .dot{fill:#6b7684}.ack .label{fill:#98a2b0}
.setup line,.setup path{stroke:#4fc3d0}.setup .tip,.setup .dot{fill:#4fc3d0}
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
	title         []string
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

// WriteSVG draws the ladder as a picture; title has the lines above it. Each row has a title of its own with all that
// is known about it, which browsers show when it is pointed at.
func (l *Ladder) WriteSVG(w io.Writer, title []string) error {
	p := &picture{Ladder: l, w: w, title: title}
	p.measure()
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f">`+"\n", p.width, p.height, p.width, p.height)
	p.printf("<style>%s</style>\n<rect class=\"bg\" width=\"100%%\" height=\"100%%\"/>\n", svgStyles)
	for i, t := range title {
		class := "muted"
		if i == 0 {
			class = "title"
		}
		p.printf(`<text class="%s" x="20" y="%d">%s</text>`+"\n", class, svgTop+i*svgLine, escaper.Replace(t))
	}
	y := p.heads()
	for i := range l.Rows {
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
func (p *picture) measure() {
	spacing := svgSpacing
	if len(p.Columns) <= 2 {
		spacing = svgPair
	}
	for i := range p.Columns {
		p.x = append(p.x, float64(svgLeft+90+i*spacing))
	}
	p.width = svgLeft + 90 + float64(max(len(p.Columns)-1, 0)*spacing) + 90 + svgRight
	for _, t := range p.title {
		p.width = max(p.width, 40+float64(utf8.RuneCountInString(t))*8)
	}
	p.height = p.top() + svgHead + 30
	for i := range p.Rows {
		p.height += p.rowHeight(&p.Rows[i])
	}
}

func (p *picture) top() float64 { return float64(svgTop + len(p.title)*svgLine) }

func (p *picture) rowHeight(r *Row) float64 {
	return svgRow + float64(len(r.Notes)*svgNote)
}

// heads draws the boxes of hosts and switches, and their lanes. It returns where the first row begins.
func (p *picture) heads() float64 {
	y := p.top()
	for i := range p.Columns {
		c := &p.Columns[i]
		class := "box"
		detail := strings.Join(c.Details, ", ")
		if c.Switch {
			class, detail = "box switch", "switch"
		}
		p.printf(`<line class="lane" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, p.x[i], p.x[i], y+30, p.height-10)
		wide := max(120, 8*float64(max(utf8.RuneCountInString(c.Name), utf8.RuneCountInString(detail)))+16)
		p.printf(`<rect class="%s" rx="5" x="%.1f" y="%.1f" width="%.1f" height="34"/>`, class, p.x[i]-wide/2, y-4, wide)
		p.printf(`<text class="head" x="%.1f" y="%.1f">%s</text><text class="detail" x="%.1f" y="%.1f">%s</text>`+"\n", p.x[i], y+10, escaper.Replace(c.Name),
			p.x[i], y+24, escaper.Replace(detail))
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
	frame := fmt.Sprintf("frame %d, at %s s", r.Frame, seconds(r.At))
	if r.Packets > 1 {
		frame = fmt.Sprintf("from frame %d on, %s to %s s, %s", r.Frame, seconds(r.At), seconds(r.Until), units.Plural(r.Packets, "packet"))
	}
	if r.Arrived > 0 && r.Packets == 1 {
		frame += ", on the way for " + units.Duration(r.Arrived-r.At)
	}
	return append(lines, frame)
}

// row draws a row at y and returns where the next one begins.
func (p *picture) row(i int, y float64) float64 {
	r := &p.Rows[i]
	p.printf(`<g class="%s" data-row="%d"><title>%s</title>`, r.class(), i, escaper.Replace(strings.Join(r.hint(), "\n")))
	p.printf(`<text class="time" x="%d" y="%.1f">%s</text>`, svgLeft-8, y+14, seconds(r.At))
	switch {
	case r.Repeats > 0:
		p.repeat(r, y)
	case r.From == r.To:
		p.loop(r, y)
	default:
		p.arrow(r, y)
	}
	left, right := p.ends(r)
	for n, note := range r.Notes {
		x, anchor := left+14, "start"
		if r.From > r.To {
			x, anchor = right-14, "end"
		}
		p.printf(`<text class="note" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, anchor, x, y+svgRow+3+float64(n*svgNote), escaper.Replace(note))
	}
	p.printf("</g>\n")
	return y + p.rowHeight(r)
}

// ends returns where a row's packet goes from and to, from left to right.
func (p *picture) ends(r *Row) (left, right float64) {
	return min(p.x[r.From], p.x[r.To]), max(p.x[r.From], p.x[r.To])
}

// label is a row's text, with spaces that SVG does not take together.
func (p *picture) label(r *Row) string {
	return strings.ReplaceAll(r.text(len(p.Conversations) > 1), "  ", "\u2002\u2002")
}

// repeat draws a repetition of rows.
func (p *picture) repeat(r *Row, y float64) {
	text := "⟳ " + strings.Join(append([]string{r.Op}, r.Facts...), " · ") + " · to " + seconds(r.Until)
	wide := float64(utf8.RuneCountInString(text))*svgChar + 24
	middle := (p.x[0] + p.x[len(p.x)-1]) / 2
	p.printf(`<rect class="repeat" rx="9" x="%.1f" y="%.1f" width="%.1f" height="19"/>`, middle-wide/2, y+1, wide)
	p.printf(`<text text-anchor="middle" x="%.1f" y="%.1f">%s</text>`, middle, y+14.5, escaper.Replace(text))
}

// loop draws a packet from a host to itself.
func (p *picture) loop(r *Row, y float64) {
	x := p.x[r.From]
	p.printf(`<path d="M%.1f %.1fh22v9h-16"/><path class="tip" d="M%.1f %.1fl8 -4v8z"/>`, x, y+6, x, y+15)
	p.printf(`<text class="label" x="%.1f" y="%.1f">%s</text>`, x+30, y+15, escaper.Replace(p.label(r)))
}

// arrow draws an arrow, which passes the switches at which it was recorded.
func (p *picture) arrow(r *Row, y float64) {
	from, to := p.x[r.From], p.x[r.To]
	y1, y2, sign := y+14, y+14+svgSlope, 1.0
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
		p.printf(`<path class="tip" d="M%.1f %.1fL%.1f %.1fL%.1f %.1fz"/>`, to, y2, to-sign*9, y2-4.2, to-sign*9, y2+3.8)
	}
	for _, v := range r.Via {
		p.printf(`<circle class="dot" cx="%.1f" cy="%.1f" r="3"/>`, p.x[v], at(p.x[v]))
	}
	label, x, anchor := p.label(r), from+sign*14, "start"
	if sign < 0 {
		anchor = "end"
	}
	p.printf(`<text class="label" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`, anchor, x, y+10.5, escaper.Replace(label))
}
