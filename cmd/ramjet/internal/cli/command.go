// SPDX-License-Identifier: Apache-2.0

// Package cli has the parts that the commands of ramjet share: the tree of commands, their flags, their output.
//
//	command.go         groups and leaves of the tree of commands, exit statuses
//	flags*.go          flags that several commands have: the device, recordings, certificates, ports, times,
//	                   files for plots, faults
//	connect_errors.go  why there is no connection, and what to do about it
//	output.go          standard output, and whether it is a terminal
//	ascii.go           terminals without UTF-8
//	progress.go        the line at the bottom of a terminal
//	help.go            help that fits 80 columns
//	text.go            numbers and addresses
//	processes.go       processes that have devices open
package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// Exit statuses.
const (
	ExitFailed      = 1   // the command ran and failed
	ExitUsage       = 2   // the command line cannot be carried out
	ExitInterrupted = 130 // 128 + SIGINT, as in shells
)

// runError is an error after the command line was accepted.
type runError struct{ error }

func (e runError) Unwrap() error { return e.error }

// Failed marks an error that came after the command line was accepted.
func Failed(err error) error { return runError{err} }

// Usagef makes a usage error that a command noticed while it ran.
func Usagef(format string, a ...any) error { return usage.Errorf(format, a...) }

// IsUsage reports whether an error of Execute is a usage error.
func IsUsage(err error) bool {
	return errors.As(err, new(usage.Error)) || !errors.As(err, new(runError))
}

// Exited is the exit status of a program that the command has started, and that has reported its error itself.
type Exited int

func (e Exited) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// ExitStatus returns the exit status for the result of Execute.
func ExitStatus(err error) int {
	var program Exited
	switch {
	case err == nil:
		return 0
	case errors.As(err, &program):
		return int(program)
	case IsUsage(err):
		return ExitUsage
	}
	return ExitFailed
}

// Group returns a command that has only subcommands.
func Group(use, short string, subs ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs}
	g.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return UnknownCommand(c, args[0])
	}
	g.SuggestionsMinimumDistance = 2
	g.AddCommand(subs...)
	return g
}

// UnknownCommand says in one line that c has no such subcommand, and suggests one.
func UnknownCommand(c *cobra.Command, name string) error {
	if s := c.SuggestionsFor(name); len(s) > 0 {
		return Usagef("unknown command %q: did you mean %s?", name, strings.Join(s, " or "))
	}
	return Usagef("unknown command %q: `%s --help` lists them", name, c.CommandPath())
}

// Leaf returns a command that does something. Errors before run are usage errors. Errors of run are
// not, except a usage.Error. Without --device the environment names the device.
func Leaf(c *cobra.Command, run func(c *cobra.Command, args []string) error) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		named, err := deviceFromEnvironment(c)
		if err != nil {
			return Failed(err)
		}
		err = run(c, args)
		if named && errors.As(err, new(usage.Error)) {
			err = fmt.Errorf("%w (%s=%s stands for --device)", err, kinds.DeviceVariable,
				os.Getenv(kinds.DeviceVariable))
		}
		if err != nil {
			return Failed(err)
		}
		return nil
	}
	return c
}

// Arguments is for commands that take from least to most arguments; most below 0 is any number.
func Arguments(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		use := strings.TrimSuffix(c.UseLine(), " [flags]")
		switch {
		case len(args) < least:
			return fmt.Errorf("an argument is missing: write `%s`", use)
		case most >= 0 && len(args) > most:
			return fmt.Errorf("%q is one argument too many: write `%s`", args[most], use)
		}
		return nil
	}
}

// NoArgs is for commands that take only flags.
func NoArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q is one argument too many: %s takes no arguments, only flags", args[0], c.CommandPath())
	}
	return nil
}
