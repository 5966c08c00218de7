// SPDX-License-Identifier: Apache-2.0

package main

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
	exitFailed      = 1   // the command ran and failed
	exitUsage       = 2   // the command line cannot be carried out
	exitInterrupted = 130 // 128 + SIGINT, as in shells
)

// runError is an error after the command line was accepted.
type runError struct{ error }

func (e runError) Unwrap() error { return e.error }

// failed makes an error of one that came after the command line was accepted.
func failed(err error) error { return runError{err} }

// usagef makes a usage error that a command noticed while it ran.
func usagef(format string, a ...any) error { return usage.Errorf(format, a...) }

// isUsage reports whether an error of Execute is a usage error.
func isUsage(err error) bool {
	return errors.As(err, new(usage.Error)) || !errors.As(err, new(runError))
}

// exitStatus returns the exit status for the result of Execute.
func exitStatus(err error) int {
	switch {
	case err == nil:
		return 0
	case isUsage(err):
		return exitUsage
	}
	return exitFailed
}

// group returns a command that has only subcommands.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs}
	g.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return unknownCommand(c, args[0])
	}
	g.SuggestionsMinimumDistance = 2
	g.AddCommand(subs...)
	return g
}

// unknownCommand says in one line that c has no such subcommand, and suggests one.
func unknownCommand(c *cobra.Command, name string) error {
	if s := c.SuggestionsFor(name); len(s) > 0 {
		return usagef("unknown command %q: did you mean %s?", name, strings.Join(s, " or "))
	}
	return usagef("unknown command %q: `%s --help` lists them", name, c.CommandPath())
}

// leaf returns a command that does something. Errors before run are usage errors. Errors of run are
// not, except a usage.Error. Where --device is not given, it is what the environment names.
func leaf(c *cobra.Command, run func(c *cobra.Command, args []string) error) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		named, err := deviceFromEnvironment(c)
		if err != nil {
			return failed(err)
		}
		err = run(c, args)
		if named && errors.As(err, new(usage.Error)) {
			err = fmt.Errorf("%w (%s=%s stands for --device)", err, kinds.DeviceVariable, os.Getenv(kinds.DeviceVariable))
		}
		if err != nil {
			return failed(err)
		}
		return nil
	}
	return c
}

// arguments is for commands that take from least to most arguments; most below 0 is any number.
func arguments(least, most int) cobra.PositionalArgs {
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

// noArgs is for commands that take only flags.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q is one argument too many: %s takes no arguments, only flags", args[0], c.CommandPath())
	}
	return nil
}
