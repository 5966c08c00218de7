// SPDX-License-Identifier: Apache-2.0

package benchcmd

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/notification"
	"github.com/ramjet-rdma/ramjet/internal/app/plots"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// notificationTable writes results in columns.
type notificationTable struct{ w io.Writer }

const notificationRow = "%6s %-23s %8s %8s %8s %8s %6s %6s\n"

// begin writes the title of the measurement, and the head of the table.
func (t *notificationTable) begin(client, target string, c *notification.Config) {
	each := units.Plural(c.Iterations, "WRITE") + " each"
	if c.Duration > 0 {
		each = units.Period(c.Duration) + " each"
	}
	fmt.Fprintf(t.w, "RC WRITE of 1 byte from %s to %s,\n%s, the peers' bytes are %s apart; times in µs: typical and 99th percentile\n", client, target, each, units.Plural(c.Stride, "byte"))
	fmt.Fprintf(t.w, notificationRow, "#peers", "way", "typical", "99%", "look", "99% look", "scan", "busy")
}

// row writes one result.
func (t *notificationTable) row(r notification.Result) {
	look, look99, scan, busy := "-", "-", "-", "-"
	if r.Look != nil {
		look, look99 = lookText(r.Look, r.Look.P50, 8), lookText(r.Look, r.Look.P99, 8)
	}
	if r.Scan != nil {
		scan = lookText(r.Scan, r.Scan.P50, 6)
	}
	if r.Busy != nil {
		busy = units.Percent(*r.Busy)
	}
	const wide = 8 // columns of a time
	fmt.Fprintf(t.w, notificationRow, strconv.Itoa(r.Peers), r.Way, cli.Decimal(usec(r.Delay.P50), 2, wide),
		cli.Decimal(usec(r.Delay.P99), 2, wide),
		look, look99, scan, busy)
}

func usec(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// lookText formats nanoseconds of a look as microseconds, with a question mark if others had the
// processors, in so many columns.
func lookText(l *notification.Look, ns float64, columns int) string {
	doubt := ""
	if l.Disturbed {
		doubt = "?"
	}
	return cli.Decimal(ns/1e3, 3, columns-len(doubt)) + doubt
}

// notificationCharts draws the results by the number of peers: the times of each
// way, and the costs of looks.
func notificationCharts(results []notification.Result) []plots.Chart {
	const peers = "peers"
	delay := plots.Chart{Title: "Time until the target knows the peer (dashed: 99th percentile)", X: peers,
		Y: "time [µs]"}
	look := plots.Chart{Title: "Processor time of a look that finds nothing", X: peers, Y: "time [µs]"}
	line := func(c *plots.Chart, name string, color int, dashed bool, value func(*notification.Result) float64) {
		l := plots.Line{Name: name, Color: color, Dashed: dashed}
		for i := range results {
			r := &results[i]
			if y := value(r); notification.Ways[color] == r.Way && y > 0 {
				l.Points = append(l.Points, plots.Point{X: float64(r.Peers), Y: y})
			}
		}
		if len(l.Points) > 0 {
			c.Lines = append(c.Lines, l)
		}
	}
	micros := func(l *notification.Look) float64 {
		if l == nil {
			return 0
		}
		return l.P50 / 1e3
	}
	for color, w := range notification.Ways {
		line(&delay, w.String(), color, false, func(r *notification.Result) float64 { return usec(r.Delay.P50) })
		line(&look, w.String(), color, false, func(r *notification.Result) float64 { return micros(r.Look) })
		line(&look, "of that, the bytes alone", color, true,
			func(r *notification.Result) float64 { return micros(r.Scan) })
	}
	for color := range notification.Ways {
		line(&delay, "", color, true, func(r *notification.Result) float64 { return usec(r.Delay.P99) })
	}
	return []plots.Chart{delay, look}
}
