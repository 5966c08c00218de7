// SPDX-License-Identifier: Apache-2.0

package perfcmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/perf"
	"github.com/ramjet-rdma/ramjet/internal/app/perf/baseline"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// Row is a line of output, for one size.
type Row struct {
	Config      perf.Config      `json:"config"`
	Median      perfColumns      `json:"median"`
	Runs        []*perf.Result   `json:"runs"`
	Compare     []perfComparison `json:"compare,omitempty"`
	Percentiles []percentile     `json:"percentiles,omitempty"` // of all runs together, with --histogram
}

// perfColumns are perftest's columns, in perftest's units.
type perfColumns struct {
	Bytes      int     `json:"bytes"`
	Iterations uint64  `json:"iterations"`
	BWPeak     float64 `json:"bw_peak_mib_per_second,omitempty"`
	BWAverage  float64 `json:"bw_average_mib_per_second,omitempty"`
	MsgRate    float64 `json:"msg_rate_mpps,omitempty"`
	Min        float64 `json:"t_min_usec,omitempty"`
	Max        float64 `json:"t_max_usec,omitempty"`
	Typical    float64 `json:"t_typical_usec,omitempty"`
	Average    float64 `json:"t_avg_usec,omitempty"`
	Stdev      float64 `json:"t_stdev_usec,omitempty"`
	P99        float64 `json:"p99_usec,omitempty"`
	P999       float64 `json:"p99_9_usec,omitempty"`
}

// perfComparison is the same transfer over sockets.
type perfComparison struct {
	Name  string    `json:"name"`
	Unit  string    `json:"unit"`  // "bytes/s", "messages/s" or "s", a round trip
	Value float64   `json:"value"` // of the sockets: the median of all runs
	Ours  float64   `json:"ours"`
	Ratio float64   `json:"ratio"` // of ours to the sockets': the median of the runs' ratios
	Error string    `json:"error,omitempty"`
	unit  perf.Unit // of Value
}

// halves reports whether perftest shows half a round trip.
func halves(op perf.Op) bool { return op == perf.Send || op == perf.Write }

// columnsOf returns the columns of one run.
func columnsOf(r *perf.Result) perfColumns {
	const mib = 1 << 20
	c := perfColumns{Bytes: r.Config.Size, Iterations: r.Messages}
	if r.Config.Mode == perf.Bandwidth {
		c.BWPeak, c.BWAverage, c.MsgRate = r.PeakPerSecond/mib, r.BytesPerSecond/mib, r.MessagesPerSecond/1e6
		return c
	}
	if l := r.RoundTrip; l != nil {
		unit := float64(time.Microsecond)
		if halves(r.Config.Op) {
			unit *= 2
		}
		us := func(d time.Duration) float64 { return float64(d) / unit }
		c.Min, c.Max, c.Typical, c.Average, c.Stdev = us(l.Min), us(l.Max), us(l.P50), l.Mean/unit, l.Stdev/unit
		c.P99, c.P999 = us(l.P99), us(l.P999)
	}
	return c
}

// newPerfRow makes a line from runs: each column is the median.
func newPerfRow(runs []*perf.Result) Row {
	row := Row{Config: runs[0].Config, Runs: runs, Median: columnsOf(runs[0])}
	columns := make([]perfColumns, len(runs))
	for i, r := range runs {
		columns[i] = columnsOf(r)
	}
	median := func(field func(*perfColumns) *float64) {
		v := make([]float64, len(columns))
		for i := range columns {
			v[i] = *field(&columns[i])
		}
		*field(&row.Median) = perf.Median(v)
	}
	for _, field := range []func(*perfColumns) *float64{
		func(c *perfColumns) *float64 { return &c.BWPeak }, func(c *perfColumns) *float64 { return &c.BWAverage },
		func(c *perfColumns) *float64 { return &c.MsgRate }, func(c *perfColumns) *float64 { return &c.Min },
		func(c *perfColumns) *float64 { return &c.Max }, func(c *perfColumns) *float64 { return &c.Typical },
		func(c *perfColumns) *float64 { return &c.Average }, func(c *perfColumns) *float64 { return &c.Stdev },
		func(c *perfColumns) *float64 { return &c.P99 }, func(c *perfColumns) *float64 { return &c.P999 },
	} {
		median(field)
	}
	return row
}

// measure measures one size, and sockets beside it.
func (f *perfFlags) measure(ctx context.Context, client *perf.Client, cfg perf.Config, log io.Writer) (Row, error) {
	bar := startPerfBar(log, fmt.Sprintf("%v %s, %s", cfg.Op, cfg.Mode, units.Size(cfg.Size)), cfg, f.runs, client)
	defer bar.stop()
	var compare []perfComparison
	var against []baseline.Config
	if f.compare {
		compare, against = perfBaselines(cfg)
	}
	values, ratios := make([][]float64, len(against)), make([][]float64, len(against))
	ours := make([][]float64, len(against))
	var runs []*perf.Result
	for range f.runs {
		r, err := client.Run(ctx, cfg)
		if err != nil {
			return Row{}, err
		}
		runs = append(runs, r)
		bar.ran()
		for i, b := range against {
			if b.Duration == 0 {
				b.Duration = min(max(r.Elapsed, 200*time.Millisecond), 10*time.Second)
			}
			br, err := client.Baseline(ctx, b)
			if ctx.Err() != nil {
				return Row{}, ctx.Err()
			}
			if err != nil {
				compare[i].Error = err.Error()
				continue
			}
			our, their := compare[i].unit.Of(r), compare[i].unit.OfBaseline(br)
			ours[i], values[i], ratios[i] = append(ours[i], our), append(values[i], their), append(ratios[i], our/their)
		}
	}
	for i := range compare {
		c := &compare[i]
		c.Ours, c.Value, c.Ratio = perf.Median(ours[i]), perf.Median(values[i]), perf.Median(ratios[i])
	}
	row := newPerfRow(runs)
	row.Compare = compare
	if f.hist {
		row.Percentiles = percentilesOf(runs)
	}
	return row, nil
}

// maxDatagram limits the UDP sends to compare with: a packet at a path MTU of 4096.
const maxDatagram = 4096

// perfBaselines returns the socket transfers that correspond to cfg.
func perfBaselines(cfg perf.Config) (compare []perfComparison, against []baseline.Config) {
	add := func(name string, unit perf.Unit, b baseline.Config) {
		b.Duration = cfg.Duration
		compare, against = append(compare, perfComparison{Name: name, Unit: unit.String(), unit: unit}),
			append(against, b)
	}
	udp := min(cfg.Size, maxDatagram)
	switch {
	case cfg.Mode == perf.Bandwidth:
		add("TCP", perf.BytesPerSecond, baseline.Config{Kind: baseline.TCPStream, Size: cfg.Size})
		add("TCP, cubic", perf.BytesPerSecond,
			baseline.Config{Kind: baseline.TCPStream, Size: cfg.Size, Congestion: "cubic"})
		if udp == cfg.Size {
			add("UDP, sendmmsg", perf.MessagesPerSecond, baseline.Config{Kind: baseline.UDPPackets, Size: udp})
		} else {
			add(fmt.Sprintf("UDP, sendmmsg of %d B", udp), perf.BytesPerSecond,
				baseline.Config{Kind: baseline.UDPPackets, Size: udp})
		}
	case cfg.Events:
		add("UDP round trip, sleeping", perf.RoundTripTime, baseline.Config{Kind: baseline.UDPSleeping, Size: udp})
		add("TCP round trip, sleeping", perf.RoundTripTime, baseline.Config{Kind: baseline.TCPSleeping, Size: cfg.Size})
	default:
		add("UDP round trip, polled", perf.RoundTripTime, baseline.Config{Kind: baseline.UDPPolled, Size: udp})
		add("TCP round trip, polled", perf.RoundTripTime, baseline.Config{Kind: baseline.TCPPolled, Size: cfg.Size})
	}
	return compare, against
}

// perfBar shows the progress of a longer measurement, only on a terminal.
type perfBar struct {
	quit, gone chan struct{}
	runs       chan struct{}
}

func startPerfBar(log io.Writer, label string, cfg perf.Config, runs int, client *perf.Client) *perfBar {
	line := cli.NewBarLine(log)
	if line == nil {
		return nil
	}
	b := &perfBar{quit: make(chan struct{}), gone: make(chan struct{}), runs: make(chan struct{}, runs)}
	go b.show(line, label, cfg, runs, client)
	return b
}

func (b *perfBar) show(line *cli.BarLine, label string, cfg perf.Config, runs int, client *perf.Client) {
	defer close(b.gone)
	select {
	case <-time.After(500 * time.Millisecond):
	case <-b.quit:
		return
	}
	defer line.Aside(func() {}) // the table's next line takes its place
	const whole = 1000
	tick := time.NewTicker(cli.BarPause)
	defer tick.Stop()
	for done, began := 0, time.Now(); ; {
		select {
		case <-b.runs:
			done, began = done+1, time.Now()
		case <-tick.C:
		case <-b.quit:
			return
		}
		part := float64(client.Progress()) / float64(max(cfg.Iters*cfg.QPs, 1))
		if cfg.Duration > 0 {
			part = float64(time.Since(began)) / float64(cfg.Duration)
		}
		now := int64(whole*done) + int64(whole*min(part, 0.99))
		line.Show(func(width int) string { return cli.BarText(width, label, now, int64(whole*runs)) })
	}
}

// ran records that a run has ended.
func (b *perfBar) ran() {
	if b != nil {
		b.runs <- struct{}{}
	}
}

// stop removes the bar.
func (b *perfBar) stop() {
	if b != nil {
		close(b.quit)
		<-b.gone
	}
}
