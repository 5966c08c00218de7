// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/app/fabricconsole"
	"github.com/ramjet-rdma/ramjet/internal/app/fabriccontrol"
)

func newFabricDoCmd() *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "do LINE...",
		Short: "Run lines in the console of a fabric that runs: pull cables, and so on",
		Long: "Do runs lines in the console of the fabric that `ramjet fabric` runs, one after the other, up to the first that fails.\n" +
			"The line help lists the commands.",
		Example: "  ramjet fabric do 'unlink leaf-1[1]' 'wait 5s' 'relink leaf-1[1]'",
		Args:    cli.Arguments(1, -1),
	}
	addFabricName(c, &name)
	return cli.Leaf(c, func(c *cobra.Command, lines []string) error {
		if err := CheckFabricName(name); err != nil {
			return err
		}
		return runLines(c.Context(), name, lines, c.OutOrStdout())
	})
}

// runLines runs lines in the console of a fabric.
func runLines(ctx context.Context, name string, lines []string, out io.Writer) error {
	for _, line := range lines {
		text, err := infiniband.RunLine(ctx, name, line)
		io.WriteString(out, text)
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	return nil
}

// serveConsole runs the lines of [runLines] in other processes.
func serveConsole(fab *infiniband.Fabric) {
	var out bytes.Buffer
	console := fabricconsole.New(fabriccontrol.New(fab), &out)
	fab.ServeConsole(func(ctx context.Context, line string) (string, error) {
		out.Reset()
		err := console.Line(ctx, line)
		if errors.Is(err, fabricconsole.ErrQuit) {
			err = errors.New("quit ends the console of the fabric's own terminal: to end the fabric, end its process")
		}
		return out.String(), err
	})
}
