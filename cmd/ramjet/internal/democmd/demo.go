// SPDX-License-Identifier: Apache-2.0

// Package democmd is `ramjet demo`: all operations between two processes, verified.
package democmd

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/demo"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// New returns `ramjet demo`.
func New() *cobra.Command {
	var asJSON bool
	var pcap, fabric string
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show RDMA between two processes of this machine, every byte verified",
		Long: "Demo starts a second process, connects the two over RoCEv2, or the kind of device that --device names, on two\n" +
			"loopback addresses, and carries out each kind of operation with real data. Both processes compare every byte.\n" +
			"It READs the memory of the second process while that is stopped, shows the packets of one WRITE, and measures\n" +
			"WRITEs over shared memory, over these devices, and TCP beside them. With -d kernel both processes open the\n" +
			"same device of the kernel, hardware if there is any.\n\n" +
			"With -d infiniband it starts a fabric of two switches with two cables between them, unless a fabric is running,\n" +
			"and pulls one of the cables in mid-transfer. OpenSM manages the subnet if it is installed.",
		Example: "  ramjet demo\n  ramjet demo -d iwarp\n  ramjet demo -d infiniband",
		Args:    cli.NoArgs,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write the results as JSON")
	device := c.Flags().StringP("device", "d", kinds.Default().Name,
		"`kind` of the devices: "+strings.Join(kinds.Names(), ", "))
	cli.OnlyKind(c)
	c.Flags().StringVar(&fabric, "fabric", "", "with -d infiniband: the `name` of a fabric that runs")
	cli.AddPcapFlag(c, &pcap, cli.EveryPacket)
	return cli.Leaf(c, func(c *cobra.Command, _ []string) error {
		kind, err := kinds.Find(strings.TrimSuffix(*device, ":"))
		if err != nil {
			return cli.Usagef("--device %q: give one of %s; the demo chooses the addresses", *device,
				strings.Join(kinds.Names(), ", "))
		}
		if err := cli.TrustThisMachine(kind); err != nil {
			return err
		}
		if fabric != "" && !kind.Soft {
			return cli.Usagef("--fabric: %s devices are on no fabric: add -d infiniband", kind.Name)
		}
		report, err := runDemo(c.Context(), kind, fabric, pcap, c.ErrOrStderr())
		if err != nil {
			return err
		}
		if asJSON {
			return cli.WriteJSON(c.OutOrStdout(), report)
		}
		return writeDemo(c.OutOrStdout(), report, cli.IsTerminal(c.OutOrStdout()))
	})
}

// runDemo is the first process; log gets texts that are not part of the result.
func runDemo(ctx context.Context, kind *kinds.Kind, fabric, pcap string, log io.Writer) (*demo.Report, error) {
	self, err := cli.Executable()
	if err != nil {
		return nil, err
	}
	finish := func() error { return nil }
	d := &demo.Demo{Kind: kind, Peer: []string{self, PeerName}, Recorded: pcap != ""}
	if kind.Soft {
		end, err := prepareFabric(ctx, d, fabric)
		if err != nil {
			return nil, err
		}
		defer end()
	}
	d.Open = func(name string) (*verbs.Device, error) {
		dev, done, err := cli.OpenDevice(name, pcap, log)
		if err == nil {
			finish = done
		}
		return dev, err
	}
	status := cli.NewBarLine(log)
	if status != nil {
		d.Progress = func(step string) { status.Show(func(int) string { return step }) }
	}
	report, err := d.Run(ctx)
	if status != nil {
		status.Aside(func() {})
	}
	if ferr := finish(); err == nil {
		err = ferr
	}
	return report, err
}

// PeerName is the hidden command that is the demo's second process.
const PeerName = "demo-peer"

// NewPeer returns the hidden command that is the second process of the demo.
func NewPeer() *cobra.Command {
	c := &cobra.Command{Use: PeerName, Short: "The second process of demo", Hidden: true, Args: cobra.NoArgs}
	return cli.Leaf(c, func(*cobra.Command, []string) error {
		// The first process decides when it is over; without it this one ends by itself.
		signal.Ignore(os.Interrupt)
		signal.Reset(syscall.SIGTERM)
		return demo.Serve(context.Background(), os.Stdin, os.Stdout, func(name string) (*verbs.Device, error) {
			dev, _, err := cli.OpenDevice(name, "", io.Discard)
			return dev, err
		})
	})
}
