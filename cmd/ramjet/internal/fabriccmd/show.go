// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/app/fabricconsole"
	"github.com/ramjet-rdma/ramjet/internal/app/fabriccontrol"
	"github.com/ramjet-rdma/ramjet/internal/app/fabricview"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
)

// fabricShow is `ramjet fabric show`.
type fabricShow struct {
	source   fabricSource
	name     string
	svg      string
	route    string
	asJSON   bool
	interval time.Duration // of measuring
}

func newFabricShowCmd() *cobra.Command {
	var f fabricShow
	c := &cobra.Command{
		Use:   "show [NODE | FILE]",
		Short: "Draw a fabric: nodes, ports, states, LIDs, loads, the route between two adapters",
		Long: "Show draws the fabric that `ramjet fabric` runs, as text or as a picture. With --topology or a shape it draws one\n" +
			"that is not running, and so does a file in place of a node. With the name of a node it shows that node, with the\n" +
			"traffic, waits and counters of its ports.",
		Example: "  ramjet fabric show\n  ramjet fabric show --route host-1,host-8\n  ramjet fabric show leaf-1\n" +
			"  ramjet fabric show cluster.net --svg cluster.svg",
		Args: cli.Arguments(0, 1),
	}
	f.source.add(c, true)
	addFabricName(c, &f.name)
	c.Flags().StringVarP(&f.svg, "output", "o", "",
		"draw the fabric into `file`, as SVG, and the route if one is asked for")
	c.Flags().StringVar(&f.svg, "svg", "", "the same as --output `file`")
	c.MarkFlagFilename("output", "svg")
	c.MarkFlagFilename("svg", "svg")
	c.MarkFlagsMutuallyExclusive("output", "svg")
	c.Flags().StringVar(&f.route, "route", "",
		"the way of packets from one adapter or port to another, `A,B`: names, IP addresses or LIDs")
	f.interval = time.Second
	c.Flags().Var((*cli.WaitTime)(&f.interval), "interval", "measure traffic for this `time`")
	c.Flags().BoolVar(&f.asJSON, "json", false, "the fabric, or the node, as JSON")
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		node := ""
		if len(args) > 0 {
			node = args[0]
		}
		if f.isFile(node) {
			f.source.file, node = node, ""
		}
		return f.run(c.Context(), c.OutOrStdout(), node)
	})
}

// isFile says whether an argument is a topology file, and not a node of a fabric that runs.
func (f *fabricShow) isFile(name string) bool {
	if name == "" || f.source.named() {
		return false
	}
	if strings.ContainsAny(name, "/.") { // which a node's name has seldom, and a file's nearly always
		info, err := os.Stat(name)
		return err != nil || !info.IsDir()
	}
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	v, err := infiniband.View(f.name)
	if err != nil {
		return true
	}
	for i := range v.Nodes {
		if v.Nodes[i].Name == name {
			return false
		}
	}
	return true
}

func (f *fabricShow) run(ctx context.Context, out io.Writer, node string) error {
	if err := CheckFabricName(f.name); err != nil {
		return err
	}
	if node != "" && (f.svg != "" || f.route != "") {
		return cli.Usagef("%q: --svg and --route are of the whole fabric: leave the node out", node)
	}
	if f.svg != "" && strings.ToLower(filepath.Ext(f.svg)) != ".svg" {
		return cli.Usagef("-o %q: give a name that ends in .svg", f.svg)
	}
	if f.interval > time.Hour {
		return cli.Usagef("--interval %v: give at most an hour", f.interval)
	}
	v, err := f.view(ctx)
	if err != nil {
		return err
	}
	if node != "" {
		n, err := fabricconsole.FindNode(v, node)
		if err != nil {
			return usage.Of(err)
		}
		if f.asJSON {
			return cli.WriteJSON(out, struct {
				Node *fabricview.Node `json:"node"`
			}{n})
		}
		return v.WriteNode(out, n.Name)
	}
	if f.svg != "" {
		if err := drawFabric(f.svg, v); err != nil {
			return err
		}
	}
	switch {
	case f.asJSON:
		return cli.WriteJSON(out, v)
	case f.svg != "":
		return nil
	case v.Route != nil:
		return v.WriteRoute(out, v.Route)
	}
	return v.WriteText(out)
}

// view returns the view to show, with the route.
func (f *fabricShow) view(ctx context.Context) (*fabricview.View, error) {
	if f.source.named() {
		if f.route != "" {
			return nil, cli.Usagef("--route: a fabric that does not run has no routes: run it with `ramjet fabric`, whose subnet manager makes them")
		}
		return f.source.plan()
	}
	from, to, ok := strings.Cut(f.route, ",")
	if f.route != "" && (!ok || from == "" || to == "") {
		return nil, cli.Usagef("--route %q: give two adapters, such as host-1,host-2", f.route)
	}
	v, err := fabriccontrol.Remote(ctx, f.name, f.interval)
	if err != nil {
		return nil, usage.Of(err)
	}
	if f.route == "" {
		return v, nil
	}
	a, err := fabricconsole.FindPort(v, from)
	if err != nil {
		return nil, cli.Usagef("--route: %w", err)
	}
	b, err := fabricconsole.FindPort(v, to)
	if err != nil {
		return nil, cli.Usagef("--route: %w", err)
	}
	v.Route, err = fabriccontrol.RemoteRoute(f.name, v, a, b)
	return v, err
}

// drawFabric writes a picture into a file.
func drawFabric(file string, v *fabricview.View) error {
	w, err := os.Create(file)
	if err != nil {
		return usage.Of(err)
	}
	err = v.WriteSVG(w)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}
