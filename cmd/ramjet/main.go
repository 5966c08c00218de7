// SPDX-License-Identifier: Apache-2.0

// Command ramjet shows, measures and tries out RDMA in user space.
//
// The files of a command begin with its name: demo.go and demo_report.go are `ramjet demo`. They have its
// flags and its output. What its two sides say to each other is a package of its own below internal/app.
// rdma.go is not a command of this program, but what `ramjet run` shows to its programs as rdma.
//
//	command.go         groups and leaves of the tree of commands, exit statuses
//	flags*.go          flags that several commands have: the device, recordings, certificates, ports, times,
//	                   files for plots
//	connect_errors.go  why there is no connection, and what to do about it
//	output.go          standard output, and whether it is a terminal
//	ascii.go           terminals without UTF-8
//	progress.go        the line at the bottom of a terminal
//	complete*.go       completion in shells: which values flags and arguments are offered
//	help.go            help that fits 80 columns
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
)

func main() {
	if filepath.Base(os.Args[0]) == filepath.Base(rdmaTool) {
		if err := rdma(os.Args[1:], os.Getenv(sysfsVariable), os.Stdout, os.Stderr); err != nil {
			fmt.Fprintf(os.Stderr, "rdma: %v\n", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	out, errs := newOutput(os.Stdout), newOutput(os.Stderr)
	root := newRootCmd(out)
	if errs.ascii {
		root.SetErr(errs)
	}
	c, err := root.ExecuteContextC(ctx)
	if lost := out.failure(); lost != nil && !errors.Is(err, context.Canceled) {
		err = failed(lost)
	}
	if err == nil {
		return
	}
	if errors.Is(err, context.Canceled) { // by a signal to this process, or just before to its second process
		fmt.Fprintf(os.Stderr, "%s: interrupted\n", c.CommandPath())
		os.Exit(exitInterrupted)
	}
	hint := ""
	if isUsage(err) && !errors.As(err, new(usage.Error)) { // cobra's own error, which does not say what to do
		hint = fmt.Sprintf(": `%s --help` shows what it takes", c.CommandPath())
	}
	fmt.Fprintf(os.Stderr, "%s: %s%s\n", c.CommandPath(), strings.TrimPrefix(err.Error(), "ramjet: "), hint)
	os.Exit(exitStatus(err))
}

// newRootCmd returns the tree of commands, which write to out.
func newRootCmd(out io.Writer) *cobra.Command {
	root := group("ramjet", "RDMA verbs in user space: no root, no kernel module, no NIC")
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Version = softdev.Version()
	root.SetOut(out)
	root.AddCommand(newDevicesCmd(), newDemoCmd(), newDemoPeerCmd(), newPingpongCmd(), newPerfCmd(), newBenchCmd(), newPingCmd(),
		newStatCmd(), newTopCmd(), newDashCmd(), newExportCmd(), newExplainCmd(), newLadderCmd(), newCpCmd(), newLsCmd(), newServeCmd(), newPipeCmd(), newRunCmd(), newFabricCmd(), newFaultCmd(), newSimCmd(), newDoctorCmd(), newManCmd())
	root.AddCommand(newProgramCmds()...)
	root.AddCommand(runHelpers()...)
	addTLSFlags(root)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelpCmd())
	foldHelp(root)
	root.InitDefaultCompletionCmd()
	addCompletions(root)
	for _, c := range root.Commands() {
		if c.Name() == "completion" { // cobra's succeeds with its help for an unknown shell
			c.Args, c.RunE, c.SuggestionsMinimumDistance = cobra.ArbitraryArgs, root.RunE, root.SuggestionsMinimumDistance
		}
	}
	return root
}

// newHelpCmd is cobra's help command, but an unknown command is an error.
func newHelpCmd() *cobra.Command {
	return leaf(&cobra.Command{Use: "help [COMMAND...]", Short: "Show what a command does and takes", ValidArgsFunction: completeCommands},
		func(c *cobra.Command, args []string) error {
			of, rest, err := c.Root().Find(args)
			if err != nil {
				return usage.Of(err)
			}
			if len(rest) > 0 && of.HasSubCommands() {
				return unknownCommand(of, rest[0])
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		})
}
