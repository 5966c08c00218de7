// SPDX-License-Identifier: Apache-2.0

// Package simcmd is `ramjet sim`: data centres in virtual time.
package simcmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/sim"
	"github.com/ramjet-rdma/ramjet/internal/app/sim/scenario"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
)

const simLong = `Sim runs hosts, Ethernet switches and their links in virtual time. The hosts have the transport
engine that ships, requester and responder, with its congestion controls. The scenario, a YAML
file, says what is simulated: the topology, how hosts and switches behave, and the traffic.
The scenario ` + "`-`" + ` is read from standard input.

With --print it writes the scenario with all defaults, and what each value means. Without a
scenario that is the default one, a good beginning for a file.

The same scenario and seed lead to the same output. Ctrl-C prints what is known so far.
docs/sim.md says what is simulated and how.`

// simFlags is `ramjet sim`.
type simFlags struct {
	print bool
	json  bool
	csv   string
	seed  uint64
	plots cli.PlotFiles

	packets simPackets
}

// New returns `ramjet sim`.
func New() *cobra.Command {
	f := &simFlags{}
	c := &cobra.Command{
		Use:     "sim [SCENARIO]",
		Short:   "Simulate congestion in data centres: many hosts, switches, the engine that ships",
		Long:    simLong,
		Example: "  ramjet sim --print > incast.yaml\n  ramjet sim incast.yaml\n  ramjet sim incast.yaml --csv results -o results.svg",
		Args:    cobra.MaximumNArgs(1),
	}
	fl := c.Flags()
	fl.BoolVar(&f.print, "print", false, "write the scenario with all defaults, and end")
	fl.BoolVar(&f.json, "json", false, "write JSON")
	fl.StringVar(&f.csv, "csv", "", "write flows, links and the trace as CSV into `folder`")

	fl.Uint64Var(&f.seed, "seed", 0, "`number` that the result follows from, instead of the scenario's")
	cli.AddPcapFlag(c, &f.packets.pcap, "the packets at --at")
	fl.StringVar(&f.packets.text, "packets", "", "write what happens to the packets at --at into `file`, a line each")
	c.MarkFlagFilename("packets")
	fl.StringArrayVar(&f.packets.at, "at", []string{"host 0"},
		"`node` or link whose packets are written: host 0, switch 1, \"switch 0 - switch 4\"")
	f.plots.Add(c)
	return cli.Leaf(c, func(c *cobra.Command, args []string) error { return f.run(c, args) })
}

func (f *simFlags) run(c *cobra.Command, args []string) error {
	s, err := f.scenario(c, args)
	if err != nil {
		return usage.Of(err)
	}
	if f.print {
		return s.Print(c.OutOrStdout())
	}
	if f.packets.pcap == "" && f.packets.text == "" && c.Flags().Changed("at") {
		return cli.Usagef("--at says whose packets are written: give --pcap or --packets, too")
	}
	world, err := s.Build()
	if err != nil {
		return usage.Of(err)
	}
	if err := f.plots.Open(); err != nil {
		return err
	}
	defer f.plots.Discard()
	if f.csv != "" {
		if err := os.MkdirAll(f.csv, 0o777); err != nil {
			return cli.Usagef("--csv: %w", err)
		}
	}
	if err := f.packets.open(world); err != nil {
		return err
	}
	stopped := simulate(c.Context(), world, cli.NewBarLine(c.ErrOrStderr()), time.Now)
	closed := f.packets.close(c.ErrOrStderr())
	if stopped != nil && !errors.Is(stopped, context.Canceled) {
		return stopped
	}
	return errors.Join(f.write(c.OutOrStdout(), c.ErrOrStderr(), world), closed, stopped)
}

// scenario reads the scenario.
func (f *simFlags) scenario(c *cobra.Command, args []string) (s *scenario.File, err error) {
	switch {
	case len(args) == 0 && f.print:
		s = scenario.Default()
	case len(args) == 0:
		return nil, errors.New("give a scenario: `ramjet sim --print` writes one to begin with")
	case args[0] == "-":
		s, err = scenario.Read(c.InOrStdin(), "standard input", ".")
	default:
		var in *os.File
		if in, err = os.Open(args[0]); err != nil {
			return nil, err
		}
		defer in.Close()
		s, err = scenario.Read(in, args[0], filepath.Dir(args[0]))
	}
	if err == nil && c.Flags().Changed("seed") {
		s.Seed = f.seed
	}
	return s, err
}

// simStep is how many events happen between two looks at the clock.
const simStep = 20_000

// simulate runs a simulation to its end, or until ctx is done. A line, unless it is nil, shows how far it is. clock is
// time.Now.
func simulate(ctx context.Context, s *sim.Sim, line *cli.BarLine, clock func() time.Time) error {
	if line != nil {
		defer line.Aside(func() {})
	}
	began := clock()
	shown := began
	for {
		more, err := s.Run(simStep)
		if err != nil || !more {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if now := clock(); line != nil && now.Sub(shown) >= cli.BarPause {
			shown = now
			line.Show(func(width int) string { return simBar(width, s, now.Sub(began)) })
		}
	}
}

// simBar says how far a simulation is that has run for so long.
func simBar(width int, s *sim.Sim, took time.Duration) string {
	const whole = 1 << 20
	done := int64(s.Progress() * whole)
	return cli.BarText(width, units.Duration(s.Now().Duration()), done, whole,
		units.Short(float64(s.Events)/took.Seconds())+" events/s", cli.TimeLeft(took, done, whole))
}
