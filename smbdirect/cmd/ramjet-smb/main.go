// SPDX-License-Identifier: Apache-2.0

// Command ramjet-smb lists and copies files of SMB shares over SMB Direct, and is a gateway from SMB Direct to SMB
// servers over TCP.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	c, err := newCommand().ExecuteContextC(ctx)
	stop()
	os.Exit(report(os.Stderr, c, err))
}

// runError is an error after the command line was accepted.
type runError struct{ error }

func (e runError) Unwrap() error { return e.error }

// usageError is an error of the command line that shows when the command is carried out, such as a device that does not
// exist.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// openDevice opens the device that a flag names.
func openDevice(name string) (*verbs.Device, error) {
	dev, err := ramjet.Open(name)
	if err != nil {
		return nil, usageError{err}
	}
	return dev, nil
}

// report says how a command has ended, and returns the exit status: that of ramjet's commands.
func report(to io.Writer, c *cobra.Command, err error) int {
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(usageError)):
		fmt.Fprintf(to, "%s: %v\n", c.Root().Name(), err)
		return 2
	case !errors.As(err, new(runError)): // an error of the flags, or of their check
		fmt.Fprintf(to, "%s: %v: `%s --help` shows what it takes\n", c.Root().Name(), err, c.CommandPath())
		return 2
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(to, "%s: interrupted\n", c.Root().Name())
		return 130 // 128 + SIGINT, as in shells
	}
	fmt.Fprintf(to, "%s: %v\n", c.Root().Name(), err)
	return 1
}

func newCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "ramjet-smb",
		Short: "SMB Direct in user space",
		Long: "Ramjet-smb lists and copies files of SMB shares over SMB Direct, and gives SMB servers without RDMA\n" +
			"RDMA clients.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.AddCommand(gatewayCommand(), lsCommand(), getCommand(), putCommand())
	for _, c := range c.Commands() {
		run := c.RunE
		c.RunE = func(c *cobra.Command, args []string) error {
			err := run(c, args)
			if err == nil || errors.As(err, new(usageError)) {
				return err
			}
			return runError{err}
		}
	}
	return c
}

// deviceFlag adds -d.
func deviceFlag(c *cobra.Command, device *string) {
	c.Flags().StringVarP(device, "device", "d", "", "the device, such as roce:192.0.2.7 or iwarp:192.0.2.7")
	if err := c.MarkFlagRequired("device"); err != nil {
		panic(err)
	}
}
