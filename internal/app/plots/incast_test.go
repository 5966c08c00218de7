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

var incast = flag.String("incast", "", "file for the plot of TestIncast, an SVG")

// TestIncast draws what a flow beside an incast gets of a link. Package link's TestVictimShares has
// measured it.
func TestIncast(t *testing.T) {
	in, err := os.Open("../../../docs/incast.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	rows, err := csv.NewReader(in).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	chart := Chart{Title: "A flow beside an incast over the same link", X: "adapters that send to one", Y: "share of the link, %"}
	var last *Line
	for _, row := range rows[1:] {
		name := "victim, " + row[0]
		if last == nil || last.Name != name {
			chart.Lines = append(chart.Lines, Line{Name: name, Color: len(chart.Lines)})
			last = &chart.Lines[len(chart.Lines)-1]
		}
		senders, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		share, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		last.Points = append(last.Points, Point{X: float64(senders), Y: 100 * share})
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
	if *incast == "" {
		return
	}
	if err := os.WriteFile(*incast, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
