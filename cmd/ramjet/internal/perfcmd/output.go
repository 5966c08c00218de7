// SPDX-License-Identifier: Apache-2.0

package perfcmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/perf"
)

// perfOutput writes results as they arrive, or all at the end as JSON.
type perfOutput struct {
	w      io.Writer
	flags  *perfFlags
	device string
	rows   []Row
}

// newPerfOutput returns an output; client is nil on the server.
func newPerfOutput(w io.Writer, f *perfFlags, client *perf.Client) *perfOutput {
	o := &perfOutput{w: w, flags: f}
	if client != nil {
		o.device = client.Device().Name()
	}
	return o
}

const (
	bwHeader  = " %-10s %-13s %-18s %-21s %s\n"
	bwRow     = " %-10d %-13d %-18.2f %-21.2f %.6f\n"
	latHeader = " %-10s %-13s %-12s %-12s %-16s %-12s %-14s %-21s %s\n"
	latRow    = " %-10d %-13d %-12.2f %-12.2f %-16.2f %-12.2f %-14.2f %-21.2f %.2f\n"
)

// row writes one size.
func (o *perfOutput) row(r Row) {
	o.rows = append(o.rows, r)
	switch {
	case o.flags.json:
		return
	case o.flags.csv:
		writePerfCSV(o.w, &r, len(o.rows) == 1)
		return
	}
	lat := r.Config.Mode == perf.Latency
	if len(o.rows) == 1 {
		fmt.Fprintln(o.w, o.title(&r))
		if lat {
			fmt.Fprintf(o.w, latHeader, "#bytes", "#iterations", "t_min[usec]", "t_max[usec]", "t_typical[usec]",
				"t_avg[usec]", "t_stdev[usec]", "99% percentile[usec]", "99.9% percentile[usec]")
		} else {
			fmt.Fprintf(o.w, bwHeader, "#bytes", "#iterations", "BW peak[MB/sec]", "BW average[MB/sec]",
				"MsgRate[Mpps]")
		}
	}
	if m := &r.Median; lat {
		fmt.Fprintf(o.w, latRow, m.Bytes, m.Iterations, m.Min, m.Max, m.Typical, m.Average, m.Stdev, m.P99, m.P999)
	} else {
		fmt.Fprintf(o.w, bwRow, m.Bytes, m.Iterations, m.BWPeak, m.BWAverage, m.MsgRate)
	}
	for _, res := range r.Runs {
		if res.Lost > 0 {
			fmt.Fprintf(o.w, "%s lost %d of %d messages: the figures are of those that arrived\n", r.Config.Transport,
				res.Lost, res.Lost+res.Messages)
		}
	}
}

// title describes in one line the measurement.
func (o *perfOutput) title(r *Row) string {
	c := &r.Config
	parts := []string{fmt.Sprintf("%s %v %s", c.Transport, c.Op, c.Mode)}
	if o.device != "" {
		parts = append(parts, o.device)
	}
	parts = append(parts, fmt.Sprintf("MTU %d", r.Runs[0].MTU))
	if c.QPs > 1 {
		parts = append(parts, fmt.Sprintf("%d queue pairs", c.QPs))
	}
	if c.Mode == perf.Bandwidth {
		parts = append(parts, fmt.Sprintf("tx depth %d", c.TxDepth))
		if c.PostList > 1 {
			parts = append(parts, fmt.Sprintf("post list %d", c.PostList))
		}
		if c.Both {
			parts = append(parts, "both ways")
		}
	} else if halves(c.Op) {
		parts = append(parts, "times are half a round trip")
	}
	if c.Events {
		parts = append(parts, "sleeping on events")
	} else {
		parts = append(parts, "polling")
	}
	if n := len(r.Runs); n > 1 {
		parts = append(parts, fmt.Sprintf("medians of %d runs", n))
	}
	return strings.Join(parts, ", ")
}

// end writes the text after the last size.
func (o *perfOutput) end() error {
	if o.flags.json {
		var devices []string
		if o.device != "" {
			devices = append(devices, o.device)
		}
		return cli.WriteJSON(o.w, struct {
			Results []Row `json:"results"`
		}{o.rows}, devices...)
	}
	if o.flags.csv {
		return nil
	}
	if o.flags.hist {
		writeHistograms(o.w, o.rows)
	}
	head := false
	for _, r := range o.rows {
		for _, c := range r.Compare {
			if !head {
				head = true
				fmt.Fprintf(o.w, "\nthe same between the same processes over sockets, round trips whole:\n %-10s %-26s %-16s %-16s %s\n", "#bytes", "sockets", "theirs", "ours", "ours to theirs")
			}
			if c.Error != "" {
				fmt.Fprintf(o.w, " %-10d %-26s not measured: %s\n", r.Config.Size, c.Name, c.Error)
				continue
			}
			fmt.Fprintf(o.w, " %-10d %-26s %-16s %-16s %.2f x\n", r.Config.Size, c.Name, c.unit.Format(c.Value),
				c.unit.Format(c.Ours), c.Ratio)
		}
	}
	return nil
}
