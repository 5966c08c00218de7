// SPDX-License-Identifier: Apache-2.0

package benchcmd

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/regbench"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// benchRegistration measures the cost of registering memory.
type benchRegistration struct {
	device   cli.DeviceFlags
	sizes    []string
	runs     int
	duration cli.WaitTime
	chunk    units.Bytesize
	json     bool
	plots    cli.PlotFiles
}

// registrationSizes are the sizes if no others are given.
var registrationSizes = []string{"4K", "16K", "64K", "256K", "1M", "4M", "16M", "64M", "256M", "1G"}

func newBenchRegistrationCmd() *cobra.Command {
	b := &benchRegistration{duration: cli.WaitTime(100 * time.Millisecond), chunk: verbs.DefaultChunk}
	c := &cobra.Command{Use: "registration", Short: "Compare the ways of registering memory by what they cost",
		Args:    cli.NoArgs,
		Example: "  ramjet bench registration\n  ramjet bench registration -s 64K,16M --runs 3 -o registration.svg",
		Long: "Register an untouched buffer, READ into it from another device of this process, and measure the time until it is\n" +
			"registered, until the first 4 KiB have arrived and until all of it has; then the bandwidth of later READs into the\n" +
			"same buffer, and the memory used. Figures are medians. docs/memory.md describes the ways of registering memory.\n" +
			"Sizes beyond what this process may pin (ulimit -l) are left out, and the table says so."}
	fl := c.Flags()
	fl.StringVarP(&b.device.Device, "device", "d", "",
		"`device` to open, which is then its own peer, or a kind such as iwarp: (default: that of $"+
			kinds.DeviceVariable+", or RoCEv2 on loopback addresses)")
	cli.AddPcapFlag(c, &b.device.PCAP, cli.EveryPacket)
	fl.StringSliceVarP(&b.sizes, "sizes", "s", registrationSizes, "`sizes` of the buffer, such as 4K,1M")
	fl.IntVar(&b.runs, "runs", 5, "`number` of runs; figures are their medians")
	fl.VarP(&b.duration, "duration", "D", "`time` to measure each bandwidth for, such as 500ms")
	fl.Var(&b.chunk, "chunk", "how many `bytes` are pinned at a time when pinning is pipelined")
	fl.BoolVar(&b.json, "json", false, "write JSON")
	b.plots.Add(c)
	return cli.Leaf(c, func(c *cobra.Command, _ []string) error { return b.run(c) })
}

// config returns the configuration that the flags ask for.
func (b *benchRegistration) config() (cfg regbench.Config, err error) {
	if b.runs < 1 {
		return cfg, cli.Usagef("--runs is %d: it has to be 1 or more", b.runs)
	}
	if b.chunk < 1 {
		return cfg, cli.Usagef("--chunk is %d: it has to be 1 or more", b.chunk)
	}
	for _, text := range b.sizes {
		var n units.Bytesize
		if err := n.Set(text); err != nil {
			return cfg, cli.Usagef("--sizes: %w", err)
		}
		if n < 1 {
			return cfg, cli.Usagef("--sizes: a buffer has 1 byte or more, not %d", n)
		}
		cfg.Sizes = append(cfg.Sizes, int(n))
	}
	if len(cfg.Sizes) == 0 {
		return cfg, cli.Usagef("--sizes has no size")
	}
	cfg.Runs, cfg.Steady, cfg.Chunk = b.runs, time.Duration(b.duration), int(b.chunk)
	return cfg, nil
}

func (b *benchRegistration) run(c *cobra.Command) (err error) {
	cfg, err := b.config()
	if err != nil {
		return err
	}
	if err := b.plots.Open(); err != nil {
		return err
	}
	defer b.plots.Discard()
	dev, peer, done, err := b.open(c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() {
		if derr := done(); err == nil {
			err = derr
		}
	}()
	bench, err := regbench.New(dev, peer)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := bench.Close(); err == nil {
			err = cerr
		}
	}()
	line, began := cli.NewBarLine(c.ErrOrStderr()), time.Now()
	results, err := bench.Measure(c.Context(), cfg, func(at, total int, r *regbench.Result) {
		if line != nil {
			label, left := fmt.Sprintf("%s, %s", r.Mode, units.Size(r.Size)),
				cli.TimeLeft(time.Since(began), int64(at), int64(total))
			line.Show(func(width int) string { return cli.BarText(width, label, int64(at), int64(total), left) })
		}
	})
	if line != nil {
		line.Aside(func() {})
	}
	if err != nil {
		return err
	}
	if err := b.plots.Write(registrationCharts(results)...); err != nil {
		return err
	}
	if b.json {
		return cli.WriteJSON(c.OutOrStdout(), struct {
			Runs    int               `json:"runs"`
			Results []regbench.Result `json:"results"`
		}{cfg.Runs, results}, dev.Name())
	}
	return writeRegistration(c.OutOrStdout(), dev.Name(), cfg.Runs, results)
}

// open opens both devices, or a device that is its own peer. done closes them, and the recording.
func (b *benchRegistration) open(log io.Writer) (dev, peer *verbs.Device, done func() error, err error) {
	if !b.device.KindOnly() {
		dev, done, err = cli.OpenDevice(b.device.Device, b.device.PCAP, log)
		return dev, dev, done, err
	}
	kind, options, err := b.device.Kind()
	if err != nil {
		return nil, nil, nil, usage.Of(err)
	}
	if options != "" {
		return nil, nil, nil, cli.Usagef("--device %s: options need an address", b.device.Device)
	}
	if err := cli.TrustThisMachine(kind); err != nil {
		return nil, nil, nil, err
	}
	devices, done, err := openSpare(kind, 2, b.device.PCAP, log)
	if err != nil {
		return nil, nil, nil, err
	}
	return devices[0], devices[1], done, nil
}
