// SPDX-License-Identifier: Apache-2.0

// Package benchcmd is `ramjet bench`: the costs of registration and of telling a target that an operation is done.
package benchcmd

import (
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/spf13/cobra"
)

// New returns `ramjet bench`.
func New() *cobra.Command {
	return cli.Group("bench", "Measure alternatives in the design of a program",
		newBenchNotificationCmd(),
		newBenchRegistrationCmd(),
	)
}
