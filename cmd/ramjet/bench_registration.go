// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/internal/app/bytesize"
	"github.com/ramjet-rdma/ramjet/internal/app/perf"
	"github.com/ramjet-rdma/ramjet/internal/app/regbench"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// benchRegistration measures what registering memory costs.
type benchRegistration struct {
	device   deviceFlags
	sizes    []string
	runs     int
	duration perfDuration
	chunk    bytesize.Size
	json     bool
	svg, png string
}

// registrationSizes are the sizes if no others are given.
var registrationSizes = []string{"4K", "16K", "64K", "256K", "1M", "4M", "16M", "64M", "256M", "1G"}

func newBenchRegistrationCmd() *cobra.Command {
	b := &benchRegistration{duration: perfDuration(100 * time.Millisecond), chunk: verbs.DefaultChunk}
	c := &cobra.Command{Use: "registration", Short: "Measure what it costs to register memory, in each of the ways there are", Args: noArgs,
		Long: "Register a buffer that nobody has touched, READ into it from another device of this process, and measure how long\n" +
			"it takes until it is registered, until the first 4 KiB are there, and until all is there; then the bandwidth of the\n" +
			"same buffer, and how much memory is taken. Figures are medians. docs/memory.md says what the ways are. What this\n" +
			"process may not pin (ulimit -l) is left out, and the table says so."}
	fl := c.Flags()
	fl.StringVarP(&b.device.device, "device", "d", "", "`device` to open, which is then its own peer, or a kind such as iwarp: (default: RoCEv2 on loopback addresses)")
	fl.StringSliceVarP(&b.sizes, "sizes", "s", registrationSizes, "`sizes` of the buffer, such as 4K,1M")
	fl.IntVar(&b.runs, "runs", 5, "repeat so many times; figures are the medians")
	fl.VarP(&b.duration, "duration", "D", "`time` that each bandwidth is measured, in seconds or such as 500ms")
	fl.Var(&b.chunk, "chunk", "how much is pinned at a time when that is pipelined")
	fl.BoolVar(&b.json, "json", false, "write JSON")
	fl.StringVar(&b.svg, "svg", "", "draw the figures into `file`, as SVG")
	fl.StringVar(&b.png, "png", "", "draw the figures into `file`, as PNG")
	c.MarkFlagFilename("svg", "svg")
	c.MarkFlagFilename("png", "png")
	return leaf(c, func(c *cobra.Command, _ []string) error { return b.run(c) })
}

// config returns what the flags ask for.
func (b *benchRegistration) config() (cfg regbench.Config, err error) {
	if b.runs < 1 {
		return cfg, usagef("--runs is %d: it has to be 1 or more", b.runs)
	}
	if b.chunk < 1 {
		return cfg, usagef("--chunk is %d: it has to be 1 or more", b.chunk)
	}
	for _, text := range b.sizes {
		var n bytesize.Size
		if err := n.Set(text); err != nil {
			return cfg, usagef("--sizes: %w", err)
		}
		if n < 1 {
			return cfg, usagef("--sizes: a buffer has 1 byte or more, not %d", n)
		}
		cfg.Sizes = append(cfg.Sizes, int(n))
	}
	if len(cfg.Sizes) == 0 {
		return cfg, usagef("--sizes has no size")
	}
	cfg.Runs, cfg.Steady, cfg.Chunk = b.runs, time.Duration(b.duration), int(b.chunk)
	return cfg, nil
}

func (b *benchRegistration) run(c *cobra.Command) (err error) {
	cfg, err := b.config()
	if err != nil {
		return err
	}
	pictures, err := b.create()
	if err != nil {
		return err
	}
	dev, peer, done, err := b.open(c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer done()
	bench, err := regbench.New(dev, peer)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := bench.Close(); err == nil {
			err = cerr
		}
	}()
	line, began := newBarLine(c.ErrOrStderr()), time.Now()
	results, err := bench.Measure(c.Context(), cfg, func(at, total int, r *regbench.Result) {
		if line != nil {
			label := fmt.Sprintf("%s, %s", r.Mode, bytesize.Text(r.Size))
			line.show(func(width int) string {
				return barText(width, label, int64(at), int64(total), timeLeft(began, int64(at), int64(total)))
			})
		}
	})
	if line != nil {
		line.aside(func() {})
	}
	if err != nil {
		return err
	}
	for _, p := range pictures {
		if err := p.write(results); err != nil {
			return err
		}
	}
	if b.json {
		return writeJSON(c.OutOrStdout(), struct {
			Device  string            `json:"device"`
			Runs    int               `json:"runs"`
			Results []regbench.Result `json:"results"`
		}{dev.Name(), cfg.Runs, results})
	}
	return writeRegistration(c.OutOrStdout(), dev.Name(), cfg.Runs, results)
}

// picture is a file to draw into.
type picture struct {
	flag string
	file *os.File
	draw func(io.Writer, []regbench.Result) error
}

// create creates the files of pictures, before anything is measured for them.
func (b *benchRegistration) create() (list []*picture, err error) {
	for _, p := range []struct {
		name string
		picture
	}{{b.svg, picture{"--svg", nil, regbench.WriteSVG}}, {b.png, picture{"--png", nil, regbench.WritePNG}}} {
		if p.name == "" {
			continue
		}
		if p.file, err = os.Create(p.name); err != nil {
			return nil, usagef("%s: %w", p.flag, err)
		}
		list = append(list, &p.picture)
	}
	return list, nil
}

func (p *picture) write(results []regbench.Result) error {
	err := p.draw(p.file, results)
	if cerr := p.file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.flag, err)
	}
	return nil
}

// open opens both devices. done closes them.
func (b *benchRegistration) open(log io.Writer) (dev, peer *verbs.Device, done func(), err error) {
	names := []string{b.device.device}
	if b.device.kindOnly() {
		kind, options, err := b.device.kind()
		if err != nil {
			return nil, nil, nil, usage.Of(err)
		}
		if err := trustThisMachine(kind); err != nil {
			return nil, nil, nil, err
		}
		names = nil
		for _, addr := range loopbackPair() {
			names = append(names, kind.NameAt(addr).String()+options)
		}
	}
	var devices []*verbs.Device
	done = func() {
		for _, d := range devices {
			d.Close()
		}
	}
	for _, name := range names {
		d, _, err := openDevice(name, "", log)
		if err != nil {
			done()
			return nil, nil, nil, err
		}
		devices = append(devices, d)
	}
	return devices[0], devices[len(devices)-1], done, nil
}

// loopbackPair returns two addresses of this machine, or one on systems that have but one.
func loopbackPair() []string {
	if runtime.GOOS != "linux" {
		return []string{"127.0.0.1"}
	}
	a, b := perf.LoopbackAddress(), perf.LoopbackAddress()
	for a == b {
		b = perf.LoopbackAddress()
	}
	return []string{a.String(), b.String()}
}

// writeRegistration writes results for people.
func writeRegistration(w io.Writer, device string, runs int, results []regbench.Result) error {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Box.PaddingLeft, t.Style().Box.PaddingRight = "", "  "
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row{"buffer", "", "registered", "first 4 KiB", "all of it", "then", "present", "locked"})
	columns := []table.ColumnConfig{{Number: 1, Align: text.AlignRight, AlignHeader: text.AlignRight}}
	for n := 3; n <= 8; n++ {
		columns = append(columns, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	reasons := map[string]bool{}
	var notes []string
	for i, r := range results {
		size := bytesize.Text(r.Size)
		if i > 0 && results[i-1].Size == r.Size {
			size = ""
		}
		if len(r.Runs) == 0 {
			t.AppendRow(table.Row{size, r.Mode, "not measured"})
			if !reasons[r.Error] {
				reasons[r.Error] = true
				notes = append(notes, fmt.Sprintf("%s, %s: %s", bytesize.Text(r.Size), r.Mode, r.Error))
			}
			continue
		}
		m := &r.Median
		t.AppendRow(table.Row{size, r.Mode, shortTime(m.Register), shortTime(m.FirstByte), shortTime(m.Whole), bandwidthText(m.Bandwidth),
			held(m.Present), held(m.Locked)})
	}
	_, err := fmt.Fprintf(w, "READs into a buffer of %s that nobody has touched. Medians of %d runs. Times are from the start of registering.\n"+
		"Present is what is in memory when that ends, locked what cannot be paged out in the end.\n\n%s\n", device, runs, t.Render())
	if err == nil && len(notes) > 0 {
		_, err = fmt.Fprintf(w, "\nNot measured:\n%s\n", strings.Join(notes, "\n"))
	}
	return err
}

// held formats memory in whole KiB or MiB.
func held(n int) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", (n+1<<19)>>20)
	case n > 0:
		return fmt.Sprintf("%d KiB", (n+1023)>>10)
	}
	return "0"
}

// shortTime formats a time with three digits.
func shortTime(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if d < u.unit {
			continue
		}
		v := float64(d) / float64(u.unit)
		switch {
		case v >= 100:
			return fmt.Sprintf("%.0f %s", v, u.name)
		case v >= 10:
			return fmt.Sprintf("%.1f %s", v, u.name)
		}
		return fmt.Sprintf("%.2f %s", v, u.name)
	}
	return fmt.Sprintf("%d ns", d)
}
