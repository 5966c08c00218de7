// SPDX-License-Identifier: Apache-2.0

package perfcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/perf"
	"github.com/ramjet-rdma/ramjet/internal/app/perf/baseline"
)

// perfTable measures the figures that the project holds itself to.
type perfTable struct {
	runs     int
	duration cli.Seconds
	only     string
	device   string
	json     bool
	profile  string
	leftOut  []error // why figures and columns are missing
}

func newPerfTableCmd() *cobra.Command {
	t := &perfTable{duration: cli.Seconds(500 * time.Millisecond)}
	c := &cobra.Command{Use: "table",
		Short: "Measure the figures of docs/decisions/0032-figures.md, beside sockets, as a table", Args: cli.NoArgs,
		Example: "  ramjet perf table\n  ramjet perf table -d iwarp: --runs 7 -D 250ms",
		Long: "Measure every figure that this project holds itself to, as a ratio to sockets in the same run, between two\n" +
			"processes on loopback addresses, and write them as a Markdown table. --device iwarp: measures those of iWARP only.\n" +
			"Where only root may choose cubic as TCP's congestion control, what needs it is left out, and the table says so."}
	c.Flags().IntVar(&t.runs, "runs", 5, "`number` of runs; the table has their medians")
	c.Flags().VarP(&t.duration, "duration", "D", "`time` of each measurement, in seconds or such as 500ms")
	c.Flags().StringVar(&t.only, "only", "", "measure only figures with this `text` in their name")
	c.Flags().StringVarP(&t.device, "device", "d", "",
		"measure only figures of this `kind` of device, "+strings.Join(FigureKinds(), " or "))
	cli.OnlyKind(c)
	c.Flags().BoolVar(&t.json, "json", false, "write JSON")
	profile := addProfileFlag(c)
	return cli.Leaf(c, func(c *cobra.Command, _ []string) error {
		if t.runs < 1 {
			return cli.Usagef("--runs is %d: it has to be 1 or more", t.runs)
		}
		if !slices.ContainsFunc(FigureKinds(), func(kind string) bool { return strings.HasPrefix(kind, t.device) }) {
			return cli.Usagef("--device %q: there are figures of %s", t.device, strings.Join(FigureKinds(), " and "))
		}
		var figures []perf.Figure
		for _, f := range perf.Figures(time.Duration(t.duration)) {
			if strings.HasPrefix(f.Device, t.device) &&
				strings.Contains(strings.ToLower(f.Name), strings.ToLower(t.only)) {
				figures = append(figures, f)
			}
		}
		if len(figures) == 0 {
			return cli.Usagef("no figure has %q (--only) in its name", t.only)
		}
		if figures, t.leftOut = perf.Permitted(figures, baseline.PermitsCongestion); len(figures) == 0 {
			return fmt.Errorf("none of these figures can be measured: %w", errors.Join(t.leftOut...))
		}
		stop, err := startProfile(*profile)
		if err != nil {
			return err
		}
		defer stop()
		t.profile = *profile
		return t.run(c.Context(), figures, c.OutOrStdout(), c.ErrOrStderr())
	})
}

// FigureKinds returns the kinds of device that have figures, with their colons.
func FigureKinds() (kinds []string) {
	for _, f := range perf.Figures(0) {
		kind, _, _ := strings.Cut(f.Device, ":")
		kinds = append(kinds, kind+":")
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// perfFigure is the results of all runs of a figure.
type perfFigure struct {
	Name   string        `json:"name"`
	Unit   string        `json:"unit"`   // of all values: "bytes/s", "messages/s" or "s", a round trip
	Beside []string      `json:"beside"` // the baseline of each ratio in Against
	Runs   []perf.Values `json:"runs"`
	Errors []string      `json:"errors,omitempty"`
	figure *perf.Figure
}

// run measures all figures once, then all again: changes of the machine over minutes affect all of
// them.
func (t *perfTable) run(ctx context.Context, figures []perf.Figure, out, log io.Writer) error {
	for _, err := range t.leftOut {
		fmt.Fprintf(log, "left out is what needs %v\n", err)
	}
	results := make([]perfFigure, len(figures))
	for i := range figures {
		f := &figures[i]
		results[i] = perfFigure{Name: f.Name, Unit: f.Unit.String(), figure: f}
		for _, ref := range f.Against {
			results[i].Beside = append(results[i].Beside, ref.Name)
		}
	}
	for n := range t.runs {
		for i := range results {
			r := &results[i]
			fmt.Fprintf(log, "run %d of %d: %s\n", n+1, t.runs, r.Name)
			v, err := t.measure(ctx, r.figure, log)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				fmt.Fprintf(log, "  %v\n", err)
				r.Errors = append(r.Errors, err.Error())
				continue
			}
			r.Runs = append(r.Runs, v)
		}
	}
	if t.json {
		return cli.WriteJSON(out, struct {
			Figures []perfFigure `json:"figures"`
		}{results})
	}
	t.write(out, results)
	return nil
}

// measure measures a figure in a second process of its own.
func (t *perfTable) measure(ctx context.Context, f *perf.Figure, log io.Writer) (v perf.Values, err error) {
	peer, err := startPerfPeer(log, t.profile, f.Device)
	if err != nil {
		return v, err
	}
	defer peer.Close()
	d := &perfDevice{flags: cli.DeviceFlags{Device: f.Device}, log: log}
	client, err := perf.Dial(ctx, peer.Address, perf.LoopbackAddress(), perf.Options{Open: d.open})
	if err != nil {
		return v, err
	}
	defer client.Close()
	return client.Measure(ctx, f)
}

// write writes the table in Markdown.
func (t *perfTable) write(w io.Writer, results []perfFigure) {
	fmt.Fprintf(w, "%s, %v each; the ratio is the median of the runs' ratios, its spread their lowest and highest.\n\n",
		cli.Medians(t.runs), time.Duration(t.duration))
	for _, err := range t.leftOut {
		fmt.Fprintf(w, "Left out is what needs %v.\n\n", err)
	}
	fmt.Fprintln(w, "| figure | ours | allocations | beside | theirs | ratio | spread | wanted | |")
	fmt.Fprintln(w, "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | --- |")
	for _, r := range results {
		f := r.figure
		if len(r.Errors) > 0 {
			fmt.Fprintf(w, "| %s | %d of %d runs failed: %s | | | | | | | no |\n", f.Name, len(r.Errors), t.runs,
				strings.ReplaceAll(r.Errors[0], "|", "/"))
		}
		if len(r.Runs) == 0 {
			continue
		}
		column := func(get func(*perf.Values) float64) []float64 {
			var c []float64
			for i := range r.Runs {
				c = append(c, get(&r.Runs[i]))
			}
			return c
		}
		ours := perf.Median(column(func(v *perf.Values) float64 { return v.Value }))
		allocs := perf.Median(
			column(func(v *perf.Values) float64 { return float64(v.Allocs) / float64(max(v.Count, 1)) }))
		name, value := f.Name, fmt.Sprintf("%s | %.3f", f.Unit.Format(ours), allocs)
		for i, ref := range f.Against {
			theirs := perf.Median(column(func(v *perf.Values) float64 { return v.Against[i] }))
			ratios := column(func(v *perf.Values) float64 { return v.Ratios[i] })
			ratio, low, high := perf.Median(ratios), ratios[0], ratios[0]
			for _, x := range ratios {
				low, high = min(low, x), max(high, x)
			}
			fmt.Fprintf(w, "| %s | %s | %s | %s | %.2f | %.2f to %.2f | %s |\n", name, value, ref.Name,
				f.Unit.Format(theirs),
				ratio, low, high, wanted(f, i, ratio))
			name, value = "", " | "
		}
	}
}

// wanted returns the table's last two columns for a ratio: the target, and whether it is reached.
func wanted(f *perf.Figure, ref int, ratio float64) string {
	if f.Against[ref].Want == 0 {
		return " | "
	}
	bound, reached := "at least", "no"
	if f.Unit == perf.RoundTripTime {
		bound = "at most"
	}
	if f.Reached(ref, ratio) {
		reached = "yes"
	}
	return fmt.Sprintf("%s %.2f | %s", bound, f.Against[ref].Want, reached)
}
