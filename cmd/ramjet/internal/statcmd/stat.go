// SPDX-License-Identifier: Apache-2.0

// Package statcmd is `ramjet stat`: devices and objects of running processes.
package statcmd

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
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
)

// View is a view of processes, for `ramjet stat`.
type View struct {
	Name, Text string
	write      func(*statOutput, *statDevice)
}

// Views has all views. The first is the default.
var Views = []View{
	{"summary", "ports, numbers of objects, and the first queue pairs", (*statOutput).summary},
	{"link", "ports, as rdma link", (*statOutput).link},
	{"resource", "numbers of objects, as rdma resource", (*statOutput).resource},
	{"qp", "queue pairs: state, peer, queues, window, round trip", (*statOutput).qps},
	{"cq", "completion queues, and completions that wait", (*statOutput).cqs},
	{"mr", "memory regions and what their keys allow", (*statOutput).mrs},
	{"mw", "memory windows and what they are bound to", (*statOutput).mws},
	{"srq", "shared receive queues", (*statOutput).srqs},
	{"ah", "address handles and where they lead", (*statOutput).ahs},
	{"cm_id", "connections and listeners", (*statOutput).conns},
	{"statistic", "what was sent, received and retransmitted, and what devices count", (*statOutput).statistic},
}

// statCommand is `ramjet stat`.
type statCommand struct {
	view  View
	json  bool
	every time.Duration // 0: once
}

// New returns `ramjet stat`.
func New() *cobra.Command {
	s := &statCommand{view: Views[0]}
	var views strings.Builder
	for _, v := range Views {
		fmt.Fprintf(&views, "  %-10s %s\n", v.Name, v.Text)
	}
	c := &cobra.Command{
		Use:   "stat [VIEW] [PID...]",
		Short: "Show the state of processes that have devices open",
		Long: "Show the live state of every process of this user that has a Ramjet device open, or of those with the given\n" +
			"ids. Root sees the processes of all users. C programs of ramjet run are seen, too.\n\nViews:\n" +
			views.String(),
		Example: "  ramjet stat\n  ramjet stat qp --watch\n  ramjet stat statistic 4242\n  ramjet stat --json",
	}
	c.Flags().BoolVar(&s.json, "json", false, "write everything as JSON; with --watch one line each time")
	c.Flags().Var((*cli.WaitTime)(&s.every), "watch", "show it repeatedly, with this `time` in between")
	c.Flags().Lookup("watch").NoOptDefVal = "1s"
	c.Flags().Lookup("watch").DefValue = "0s"
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		pids, err := s.parse(args)
		if err != nil {
			return err
		}
		return s.run(c.Context(), pids, c.OutOrStdout(), c.ErrOrStderr())
	})
}

// parse takes apart the arguments: process ids, and a view.
func (s *statCommand) parse(args []string) (pids []int, err error) {
	chosen := false
	for _, a := range args {
		if a != "" && strings.Trim(a, "0123456789") == "" {
			pid, err := cli.ProcessID(a)
			if err != nil {
				return nil, err
			}
			pids = append(pids, pid)
			continue
		}
		i := slices.IndexFunc(Views, func(v View) bool { return v.Name == a })
		switch {
		case i < 0 && s.every != 0 && new(cli.WaitTime).Set(a) == nil:
			return nil, cli.Usagef("%s is not a view: write --watch=%s", a, a)
		case i < 0:
			return nil, cli.Usagef("there is no view %q: %s", a, cli.DidYouMean(a, ViewNames()))
		case chosen:
			return nil, cli.Usagef("%s and %s: show one view at a time", s.view.Name, a)
		}
		s.view, chosen = Views[i], true
	}
	if s.json && chosen {
		return nil, cli.Usagef("--json shows everything: leave out %s", s.view.Name)
	}
	return pids, nil
}

func ViewNames() (names []string) {
	for _, v := range Views {
		names = append(names, v.Name)
	}
	return names
}

// run shows processes once, or until ctx has ended. With ids it ends when none of their processes is there.
func (s *statCommand) run(ctx context.Context, pids []int, out, log io.Writer) error {
	for {
		shown, err := s.show(ctx, pids, out, log)
		if s.every == 0 || shown == 0 && errors.As(err, new(cli.NoProcessError)) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(log, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.every):
		}
	}
}

// show shows processes once, and returns how many. It shows present processes even if others do not exist.
func (s *statCommand) show(ctx context.Context, pids []int, out, log io.Writer) (int, error) {
	found, failed := cli.ReadProcesses(ctx, pids)
	if failed != nil && len(found) == 0 {
		return 0, failed
	}
	if failed == nil && len(pids) > 0 {
		failed = unread(found)
	}
	kernel := kernelLinks()
	if s.json {
		return len(found), errors.Join(s.writeJSON(out, found, kernel), failed)
	}
	o := &statOutput{}
	o.width, o.color = cli.TableStyle(out)
	if s.every != 0 && cli.IsTerminal(out) {
		o.b.WriteString("\x1b[H\x1b[2J") // top left, and an empty screen
	}
	if s.every != 0 {
		fmt.Fprintf(&o.b, "%s every %s\n\n", time.Now().Format(time.TimeOnly), units.Period(s.every))
	}
	if len(found) == 0 {
		fmt.Fprintf(log, "%s has a Ramjet device open here\n", cli.NoProcess())
	}
	for i := range found {
		o.process(&found[i], s.view)
	}
	if s.view.Name == "link" || s.view.Name == "summary" {
		o.kernel(kernel)
	}
	_, err := out.Write(o.styled())
	return len(found), errors.Join(err, failed)
}

// unread returns an error if one of the processes could not be read.
func unread(found []statsocket.Process) error {
	for i := range found {
		if p := &found[i]; p.Err != nil {
			return fmt.Errorf("process %d cannot be read: %w", p.PID, p.Err)
		}
	}
	return nil
}
