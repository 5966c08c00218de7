// SPDX-License-Identifier: Apache-2.0

package plots

import (
	"flag"
	"testing"
)

var marking = flag.String("marking", "", "file for the plot of TestMarking, an SVG")

// TestMarking draws the queue at a bottleneck that marks, by the control of one flow. interop/marking.sh has measured
// it.
func TestMarking(t *testing.T) {
	chart := Chart{Title: "Queue at a bottleneck of 10 Mbit/s, one flow", X: "time, s", Y: "queue, ms", Linear: true}
	for _, row := range measured(t, "marking.csv") {
		chart.add(row[0], true, Point{X: number(t, row[2]), Y: number(t, row[3])})
	}
	drawn(t, chart, *marking)
}
