// SPDX-License-Identifier: Apache-2.0

package plots

import (
	"flag"
	"strconv"
	"testing"
)

var incast = flag.String("incast", "", "file for the plot of TestIncast, an SVG")

// TestIncast draws the share that a flow beside an incast gets of a link. Package link's
// TestVictimShares has measured it.
func TestIncast(t *testing.T) {
	chart := Chart{Title: "A flow beside an incast over the same link", X: "adapters that send to one",
		Y: "share of the link, %"}
	for _, row := range measured(t, "incast.csv") {
		senders, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		chart.add("victim, "+row[0], false, Point{X: float64(senders), Y: 100 * number(t, row[2])})
	}
	drawn(t, chart, *incast)
}
