// SPDX-License-Identifier: Apache-2.0

package plots

import (
	"bytes"
	"encoding/csv"
	"os"
	"strconv"
	"testing"
)

// measured returns the rows of a file of docs, without the first.
func measured(t *testing.T, name string) [][]string {
	t.Helper()
	in, err := os.Open("../../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	rows, err := csv.NewReader(in).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows[1:]
}

// number returns the number in a field.
func number(t *testing.T, s string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// add adds a point to the last line of a chart, if that has this name, or else to a line behind it.
func (c *Chart) add(name string, dashed bool, p Point) {
	if n := len(c.Lines); n == 0 || c.Lines[n-1].Name != name {
		c.Lines = append(c.Lines, Line{Name: name, Color: n, Dashed: dashed})
	}
	last := &c.Lines[len(c.Lines)-1]
	last.Points = append(last.Points, p)
}

// drawn draws a chart, whose lines it has to show, into a file; empty: into none.
func drawn(t *testing.T, chart Chart, file string) {
	t.Helper()
	var out bytes.Buffer
	if err := WriteSVG(&out, chart); err != nil {
		t.Fatal(err)
	}
	for _, line := range chart.Lines {
		if !bytes.Contains(out.Bytes(), []byte(line.Name)) {
			t.Errorf("the plot does not show %q", line.Name)
		}
	}
	if file == "" {
		return
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
