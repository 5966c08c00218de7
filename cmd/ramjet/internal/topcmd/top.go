// SPDX-License-Identifier: Apache-2.0

// Package topcmd is `ramjet top`: traffic of running processes, on a screen.
package topcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/statcmd"
	"github.com/ramjet-rdma/ramjet/internal/app/live"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
)

const (
	// topSamples is how many samples of each queue pair are kept, and graphs show at most.
	topSamples = 180
	// topLinger is for how long gone objects are shown.
	topLinger = 30 * time.Second
	// topLeast is the shortest interval: a process that is read rests for about as long.
	topLeast = 100 * time.Millisecond
)

// topCommand is `ramjet top`.
type topCommand struct {
	every time.Duration
	sort  string
}

// New returns `ramjet top`.
func New() *cobra.Command {
	t := &topCommand{every: time.Second, sort: topSorts[0].name}
	c := &cobra.Command{
		Use:   "top [PID...]",
		Short: "Watch the queue pairs of processes that have devices open",
		Long: "Watch the queue pairs and devices that `ramjet stat` shows, live in a terminal: rates, sorted, with graphs. Press Enter\n" +
			"on a queue pair for its history, ? for all keys. Root sees the processes of all users.",
		Example: "  ramjet top\n  ramjet top --sort retransmissions --interval 500ms\n  ramjet top 4242",
	}
	c.Flags().Var((*cli.WaitTime)(&t.every), "interval", "`time` between two reads")
	c.Flags().StringVar(&t.sort, "sort", t.sort,
		"sort rows by this `column`, the largest first: "+strings.Join(SortNames(), ", "))
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		pids, err := t.parse(args)
		if err != nil {
			return err
		}
		return t.run(c.Context(), pids, c.OutOrStdout())
	})
}

// parse parses the arguments, which are process ids, and checks flags against the known names.
func (t *topCommand) parse(args []string) (pids []int, err error) {
	if topSortNamed(t.sort) == nil {
		return nil, cli.Usagef("--sort %s: %s", t.sort, cli.DidYouMean(t.sort, SortNames()))
	}
	if t.every < topLeast {
		return nil, cli.Usagef("--interval %v: the shortest is %v", t.every, topLeast)
	}
	for _, a := range args {
		pid, err := cli.ProcessID(a)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// run watches until the user has enough, or ctx has ended.
func (t *topCommand) run(ctx context.Context, pids []int, out io.Writer) error {
	if !cli.IsTerminal(out) || !term.IsTerminal(int(os.Stdin.Fd())) || os.Getenv("TERM") == "dumb" {
		return errors.New("standard output is no terminal: `ramjet stat --watch` shows the same anywhere")
	}
	read := func() ([]statsocket.Process, error) { return cli.ReadProcesses(ctx, pids) }
	first, err := read() // arguments that can never work, or name no process, end it before the screen is taken
	if err != nil {
		return err
	}
	m := newTopModel(read, t.every, topSortNamed(t.sort))
	m.pids, m.levels = len(pids), graphLevelsHere()
	m.take(topRead{found: first, at: time.Now()})
	_, err = tea.NewProgram(m, tea.WithContext(ctx), tea.WithOutput(cli.FileOf(out)), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// topRead is a message with the processes that were read.
type topRead struct {
	found []statsocket.Process
	err   error
	at    time.Time
}

// topDue is a message: it is time to read again.
type topDue struct{}

func (m *topModel) readCmd() tea.Msg {
	found, err := m.read()
	return topRead{found, err, time.Now()}
}

// take takes the processes that were read.
func (m *topModel) take(r topRead) {
	m.problem = ""
	if m.pids > 0 && errors.As(r.err, new(cli.NoProcessError)) {
		r.err = nil // one of the processes has ended, and the others were read
	}
	if r.err != nil {
		m.problem = r.err.Error()
		return
	}
	m.at = r.at
	m.tracker.Update(r.at, r.found)
	m.sum = m.tracker.Sum(r.at)
	if m.sum.Over > 0 {
		m.all.Add(m.sum, topSamples)
	}
	for _, p := range m.tracker.Processes() {
		if p.Err != nil && p.Gone.IsZero() {
			m.problem = fmt.Sprintf("pid %d%s cannot be read: %v", p.PID, statcmd.CommOf(p.Command), p.Err)
		}
	}
	m.arrange()
}

// newTopModel returns a model that reads with read.
func newTopModel(read func() ([]statsocket.Process, error), every time.Duration, sort *topSort) *topModel {
	return &topModel{read: read, every: every, tracker: live.NewTracker(topSamples, topLinger), sort: sort,
		levels: blockLevels, width: cli.StandardWidth, height: standardHeight}
}
