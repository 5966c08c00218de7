// SPDX-License-Identifier: Apache-2.0

package benchcmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/plots"
	"github.com/ramjet-rdma/ramjet/internal/app/regbench"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// writeRegistration writes results for people.
func writeRegistration(w io.Writer, device string, runs int, results []regbench.Result) error {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Box.PaddingLeft, t.Style().Box.PaddingRight = "", " "
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row{"buffer", "", "registered", "first 4 KiB", "all of it", "then", "present", "locked"})
	columns := []table.ColumnConfig{{Number: 1, Align: text.AlignRight, AlignHeader: text.AlignRight}}
	for n := 3; n <= 8; n++ {
		columns = append(columns, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	reasons := map[string]bool{}
	var notes []string
	for i, r := range results {
		size := units.Size(r.Size)
		if i > 0 && results[i-1].Size == r.Size {
			size = ""
		}
		if len(r.Runs) == 0 {
			t.AppendRow(table.Row{size, r.Mode, "not measured"})
			if !reasons[r.Error] {
				reasons[r.Error] = true
				notes = append(notes, fmt.Sprintf("%s, %s: %s", units.Size(r.Size), r.Mode, r.Error))
			}
			continue
		}
		m := &r.Median
		t.AppendRow(table.Row{size, r.Mode, units.Duration(m.Register), units.Duration(m.FirstByte),
			units.Duration(m.Whole), rateText(m.Bandwidth),
			units.Memory(int64(m.Present)), units.Memory(int64(m.Locked))})
	}
	_, err := fmt.Fprintf(w, "READs into a buffer of %s that nobody has touched.\n%s. "+
		"Times are from the start of registering. Present is what is\nin memory when that ends, locked what cannot be paged out in the end.\n\n%s\n",
		device, cli.Medians(runs), cli.TrimLines(t.Render()))
	if err == nil && len(notes) > 0 {
		_, err = fmt.Fprintf(w, "\nNot measured:\n%s\n", strings.Join(notes, "\n"))
	}
	return err
}

// registrationCharts draws medians. A way that takes nothing has no line on the last chart, as a
// logarithm has no zero. Its legend is that of the first.
func registrationCharts(results []regbench.Result) []plots.Chart {
	var sizes []float64
	for i := range results {
		if x := float64(results[i].Size); len(results[i].Runs) > 0 && (len(sizes) == 0 || sizes[len(sizes)-1] != x) {
			sizes = append(sizes, x)
		}
	}
	if len(sizes) == 0 {
		return nil
	}
	bytes := func(v float64) string {
		return strings.ReplaceAll(strings.TrimSuffix(units.Size(int(v)), "iB"), " ", "")
	}
	seconds := func(v float64) string { return units.Period(time.Duration(v*1e9 + 0.5)) }
	var charts []plots.Chart
	for _, c := range []struct {
		chart plots.Chart
		value func(*regbench.Run) float64
	}{
		{plots.Chart{Title: "Time to register", YText: seconds, YMarks: tens(1e-8, 10)},
			func(r *regbench.Run) float64 { return r.Register.Seconds() }},
		{plots.Chart{Title: "Time to the first 4 KiB, from the start of registering", YText: seconds,
			YMarks: tens(1e-8, 10)},
			func(r *regbench.Run) float64 { return r.FirstByte.Seconds() }},
		{plots.Chart{Title: "Then: the same buffer, again and again", Y: "GB/s"},
			func(r *regbench.Run) float64 { return r.Bandwidth / 1e9 }},
		{plots.Chart{Title: "In memory when registered (deferred and on demand: nothing)", YText: bytes, YMarks: sizes},
			func(r *regbench.Run) float64 { return float64(r.Present) }},
	} {
		c.chart.X, c.chart.XText = "buffer", bytes
		for i, mode := range regbench.Modes {
			l := plots.Line{Name: string(mode), Color: i}
			if mode == regbench.Prefetched {
				l.Color = plots.Colors - 1 // far from the color of pinned, which it runs along with
			}
			for j := range results {
				if r := &results[j]; r.Mode == mode && len(r.Runs) > 0 {
					if y := c.value(&r.Median); y > 0 {
						l.Points = append(l.Points, plots.Point{X: float64(r.Size), Y: y})
					}
				}
			}
			if len(l.Points) > 0 {
				c.chart.Lines = append(c.chart.Lines, l)
			}
		}
		if len(c.chart.Lines) > 0 { // only Linux reports the pages in memory
			charts = append(charts, c.chart)
		}
	}
	return charts
}

// tens returns the powers of ten from one to another.
func tens(from, to float64) (list []float64) {
	for v := from; v <= to; v *= 10 {
		list = append(list, v)
	}
	return list
}

// rateText formats bytes a second; 0: there is no figure.
func rateText(bytes float64) string {
	if bytes == 0 {
		return ""
	}
	return units.Rate(bytes)
}
