// SPDX-License-Identifier: Apache-2.0

package plots

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"
)

var chart = Chart{Title: "A title", X: "peers", Y: "time [µs]", Lines: []Line{
	{Name: "rising", Points: []Point{{1, 1}, {16, 10}, {4096, 1000}}},
	{Name: "flat", Color: 1, Dashed: true, Points: []Point{{1, 3}, {4096, 3}}},
}}

// An SVG is XML with the texts and a path for each line.
func TestSVG(t *testing.T) {
	var out bytes.Buffer
	if err := WriteSVG(&out, chart, chart); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "font-family:Liberation Sans,Arial,") {
		t.Error("no font is named for where the first is missing")
	}
	texts, dec := map[string]int{}, xml.NewDecoder(bytes.NewReader(out.Bytes()))
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := token.(xml.CharData); ok {
			texts[strings.TrimSpace(string(c))]++
		}
	}
	for _, want := range []string{"A title", "peers", "time [µs]", "rising", "flat", "16", "4096", "1000", "200"} {
		if texts[want] != 2 {
			t.Errorf("%q is there %d times", want, texts[want])
		}
	}
}

// A PNG has both lines, in their colors, and is as wide as its charts.
func TestPNG(t *testing.T) {
	var one, two bytes.Buffer
	if err := errors.Join(WritePNG(&one, chart), WritePNG(&two, chart, chart)); err != nil {
		t.Fatal(err)
	}
	m, err := png.Decode(&one)
	if err != nil {
		t.Fatal(err)
	}
	wide, err := png.DecodeConfig(&two)
	if err != nil || wide.Width < 2*m.Bounds().Dx()-1 || wide.Height != m.Bounds().Dy() {
		t.Errorf("%v, one is %v, two are %d × %d", err, m.Bounds(), wide.Width, wide.Height)
	}
	colors := map[color.Color]int{}
	for y := range m.Bounds().Dy() {
		for x := range m.Bounds().Dx() {
			colors[color.RGBAModel.Convert(m.At(x, y))]++
		}
	}
	for _, want := range []color.RGBA{{238, 46, 47, 255}, {0, 140, 72, 255}, {255, 255, 255, 255}} {
		if colors[want] < 100 {
			t.Errorf("%d pixels of %v", colors[want], want)
		}
	}
}

// A title that is wider than its chart takes several lines, and none is cut.
func TestLongTitle(t *testing.T) {
	c := chart
	c.Title = "From the post until the target knows the peer (dashed: 99th percentile), and more of that"
	p, err := c.plot()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(p.Title.Text, "\n")
	if len(lines) != 2 || strings.Join(lines, " ") != c.Title {
		t.Errorf("%q", lines)
	}
	for _, l := range lines {
		if w := p.Title.TextStyle.Width(l); w > titleShare*width {
			t.Errorf("%q is %v wide, the chart %v", l, w, width)
		}
	}
}

// Values without a place on logarithmic axes are refused.
func TestRefused(t *testing.T) {
	for name, c := range map[string]Chart{
		"zero":     {Lines: []Line{{Points: []Point{{0, 1}}}}},
		"negative": {Lines: []Line{{Points: []Point{{1, -1}}}}},
		"nothing":  {Lines: []Line{{Points: []Point{{1, math.NaN()}}}}},
		"infinite": {Lines: []Line{{Points: []Point{{1, math.Inf(1)}}}}},
		"no lines": {},
		"a color":  {Lines: []Line{{Color: Colors, Points: []Point{{1, 1}}}}},
	} {
		if err := WriteSVG(io.Discard, c); err == nil {
			t.Errorf("%s is drawn", name)
		}
	}
	if err := WritePNG(io.Discard); err == nil {
		t.Error("no chart is drawn")
	}
}

// Axes begin and end at round numbers for any values, also with one point only.
func TestBounds(t *testing.T) {
	for _, c := range []struct{ low, high, from, to float64 }{
		{3, 30, 2, 50}, {1, 10, 1, 10}, {0.11, 0.9, 0.1, 1}, {7, 7, 5, 10}, {2, 2, 1, 4}, {999, 1001, 500, 2000},
	} {
		if from, to := bounds(c.low, c.high, 0); math.Abs(from/c.from-1) > 1e-6 || math.Abs(to/c.to-1) > 1e-6 {
			t.Errorf("%v to %v: axis from %v to %v, want %v to %v", c.low, c.high, from, to, c.from, c.to)
		}
	}
	single := Chart{Lines: []Line{{Name: "a point", Points: []Point{{4, 2}}}}}
	if err := WriteSVG(io.Discard, single); err != nil {
		t.Error(err)
	}
}

// Axes have the texts and marks of their charts, and a third chart begins another row.
func TestTexts(t *testing.T) {
	c := chart
	c.XText = func(v float64) string { return fmt.Sprintf("x%.0f", v) }
	c.YText = func(v float64) string { return fmt.Sprintf("y%.0f", v) }
	c.YMarks = []float64{3, 70, 1e9} // the last is beyond the axis
	var out bytes.Buffer
	if err := WriteSVG(&out, c); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{">x1<": true, ">x16<": true, ">x4096<": true, ">y3<": true, ">y70<": true,
		">y1000000000<": false, ">y10<": false, ">16<": false} {
		if strings.Contains(out.String(), text) != want {
			t.Errorf("%q is there: %v", text, !want)
		}
	}
	var two, three bytes.Buffer
	if err := errors.Join(WritePNG(&two, c, c), WritePNG(&three, c, c, c)); err != nil {
		t.Fatal(err)
	}
	a, err := png.DecodeConfig(&two)
	b, err2 := png.DecodeConfig(&three)
	if err != nil || err2 != nil || a.Width != b.Width || b.Height < 2*a.Height-1 {
		t.Errorf("two are %d × %d, three %d × %d", a.Width, a.Height, b.Width, b.Height)
	}
}

// On linear axes a point may be zero, and nothing but zeros is no chart.
func TestLinear(t *testing.T) {
	chart := Chart{Title: "rates", X: "time", Y: "rate", Linear: true,
		Lines: []Line{{Name: "one", Points: []Point{{0, 0}, {1, 5}, {2, 0}}}}}
	var out bytes.Buffer
	if err := WriteSVG(&out, chart); err != nil || !bytes.Contains(out.Bytes(), []byte("one")) {
		t.Errorf("%v: %d bytes", err, out.Len())
	}
	chart.Lines[0].Points = []Point{{0, 0}, {1, 0}}
	if err := WriteSVG(&out, chart); err == nil {
		t.Error("a line of zeros was drawn")
	}
	chart.Lines[0].Points = []Point{{-1, 1}}
	if err := WriteSVG(&out, chart); err == nil {
		t.Error("a point below zero was drawn")
	}
}
