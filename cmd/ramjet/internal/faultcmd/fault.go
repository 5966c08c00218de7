// SPDX-License-Identifier: Apache-2.0

// Package faultcmd is `ramjet fault`: faults for a process that runs.
package faultcmd

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
)

// New returns `ramjet fault`.
func New() *cobra.Command {
	var r observe.FaultRequest
	var clear, asJSON bool
	c := &cobra.Command{
		Use:   "fault PID [FAULT...]",
		Short: "Inject faults into a running process, or show those that it has",
		Long: "Fault replaces the faults of the devices in software that a process of this user has open, whatever it was started\n" +
			"with. Each argument is a fault, several with semicolons between them, or the name of a file with faults; quote them.\n" +
			"Without any it shows what the process has and had, and how often each has struck. Times count from now on.\n\n" +
			"The process logs those that strike to its standard error, or where $RAMJET_FAULT_LOG of its environment says.\n" +
			"docs/faults.md has the language. `ramjet stat statistic` counts them as injected_faults.",
		Example: "  ramjet fault 4242 'loss 1%' 'delay 10ms 2ms sent'\n" +
			"  ramjet fault 4242 'partition peer 192.0.2.7 for 3s'\n" +
			"  ramjet fault 4242\n" +
			"  ramjet fault 4242 --clear",
		Args: cli.Arguments(1, -1),
	}
	c.Flags().StringVarP(&r.Device, "device", "d", "",
		"only this `device` of the process, such as roce:192.0.2.7, or devices of a kind")
	c.Flags().BoolVar(&clear, "clear", false, "end the faults")
	c.Flags().BoolVar(&asJSON, "json", false, "write the faults that the process then has as JSON")
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		pid, err := cli.ProcessID(args[0])
		if err != nil {
			return err
		}
		var texts []string
		for _, a := range args[1:] {
			text, _, err := cli.FaultText(a)
			if err != nil {
				return usage.Of(fmt.Errorf("the fault %q: %w", a, err))
			}
			if !kinds.HasFaults(text) {
				return cli.Usagef("%q has no fault: --clear ends those that there are", a)
			}
			texts = append(texts, text)
		}
		if clear && len(texts) > 0 {
			return cli.Usagef("--clear ends the faults: leave out %q", args[1])
		}
		r.Set, r.Text = clear || len(texts) > 0, strings.Join(texts, "\n")
		if pid == os.Getpid() {
			return cli.Usagef("%d is this command", pid)
		}
		all, err := statsocket.Faults(c.Context(), pid, &r)
		if err != nil {
			return err
		}
		if asJSON {
			return cli.WriteJSON(c.OutOrStdout(), struct {
				PID     int                    `json:"pid"`
				Devices []observe.DeviceFaults `json:"devices"`
			}{pid, all})
		}
		return writeFaults(c.OutOrStdout(), all)
	})
}

// writeFaults writes the faults of devices, and how often each has struck.
func writeFaults(out io.Writer, all []observe.DeviceFaults) error {
	var b strings.Builder
	for i := range all {
		d := &all[i]
		none := ""
		if !slices.ContainsFunc(d.Faults, func(r faults.Result) bool { return !r.Ended }) {
			none = " no faults"
		}
		fmt.Fprintf(&b, "%s:%s\n", d.Name, none)
		for j := range d.Faults {
			fmt.Fprintf(&b, "  %s\n", d.Faults[j].String())
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
