// SPDX-License-Identifier: Apache-2.0

package simcmd

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/plots"
	"github.com/ramjet-rdma/ramjet/internal/app/sim"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// write writes the present results in all forms that were asked for.
func (f *simFlags) write(out, log io.Writer, s *sim.Sim) error {
	r := s.Results()
	if f.csv != "" {
		if err := simCSV(f.csv, s, r); err != nil {
			return err
		}
	}
	switch charts := simCharts(s, r); {
	case len(charts) > 0:
		if err := f.plots.Write(charts...); err != nil {
			return err
		}
	case f.plots.SVG.Name != "" || f.plots.PNG.Name != "":
		fmt.Fprintln(log, "there is no plot: it needs flows of several sizes that have ended, or trace in the scenario")
	}
	if f.json {
		return cli.WriteJSON(out, r)
	}
	simTable(out, r)
	return nil
}

// simLinks is how many links the table has: the busiest.
const simLinks = 12

// simTable writes results for people.
func simTable(w io.Writer, r *sim.Results) {
	fmt.Fprintf(w, "%s: %s; goodput %s", units.Seconds(r.Time/1e9), simFlowsText(r), units.BitRate(r.Goodput))
	if r.Ended+r.Failed+r.Running > 1 && r.Fairness > 0 {
		fmt.Fprintf(w, ", fairness %.3f", r.Fairness)
	}
	fmt.Fprintln(w)
	t := &r.Transport
	fmt.Fprintf(w, "%s packets sent, %s again; %s marked, %s; %s, %s, %s\n", units.Count(t.SentPackets),
		units.Count(t.Retransmitted), units.Count(t.Marked),
		units.Plural(t.CNPs, "CNP"), units.Plural(t.Timeouts, "timeout"),
		units.Plural(t.SequenceErrors, "sequence error"), units.Plural(t.RNRs, "RNR NAK"))
	if d := r.Datagrams; d != nil {
		fmt.Fprintf(w, "%s of datagrams: %s of %s arrived (%s)\n", units.Plural(d.Flows, "flow"),
			units.Bytes(d.Arrived), units.Bytes(d.Sent), units.Percent(float64(d.Arrived)/float64(max(d.Sent, 1))))
	}
	if r.Compared > 0 {
		fmt.Fprintf(w, "%s arrived as they were sent\n", units.Bytes(r.Compared))
	}
	if len(r.Sizes) > 0 {
		const row = "%12s %9s %10s %10s %10s %8s %8s %8s\n"
		fmt.Fprintf(w, "\n"+row, "size up to", "#flows", "FCT 50%", "95%", "99%", "slow 50%", "95%", "99%")
		for _, s := range r.Sizes {
			fmt.Fprintf(w, row, units.Bytes(s.UpTo), strconv.Itoa(s.Flows), units.Seconds(s.FCT.P50/1e9),
				units.Seconds(s.FCT.P95/1e9), units.Seconds(s.FCT.P99/1e9),
				cli.Decimal(s.Slowdown.P50, 2, 8), cli.Decimal(s.Slowdown.P95, 2, 8), cli.Decimal(s.Slowdown.P99, 2, 8))
		}
	}
	simLinkTable(w, r)
}

// simFlowsText describes the state of the flows.
func simFlowsText(r *sim.Results) string {
	text := units.Count(r.Ended) + " of " + units.Plural(r.Flows, "flow") + " ended"
	for _, part := range []struct {
		flows int
		what  string
	}{
		{r.Failed, "failed"}, {r.Running, "still running"}, {r.Flows - r.Ended - r.Failed - r.Running, "not begun"},
	} {
		if part.flows > 0 {
			text += ", " + units.Count(part.flows) + " " + part.what
		}
	}
	return text
}

// simLinkTable writes the busiest links, and the sums of all.
func simLinkTable(w io.Writer, r *sim.Results) {
	links := slices.Clone(r.Links)
	slices.SortStableFunc(links, func(a, b sim.LinkRow) int { return cmp.Compare(b.Utilization, a.Utilization) })
	const row = "%-10s %-10s %5s %9s %9s %7s %9s %8s %8s\n"
	fmt.Fprintf(w, "\n"+row, "link from", "to", "busy", "max queue", "mean", "#pauses", "paused", "#marked", "#dropped")
	for i, l := range links {
		if i == simLinks {
			fmt.Fprintf(w, "and %s less busy\n", units.Plural(len(links)-i, "link"))
			break
		}
		fmt.Fprintf(w, row, l.From, l.To, units.Percent(l.Utilization), units.Bytes(l.MaxQueue),
			units.Bytes(math.Round(l.MeanQueue)), strconv.FormatUint(l.Pauses, 10),
			units.Seconds(l.Paused/1e9), strconv.FormatUint(l.Marked, 10), strconv.FormatUint(l.Dropped, 10))
	}
	var pauses, marked, dropped, trimmed, corrupt, lost, storms uint64
	for _, l := range links {
		pauses, marked, dropped, corrupt = pauses+l.Pauses, marked+l.Marked, dropped+l.Dropped, corrupt+l.Corrupt
		trimmed, lost, storms = trimmed+l.Trimmed, lost+l.Lost, storms+l.Storms
	}
	fmt.Fprintf(w, "all links: %s, %s packets marked, %s dropped, %s corrupt\n", units.Plural(pauses, "pause"),
		units.Count(marked), units.Count(dropped), units.Count(corrupt))
	if trimmed > 0 {
		fmt.Fprintf(w, "%s trimmed\n", units.Plural(trimmed, "packet"))
	}
	if lost+storms > 0 {
		fmt.Fprintf(w, "%s lost to failures; %s\n", units.Plural(lost, "packet"), units.Plural(storms, "pause storm"))
	}
}

// simCSV writes flows.csv, links.csv and, of a trace, trace.csv into a folder.
func simCSV(folder string, s *sim.Sim, r *sim.Results) error {
	float := func(v float64) string { return strconv.FormatFloat(v, 'g', 9, 64) }
	flows := [][]string{{"src", "dst", "op", "bytes", "delivered_bytes", "start_s", "fct_s", "ideal_s", "slowdown",
		"retransmitted", "status"}}
	for _, f := range s.Flows() {
		fct, status, op := "", "running", f.Op.String()
		if f.UD {
			op = "UD " + op
		}
		if f.End > 0 {
			fct, status = float((f.End - f.Start).Seconds()), f.Status.String()
		}
		flows = append(flows, []string{strconv.Itoa(int(f.Src)), strconv.Itoa(int(f.Dst)), op,
			strconv.FormatInt(f.Size, 10), strconv.FormatInt(f.Delivered, 10), float(f.Start.Seconds()), fct,
			float(f.Ideal.Seconds()), float(f.Slowdown()), strconv.Itoa(f.Retransmitted), status})
	}
	links := [][]string{{"from", "to", "packets", "utilization", "max_queue_bytes", "mean_queue_bytes", "pauses",
		"paused_s", "marked", "dropped", "trimmed", "corrupt", "lost", "storms"}}
	for _, l := range r.Links {
		count := func(n uint64) string { return strconv.FormatUint(n, 10) }
		links = append(links, []string{l.From, l.To, count(l.Packets), float(l.Utilization), strconv.Itoa(l.MaxQueue),
			float(l.MeanQueue), count(l.Pauses), float(l.Paused / 1e9),
			count(l.Marked), count(l.Dropped), count(l.Trimmed), count(l.Corrupt), count(l.Lost), count(l.Storms)})
	}
	if err := writeRows(filepath.Join(folder, "flows.csv"), flows); err != nil {
		return err
	}
	if err := writeRows(filepath.Join(folder, "links.csv"), links); err != nil || len(r.Trace) == 0 {
		return err
	}
	trace := [][]string{{"time_s", "longest_queue_bytes", "flow", "rate_bps", "control_bps"}}
	for _, t := range r.Trace {
		for i := range t.Rates {
			trace = append(trace, []string{float(t.Time / 1e9), strconv.Itoa(t.Queue), strconv.Itoa(i),
				float(t.Rates[i]), float(t.Controls[i])})
		}
	}
	return writeRows(filepath.Join(folder, "trace.csv"), trace)
}

func writeRows(name string, rows [][]string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := csv.NewWriter(file).WriteAll(rows); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// simQuantiles is how many points the plot of slowdowns has, of equally many flows.
const simQuantiles = 20

// simCharts returns slowdowns by size where flows differ in it, and rates and the longest queue over time.
func simCharts(s *sim.Sim, r *sim.Results) (charts []plots.Chart) {
	if rows := s.Quantiles(simQuantiles); len(rows) > 1 && rows[0].UpTo < rows[len(rows)-1].UpTo {
		c := plots.Chart{Title: "FCT slowdown by size", X: "flow size [B]", Y: "slowdown",
			XText:  func(v float64) string { return units.Short(v) },
			XMarks: powersOfTen(float64(rows[0].UpTo), float64(rows[len(rows)-1].UpTo))}
		for i, line := range []struct {
			name string
			of   func(sim.Percentile) float64
		}{{"median", func(p sim.Percentile) float64 { return p.P50 }},
			{"95 %", func(p sim.Percentile) float64 { return p.P95 }},
			{"99 %", func(p sim.Percentile) float64 { return p.P99 }}} {
			l := plots.Line{Name: line.name, Color: i}
			for _, row := range rows {
				l.Points = append(l.Points, plots.Point{X: float64(max(row.UpTo, 1)), Y: line.of(row.Slowdown)})
			}
			c.Lines = append(c.Lines, l)
		}
		charts = append(charts, c)
	}
	if len(r.Trace) == 0 {
		return charts
	}
	rates := plots.Chart{Title: "Rates of flows", X: "time [ms]", Y: "rate [Gb/s]", Linear: true}
	queue := plots.Chart{Title: "Longest queue", X: "time [ms]", Y: "queue [KB]", Linear: true, Lines: []plots.Line{{}}}
	last := r.Trace[len(r.Trace)-1]
	for i := range min(len(last.Rates), plots.Colors) {
		rates.Lines = append(rates.Lines, plots.Line{Name: fmt.Sprint("flow ", i), Color: i})
	}
	for _, t := range r.Trace {
		ms := t.Time / 1e6
		queue.Lines[0].Points = append(queue.Lines[0].Points, plots.Point{X: ms, Y: float64(t.Queue) / 1e3})
		for i := range min(len(t.Rates), len(rates.Lines)) {
			rates.Lines[i].Points = append(rates.Lines[i].Points, plots.Point{X: ms, Y: t.Rates[i] / 1e9})
		}
	}
	for _, c := range []plots.Chart{rates, queue} {
		if slices.ContainsFunc(c.Lines, func(l plots.Line) bool {
			return slices.ContainsFunc(l.Points, func(p plots.Point) bool { return p.Y > 0 })
		}) {
			charts = append(charts, c)
		}
	}
	return charts
}

// powersOfTen returns the powers of ten from low to high.
func powersOfTen(low, high float64) (powers []float64) {
	for p := 1.0; p <= high; p *= 10 {
		if p >= low {
			powers = append(powers, p)
		}
	}
	return powers
}
