// SPDX-License-Identifier: Apache-2.0

// Package fabriccmd is `ramjet fabric`: InfiniBand fabrics of adapters, switches and cables.
package fabriccmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/app/fabricconsole"
	"github.com/ramjet-rdma/ramjet/internal/app/fabriccontrol"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
)

// fabricFlags are the flags of `ramjet fabric`.
type fabricFlags struct {
	source    fabricSource
	cables    fabricCables
	name      string
	noManager bool
	manager   fabricManager
	seed      uint64
	ibsim     string
	script    string
	pcap      string
}

// New returns `ramjet fabric`.
func New() *cobra.Command {
	var f fabricFlags
	c := &cobra.Command{
		Use:   "fabric [TOPOLOGY]",
		Short: "Run an InfiniBand fabric: switches, adapters, cables and a subnet manager",
		Long: "Fabric runs an InfiniBand fabric in this process until it is interrupted. TOPOLOGY is a file written by\n" +
			"ibnetdiscover, or in ibsim's format; without it, a flag gives the fabric's shape. Other processes of the user open\n" +
			"its adapters as infiniband:NAME. On a terminal there is a console, where cables can be pulled, switches taken\n" +
			"down and packets corrupted; `help` lists its commands.",
		Example: "  ramjet fabric --fat-tree 4,2\n  ramjet fabric cluster.net --ibsim\n  ramjet fabric --fat-tree 4,2 --script failure.txt\n" +
			"  ramjet fabric show --svg fabric.svg",
		Args: cli.Arguments(0, 1),
	}
	f.source.add(c, false)
	c.Flags().IntVar(&f.source.spare, "spare", 0,
		"`number` of ports without a cable that each switch of a shape has, behind the others: for --join and for link in the console")
	f.cables.add(c)
	addFabricName(c, &f.name)
	c.Flags().BoolVar(&f.noManager, "no-manager", false, "leave the subnet to another manager, such as OpenSM")
	f.manager.add(c)
	c.Flags().Uint64Var(&f.seed, "seed", 0, "`number` that the random choice of packets to corrupt begins with")
	c.Flags().StringVar(&f.ibsim, "ibsim", "",
		"let programs with libumad2sim work on the fabric, as ibsim does; `NAME` of its socket")
	c.Flags().Lookup("ibsim").NoOptDefVal = "sim"
	c.Flags().StringVar(&f.script, "script", "",
		"run the console's commands in `file` (-: standard input), then end: status 1 if one fails")
	cli.AddPcapFlag(c, &f.pcap, "every packet at every cable")
	c.SuggestionsMinimumDistance = 2
	c.AddCommand(newFabricShowCmd(), newFabricDoCmd())
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			f.source.file = args[0]
			if s := c.SuggestionsFor(args[0]); len(s) > 0 && args[0] != "" {
				if _, err := os.Stat(args[0]); errors.Is(err, fs.ErrNotExist) {
					return cli.Usagef("there is no file %s: did you mean `%s %s`?", args[0], c.CommandPath(), s[0])
				}
			}
		}
		return f.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
	})
}

// addFabricName adds --name.
func addFabricName(c *cobra.Command, name *string) {
	c.Flags().StringVar(name, "name", "", "`name` that tells fabrics of this host apart; the default one has none")
}

// CheckFabricName refuses names that the name of a device could not have.
func CheckFabricName(name string) error {
	wrong := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' ||
			r == '.')
	}
	if len(name) > 64 || strings.ContainsFunc(name, wrong) {
		return cli.Usagef("--name %q: at most 64 letters, digits, dots, hyphens and underscores", name)
	}
	return nil
}

func (f *fabricFlags) run(ctx context.Context, out, log io.Writer) error {
	if err := CheckFabricName(f.name); err != nil {
		return err
	}
	manager, err := f.manager.options(f.noManager)
	if err != nil {
		return err
	}
	joins, err := f.cables.parse()
	if err != nil {
		return err
	}
	text, err := readScript(f.script)
	if err != nil {
		return usage.Of(err)
	}
	rec, err := cli.NewRecording(f.pcap, "fabric")
	if err != nil {
		return err
	}
	start := time.Now()
	events := newFabricLog(log)
	manager.Event = events.handle
	o := &infiniband.FabricOptions{NoManager: f.noManager, Manager: manager, Seed: f.seed, Host: f.cables.host,
		Spare: f.source.spare}
	if rec != nil {
		o.Trace = rec.Writer
	}
	fab, err := f.source.start(o)
	if err != nil {
		rec.Discard()
		return err
	}
	return errors.Join(f.serve(ctx, fab, joins, text, start, out, log, events), rec.Finish(log))
}

// serve runs a fabric until ctx ends, or its script.
func (f *fabricFlags) serve(ctx context.Context, fab *infiniband.Fabric, joins []fabricJoin, text string,
	start time.Time, out, log io.Writer, events *fabricLog) (err error) {
	defer fab.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := fab.Serve(ctx, f.name); err != nil {
		return usage.Of(err)
	}
	serveConsole(fab)
	if f.ibsim != "" {
		if err := fab.ServeIBSim(ctx, f.ibsim); err != nil {
			return usage.Of(err)
		}
	}
	if err := f.cables.connect(ctx, fab, joins, out); err != nil {
		return err
	}
	if err = f.announce(ctx, fab, start, out, log); err == nil {
		err = f.operate(ctx, fab, text, out, events)
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil // interrupting it is how a fabric ends
	}
	return err
}

// readScript reads the file of --script, if there is one.
func readScript(file string) (text string, err error) {
	var b []byte
	switch file {
	case "":
	case "-":
		b, err = io.ReadAll(io.LimitReader(os.Stdin, 1<<20))
	default:
		b, err = os.ReadFile(file)
	}
	return string(b), err
}

// settle is how long a fabric may take to come up before it is shown as it is. Large ones take seconds.
const settle = 30 * time.Second

// announce waits until the fabric is up, and writes a summary of it.
func (f *fabricFlags) announce(ctx context.Context, fab *infiniband.Fabric, start time.Time, out, log io.Writer) error {
	var took time.Duration
	if !f.noManager {
		wait, cancel := context.WithTimeout(ctx, settle)
		err := fab.AwaitActive(wait)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			fmt.Fprintf(log, "%v: are there parts that no cable leads to?\n", err)
		default:
			took = time.Since(start)
		}
	}
	return f.writeUp(out, fab, took)
}

// operate runs the topology's commands, then the script, or else the console, and otherwise waits for ctx to
// end.
func (f *fabricFlags) operate(ctx context.Context, fab *infiniband.Fabric, script string, out io.Writer,
	events *fabricLog) error {
	console := fabricconsole.New(fabriccontrol.New(fab), out)
	for _, do := range fab.Commands() {
		err := console.Line(ctx, do.Text)
		if errors.Is(err, fabricconsole.ErrQuit) {
			return nil
		}
		if err != nil {
			return &fabricconsole.Error{File: do.File, Line: do.Line, Err: err}
		}
	}
	switch {
	case f.script != "":
		return console.Script(ctx, f.script, script)
	case term.IsTerminal(int(os.Stdin.Fd())) && cli.IsTerminal(out):
		fmt.Fprintln(out, "\n`help` shows the commands, `quit` ends the fabric.")
		events.to(console.Tell)
		return console.Interact(ctx, os.Stdin)
	}
	<-ctx.Done()
	return ctx.Err()
}
