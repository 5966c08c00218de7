// SPDX-License-Identifier: Apache-2.0

package regbench

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Both kinds of picture have this size.
const (
	plotWidth  = 10 * vg.Inch
	plotHeight = 7.5 * vg.Inch
)

// looks are the colours of the modes (Okabe and Ito's, which colour-blind people tell apart) and the
// shapes of their points.
var looks = map[Mode]struct {
	color color.RGBA
	shape draw.GlyphDrawer
}{
	Pinned:     {color.RGBA{0xd5, 0x5e, 0x00, 0xff}, draw.CircleGlyph{}},
	Cached:     {color.RGBA{0x00, 0x72, 0xb2, 0xff}, draw.SquareGlyph{}},
	Pipelined:  {color.RGBA{0x00, 0x9e, 0x73, 0xff}, draw.TriangleGlyph{}},
	Deferred:   {color.RGBA{0xcc, 0x79, 0xa7, 0xff}, draw.PyramidGlyph{}},
	OnDemand:   {color.RGBA{0x00, 0x00, 0x00, 0xff}, draw.CrossGlyph{}},
	Prefetched: {color.RGBA{0xe6, 0x9f, 0x00, 0xff}, draw.RingGlyph{}},
}

// panel is one of the four graphs.
type panel struct {
	title string
	value func(*Run) float64
	log   bool
	ticks plot.Ticker
}

var panels = [2][2]panel{
	{{"time to register", func(r *Run) float64 { return r.Register.Seconds() }, true, times{}},
		{"time to the first 4 KiB, from the start of registering", func(r *Run) float64 { return r.FirstByte.Seconds() }, true, times{}}},
	{{"steady bandwidth, GB/s", func(r *Run) float64 { return r.Bandwidth / 1e9 }, false, plot.DefaultTicks{}},
		{"memory taken when registered", func(r *Run) float64 { return max(float64(r.Present), nothing) }, true, sizes{}}},
}

// nothing stands for 0 on an axis of logarithms.
const nothing = 1 << 10

// WriteSVG draws the medians as SVG.
func WriteSVG(w io.Writer, results []Result) error {
	c := vgsvg.New(plotWidth, plotHeight)
	if err := drawAll(draw.New(c), results); err != nil {
		return err
	}
	_, err := c.WriteTo(w)
	return err
}

// WritePNG draws the medians as PNG.
func WritePNG(w io.Writer, results []Result) error {
	c := vgimg.NewWith(vgimg.UseWH(plotWidth, plotHeight), vgimg.UseDPI(120))
	if err := drawAll(draw.New(c), results); err != nil {
		return err
	}
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

// drawAll draws all panels.
func drawAll(c draw.Canvas, results []Result) error {
	plots := make([][]*plot.Plot, len(panels))
	for i := range panels {
		for j := range panels[i] {
			p, err := panels[i][j].plot(results, i == 0 && j == 0)
			if err != nil {
				return err
			}
			plots[i] = append(plots[i], p)
		}
	}
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	tiles := draw.Tiles{Rows: len(panels), Cols: len(panels[0]), PadX: vg.Points(14), PadY: vg.Points(14),
		PadTop: vg.Points(8), PadBottom: vg.Points(8), PadLeft: vg.Points(8), PadRight: vg.Points(16)}
	for i, row := range plot.Align(plots, tiles, c) {
		for j, part := range row {
			plots[i][j].Draw(part)
		}
	}
	return nil
}

// plot draws one panel: a line for each mode.
func (g *panel) plot(results []Result, legend bool) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = g.title
	p.X.Label.Text = "buffer"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, sizes{}
	p.Y.Tick.Marker = g.ticks
	if g.log {
		p.Y.Scale = plot.LogScale{}
	} else {
		p.Y.Min = 0
	}
	p.Add(plotter.NewGrid())
	drawn := 0
	for _, mode := range Modes {
		var points plotter.XYs
		for i := range results {
			r := &results[i]
			if r.Mode != mode || len(r.Runs) == 0 {
				continue
			}
			if y := g.value(&r.Median); y > 0 { // an axis of logarithms has no zero
				points = append(points, plotter.XY{X: float64(r.Size), Y: y})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		look := looks[mode]
		line.Color, line.Width = look.color, vg.Points(1.5)
		marks.Color, marks.Shape, marks.Radius = look.color, look.shape, vg.Points(3)
		p.Add(line, marks)
		if drawn++; legend {
			p.Legend.Add(string(mode), line, marks)
		}
	}
	if drawn == 0 { // an axis of logarithms needs a range
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 4096, 8192, 1, 2
	}
	if p.X.Min == p.X.Max {
		p.X.Min, p.X.Max = p.X.Min/2, p.X.Max*2
	}
	if p.Y.Min == p.Y.Max {
		p.Y.Min, p.Y.Max = p.Y.Min/2, p.Y.Max*2
	}
	if !g.log {
		p.Y.Min, p.Y.Max = 0, 1.1*p.Y.Max
	}
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(2)
	for _, f := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font} {
		f.Variant = "Sans"
	}
	return p, nil
}

// sizes marks numbers of bytes: powers of two, each fourth of which has its name.
type sizes struct{}

// Ticks returns the marks from low to high.
func (sizes) Ticks(low, high float64) (marks []plot.Tick) {
	for bits := int(math.Ceil(math.Log2(low) - 1e-9)); bits < 62 && float64(uint64(1)<<bits) <= high*(1+1e-9); bits++ {
		n := uint64(1) << bits
		label := ""
		switch {
		case n <= nothing:
			label = "0"
		case bits%4 == 0 || high/low < 16:
			label = shortSize(n)
		}
		if bits%2 == 0 || label != "" {
			marks = append(marks, plot.Tick{Value: float64(n), Label: label})
		}
	}
	return marks
}

// shortSize formats a power of two in two or three letters.
func shortSize(n uint64) string {
	for i, unit := range []string{"G", "M", "K"} {
		if u := uint64(1) << (30 - 10*i); n >= u {
			return fmt.Sprintf("%d%s", n/u, unit)
		}
	}
	return fmt.Sprint(n)
}

// times marks powers of ten of seconds.
type times struct{}

// Ticks returns the marks from low to high.
func (times) Ticks(low, high float64) (marks []plot.Tick) {
	for exp := int(math.Floor(math.Log10(low))); math.Pow10(exp) <= high; exp++ {
		for digit := 1; digit < 10; digit++ {
			v := float64(digit) * math.Pow10(exp)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			label := ""
			if digit == 1 {
				label = strings.Replace(time.Duration(math.Round(v*1e9)).String(), "µs", " µs", 1)
			}
			marks = append(marks, plot.Tick{Value: v, Label: label})
		}
	}
	return marks
}
