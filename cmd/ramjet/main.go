// SPDX-License-Identifier: Apache-2.0

// Command ramjet shows, measures and tries out RDMA in user space.
//
// A command is a package below internal: democmd is `ramjet demo`. It has its flags and its output; its application is
// a package below internal/app. Package cli has the parts that commands share. Here is the tree of all commands:
//
//	main.go      the tree, and how the program ends
//	complete*.go completion in shells: which values flags and arguments are offered
//	man.go       pages of the manual
//	programs.go  commands that start the programs of other modules
//
// Tests here run the program as a user would. Tests of a command's own functions are beside them.
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

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/benchcmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cpcmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/dashcmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/democmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/devicescmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/doctorcmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/explaincmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/fabriccmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/faultcmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/laddercmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/perfcmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/pingcmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/pingpongcmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/pipecmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/runcmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/simcmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/statcmd"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/topcmd"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
)

func main() {
	if filepath.Base(os.Args[0]) == filepath.Base(runcmd.RDMATool) {
		if err := runcmd.RDMA(os.Args[1:], os.Getenv(runcmd.SysfsVariable), os.Stdout, os.Stderr); err != nil {
			fmt.Fprintf(os.Stderr, "rdma: %v\n", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	out, errs := cli.NewOutput(os.Stdout), cli.NewOutput(os.Stderr)
	root := newRootCmd(out)
	if errs.ASCII {
		root.SetErr(errs)
	}
	c, err := root.ExecuteContextC(ctx)
	if lost := out.Failure(); lost != nil && !errors.Is(err, context.Canceled) {
		err = cli.Failed(lost)
	}
	if err == nil {
		return
	}
	if errors.As(err, new(cli.Exited)) {
		os.Exit(cli.ExitStatus(err))
	}
	if errors.Is(err, context.Canceled) { // by a signal to this process, or just before to its second process
		fmt.Fprintf(os.Stderr, "%s: interrupted\n", c.CommandPath())
		os.Exit(cli.ExitInterrupted)
	}
	hint := ""
	if cli.IsUsage(err) && !errors.As(err, new(usage.Error)) { // cobra's own error, without a remedy
		hint = fmt.Sprintf(": `%s --help` shows what it takes", c.CommandPath())
	}
	fmt.Fprintf(os.Stderr, "%s: %s%s\n", c.CommandPath(), strings.TrimPrefix(err.Error(), "ramjet: "), hint)
	os.Exit(cli.ExitStatus(err))
}

// newRootCmd returns the tree of commands, which write to out.
func newRootCmd(out io.Writer) *cobra.Command {
	root := cli.Group("ramjet", "RDMA verbs in user space: no root, no kernel module, no NIC")
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Version = softdev.Version()
	root.SetOut(out)
	root.AddCommand(devicescmd.New(), democmd.New(), democmd.NewPeer(), pingpongcmd.New(), perfcmd.New(),
		benchcmd.New(), pingcmd.New(),
		statcmd.New(), topcmd.New(), dashcmd.NewDash(), dashcmd.NewExport(), explaincmd.New(), laddercmd.New(),
		cpcmd.NewCp(), cpcmd.NewLs(), cpcmd.NewServe(), pipecmd.New(), runcmd.New(), fabriccmd.New(), faultcmd.New(),
		simcmd.New(), doctorcmd.New(), newManCmd())
	root.AddCommand(newProgramCmds()...)
	root.AddCommand(runcmd.Helpers()...)
	cli.AddTLSFlags(root)
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetHelpCommand(newHelpCmd())
	cli.FoldHelp(root)
	root.InitDefaultCompletionCmd()
	addCompletions(root)
	for _, c := range root.Commands() {
		if c.Name() == "completion" { // cobra's succeeds with its help for an unknown shell
			c.Args, c.RunE, c.SuggestionsMinimumDistance = cobra.ArbitraryArgs, root.RunE,
				root.SuggestionsMinimumDistance
		}
	}
	return root
}

// newHelpCmd is cobra's help command, but an unknown command is an error.
func newHelpCmd() *cobra.Command {
	return cli.Leaf(&cobra.Command{Use: "help [COMMAND...]", Short: "Show what a command does and takes",
		ValidArgsFunction: completeCommands},
		func(c *cobra.Command, args []string) error {
			of, rest, err := c.Root().Find(args)
			if err != nil {
				return usage.Of(err)
			}
			if len(rest) > 0 && of.HasSubCommands() {
				return cli.UnknownCommand(of, rest[0])
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		})
}
