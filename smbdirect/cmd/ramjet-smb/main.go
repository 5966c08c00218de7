// SPDX-License-Identifier: Apache-2.0

// Command ramjet-smb lists and copies files of SMB shares over SMB Direct, and is a gateway from SMB Direct to SMB
// servers over TCP.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "ramjet-smb: %v\n", err)
		os.Exit(1)
	}
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
	return c
}

// deviceFlag adds -d.
func deviceFlag(c *cobra.Command, device *string) {
	c.Flags().StringVarP(device, "device", "d", "", "the device, such as roce:192.0.2.7 or iwarp:192.0.2.7")
	if err := c.MarkFlagRequired("device"); err != nil {
		panic(err)
	}
}
