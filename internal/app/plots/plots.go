// SPDX-License-Identifier: Apache-2.0

// Package plots draws lines over logarithmic axes, or linear ones, as SVG and as PNG.
package plots

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Chart is lines over two axes.
type Chart struct {
	Title string
	X, Y  string // labels of the axes, with units; a long Y makes the chart lower
	Lines []Line

	XText, YText func(float64) string // how numbers are written on the axes; nil: as numbers
	Linear       bool                 // both axes begin at 0; else they are logarithmic
	XMarks       []float64            // the numbers on the x axis; nil: the points'
	YMarks       []float64            // the numbers on the y axis; nil: 1, 2 and 5 times the powers of ten
}

// Line is a line. It connects its points in their order.
type Line struct {
	Name   string // empty: the legend leaves it out
	Points []Point
	Color  int  // a number below Colors; lines of equal numbers have equal colors
	Dashed bool // and without marks at its points
}

// Colors is the number of colors.
var Colors = len(plotutil.DarkColors)

// Point is a point of a line. On logarithmic axes both numbers are above zero.
type Point struct{ X, Y float64 }

const (
	width, height = 16 * vg.Centimeter, 12 * vg.Centimeter // of one chart
	margin        = 0.4 * vg.Centimeter
	columns       = 2   // charts side by side
	dpi           = 144 // of PNG
	// of a chart's width that a line of its title takes: other fonts are wider, and elements beside it cover it
	titleShare = 0.85
	sans       = font.Variant("Sans")
)

var errNoChart = errors.New("no chart to draw")

// size returns that of a picture, and how many rows of charts it has.
func size(charts []Chart) (w, h vg.Length, rows int) {
	rows = (len(charts) + columns - 1) / columns
	return vg.Length(min(len(charts), columns)) * width, vg.Length(rows) * height, rows
}

// WriteSVG writes charts, two in a row, as one SVG.
func WriteSVG(w io.Writer, charts ...Chart) error {
	if len(charts) == 0 {
		return errNoChart
	}
	across, down, _ := size(charts)
	c := vgsvg.New(across, down)
	if err := drawAll(draw.New(c), charts); err != nil {
		return err
	}
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	// Embedded, the font would be most of the file. Where it is missing, others are as wide.
	_, err := w.Write(bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")))
	return err
}

// WritePNG writes charts, two in a row, as one PNG.
func WritePNG(w io.Writer, charts ...Chart) error {
	if len(charts) == 0 {
		return errNoChart
	}
	across, down, _ := size(charts)
	c := vgimg.NewWith(vgimg.UseWH(across, down), vgimg.UseDPI(dpi))
	if err := drawAll(draw.New(c), charts); err != nil {
		return err
	}
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

// drawAll draws charts, two in a row.
func drawAll(c draw.Canvas, charts []Chart) error {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	_, _, rows := size(charts)
	tiles := draw.Tiles{Cols: min(len(charts), columns), Rows: rows, PadX: 2 * margin, PadY: 2 * margin, PadTop: margin,
		PadBottom: margin, PadLeft: margin, PadRight: margin}
	for i := range charts {
		p, err := charts[i].plot()
		if err != nil {
			return fmt.Errorf("chart %q: %w", charts[i].Title, err)
		}
		p.Draw(tiles.At(c, i%columns, i/columns))
	}
	return nil
}

// plot returns the chart as a plot.
func (c *Chart) plot() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	for _, s := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font} {
		s.Variant = sans
	}
	p.Title.Padding = margin
	p.Title.Text = wrap(c.Title, p.Title.TextStyle.Width, titleShare*(width-2*margin))
	if !c.Linear {
		p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
		p.Y.Tick.Marker = texts{decades{}, c.YText}
	}
	if c.YMarks != nil {
		p.Y.Tick.Marker = texts{every(c.YMarks), c.YText}
	}
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(3)
	p.Legend.XOffs = margin
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{Y: 225}, color.Gray{Y: 225}
	p.Add(grid)
	var xs []float64
	named := 0
	low, high := math.Inf(1), math.Inf(-1)
	for i := range c.Lines {
		l := &c.Lines[i]
		line, marks, err := l.plotters(c.Linear)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", l.Name, err)
		}
		p.Add(line)
		thumbs := []plot.Thumbnailer{line}
		if marks != nil {
			p.Add(marks)
			thumbs = append(thumbs, marks)
		}
		if l.Name != "" {
			p.Legend.Add(l.Name, thumbs...)
			named++
		}
		for _, pt := range l.Points {
			xs = append(xs, pt.X)
			low, high = min(low, pt.Y), max(high, pt.Y)
		}
	}
	if len(xs) == 0 {
		return nil, errors.New("it has no lines")
	}
	slices.Sort(xs)
	if c.Linear {
		p.X.Min, p.X.Max = 0, xs[len(xs)-1]
		p.Y.Min, p.Y.Max = 0, high*(1+min(shareOfName*float64(named), 0.5))
		if p.X.Max <= 0 || p.Y.Max <= 0 {
			return nil, errors.New("all its points are 0 on an axis")
		}
		return p, nil
	}
	xs = slices.Compact(xs)
	p.X.Tick.Marker = texts{every(xs), c.XText}
	if c.XMarks != nil {
		p.X.Tick.Marker = texts{every(c.XMarks), c.XText}
	}
	p.X.Min, p.X.Max = xs[0]/1.1, xs[len(xs)-1]*1.1
	p.Y.Min, p.Y.Max = bounds(low, high, named)
	return p, nil
}

// wrap breaks a text at blanks into lines of at most so much width, where its words allow.
func wrap(text string, of func(string) vg.Length, most vg.Length) string {
	words := strings.Fields(text)
	if len(words) == 0 {
		return ""
	}
	lines := words[:1]
	for _, w := range words[1:] {
		if longer := lines[len(lines)-1] + " " + w; of(longer) <= most {
			lines[len(lines)-1] = longer
		} else {
			lines = append(lines, w)
		}
	}
	return strings.Join(lines, "\n")
}

// plotters returns the plotters of a line, and its marks unless it has none.
func (l *Line) plotters(linear bool) (*plotter.Line, *plotter.Scatter, error) {
	points := make(plotter.XYs, len(l.Points))
	for i, pt := range l.Points {
		if !(pt.X >= 0 && pt.Y >= 0) || !linear && (pt.X == 0 || pt.Y == 0) || math.IsInf(pt.X, 0) ||
			math.IsInf(pt.Y, 0) {
			return nil, nil, fmt.Errorf("(%v, %v) is not a point of the axes", pt.X, pt.Y)
		}
		points[i] = plotter.XY(pt)
	}
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return nil, nil, err
	}
	if l.Color < 0 || l.Color >= Colors {
		return nil, nil, fmt.Errorf("there is no color %d: there are %d", l.Color, Colors)
	}
	shade := plotutil.DarkColors[l.Color]
	line.Color, line.Width = shade, vg.Points(1.5)
	marks.Color, marks.Shape, marks.Radius = shade, draw.CircleGlyph{}, vg.Points(2.5)
	if linear {
		return line, nil, nil
	}
	if l.Dashed {
		line.Width, line.Dashes = vg.Points(1), []vg.Length{vg.Points(4), vg.Points(3)}
		return line, nil, nil
	}
	return line, marks, nil
}

const shareOfName = 0.06 // of a chart's height, for each name in the legend

// bounds returns the ends of the y axis: round numbers, and room for the legend above the lines.
func bounds(low, high float64, names int) (from, to float64) {
	from, to = decade(low, math.Floor), decade(high, math.Ceil)
	if from == to {
		from, to = from/2, to*2
	}
	share := min(shareOfName*float64(names), 0.5)
	return from, to * math.Pow(to/from, share/(1-share))
}

// decade rounds y to 1, 2 or 5 times a power of ten, in the direction of round.
func decade(y float64, round func(float64) float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(y)))
	steps := []float64{1, 2, 5, 10}
	if round(0.5) == 0 {
		slices.Reverse(steps)
		for _, s := range steps {
			if s*power <= y*(1+1e-9) {
				return s * power
			}
		}
		return power
	}
	for _, s := range steps {
		if s*power >= y*(1-1e-9) {
			return s * power
		}
	}
	return 10 * power
}

// decades marks 1, 2 and 5 times each power of ten.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(low, high float64) (ticks []plot.Tick) {
	for power := math.Floor(math.Log10(low)); power <= math.Ceil(math.Log10(high)); power++ {
		for _, step := range []float64{1, 2, 5} {
			if v := step * math.Pow(10, power); v >= low*(1-1e-9) && v <= high*(1+1e-9) {
				ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', max(0, -int(power)), 64)})
			}
		}
	}
	return ticks
}

// texts writes the numbers of others differently.
type texts struct {
	plot.Ticker
	text func(float64) string // nil: not
}

// Ticks implements plot.Ticker.
func (t texts) Ticks(low, high float64) []plot.Tick {
	ticks := t.Ticker.Ticks(low, high)
	if t.text != nil {
		for i := range ticks {
			ticks[i].Label = t.text(ticks[i].Value)
		}
	}
	return ticks
}

// every marks each of the numbers that is on the axis.
type every []float64

// Ticks implements plot.Ticker.
func (e every) Ticks(low, high float64) (ticks []plot.Tick) {
	for _, v := range e {
		if v < low*(1-1e-9) || v > high*(1+1e-9) {
			continue
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', -1, 64)})
	}
	return ticks
}
