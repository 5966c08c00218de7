// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/manual"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
)

// newManCmd returns the command that writes manual pages, for packages and for users without one.
func newManCmd() *cobra.Command {
	c := &cobra.Command{Use: "man DIR", Short: "Write the manual pages into a directory",
		Example: "  ramjet man ~/.local/share/man/man1", Args: cli.Arguments(1, 1)}
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return usage.Of(err)
		}
		n := 0
		for _, of := range manual.Commands(c.Root()) {
			f, err := os.Create(filepath.Join(args[0], manual.Name(of)+".1"))
			if err != nil {
				return usage.Of(err)
			}
			err = manual.Write(f, of, c.Root().Version, commitDate())
			if cerr := f.Close(); err == nil {
				err = cerr
			}
			if err != nil {
				return err
			}
			n++
		}
		fmt.Fprintf(c.OutOrStdout(), "%s: %d pages\n", args[0], n)
		return nil
	})
}

// commitDate returns the date of the commit that this command was built from, or nothing where it was not
// built in a checkout.
func commitDate() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
				return t.Format(time.DateOnly)
			}
		}
	}
	return ""
}
