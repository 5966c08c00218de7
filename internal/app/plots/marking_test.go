// SPDX-License-Identifier: Apache-2.0

package plots

import (
	"bytes"
	"encoding/csv"
	"flag"
	"os"
	"strconv"
	"testing"
)

var marking = flag.String("marking", "", "file for the plot of TestMarking, an SVG")

// TestMarking draws the queue at a bottleneck that marks, by the control of one flow. interop/marking.sh has measured it.
func TestMarking(t *testing.T) {
	in, err := os.Open("../../../docs/marking.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	rows, err := csv.NewReader(in).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) float64 {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	chart := Chart{Title: "Queue at a bottleneck of 10 Mbit/s, one flow", X: "time, s", Y: "queue, ms", Linear: true}
	var last *Line
	for _, row := range rows[1:] {
		if last == nil || last.Name != row[0] {
			chart.Lines = append(chart.Lines, Line{Name: row[0], Color: len(chart.Lines), Dashed: true})
			last = &chart.Lines[len(chart.Lines)-1]
		}
		last.Points = append(last.Points, Point{X: number(row[2]), Y: number(row[3])})
	}
	var out bytes.Buffer
	if err := WriteSVG(&out, chart); err != nil {
		t.Fatal(err)
	}
	for _, line := range chart.Lines {
		if !bytes.Contains(out.Bytes(), []byte(line.Name)) {
			t.Errorf("the plot does not show %q", line.Name)
		}
	}
	if *marking == "" {
		return
	}
	if err := os.WriteFile(*marking, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
