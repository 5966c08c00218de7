// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/internal/app/manual"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
)

// newManCmd returns the hidden command by which packages are given their manual pages.
func newManCmd() *cobra.Command {
	c := &cobra.Command{Use: "man DIR", Short: "Write the manual pages into a directory", Hidden: true, Args: cobra.ExactArgs(1)}
	return leaf(c, func(c *cobra.Command, args []string) error {
		n := 0
		for _, of := range manual.Commands(c.Root()) {
			f, err := os.Create(filepath.Join(args[0], manual.Name(of)+".1"))
			if err != nil {
				return usage.Of(err)
			}
			err = manual.Write(f, of, c.Root().Version)
			if cerr := f.Close(); err == nil {
				err = cerr
			}
			if err != nil {
				return err
			}
			n++
		}
		fmt.Fprintf(c.OutOrStdout(), "%d pages\n", n)
		return nil
	})
}
