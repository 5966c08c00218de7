// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

// newBenchCmd returns `ramjet bench`.
func newBenchCmd() *cobra.Command {
	return group("bench", "Measure alternatives in the design of a program",
		newBenchNotificationCmd(),
		newBenchRegistrationCmd(),
	)
}
