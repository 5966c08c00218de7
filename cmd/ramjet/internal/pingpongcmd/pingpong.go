// SPDX-License-Identifier: Apache-2.0

// Package pingpongcmd is `ramjet pingpong`: the examples of rdma-core.
package pingpongcmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/pingpong"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// New returns `ramjet pingpong`.
func New() *cobra.Command {
	g := cli.Group("pingpong", "Bounce messages with a peer: another Ramjet, or rdma-core's ibv_*_pingpong")
	for _, k := range pingpong.Kinds {
		g.AddCommand(newPingpongKindCmd(k))
	}
	g.Long = "Without a host a pingpong is the server and waits for a client; with one it is the client. Queue pair\n" +
		"numbers are exchanged over TCP as ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and ibv_srq_pingpong do,\n" +
		"so that each of these can be the other side; give them -g with the row of an IP address in their GID table."
	return g
}

func newPingpongKindCmd(k pingpong.Kind) *cobra.Command {
	var device cli.DeviceFlags
	var asJSON bool
	f := pingpong.Config{Kind: k, NumQP: 1}
	size := units.Bytesize(k.Size)
	c := &cobra.Command{
		Use:   k.Name + " [HOST]",
		Short: fmt.Sprintf("Bounce messages as ibv_%s_pingpong does, which may be the peer", k.Name),
		Example: fmt.Sprintf("  ramjet pingpong %[1]s -d roce:127.0.0.1               # the server\n"+
			"  ramjet pingpong %[1]s -d roce:127.0.0.2 127.0.0.1     # its client", k.Name),
		Args: cli.Arguments(0, 1),
	}
	device.Add(c)
	fl := c.Flags()
	cli.AddPortFlag(c, &f.Port, 18515, "listen on or connect to TCP `port`", true)
	fl.VarP(&size, "size", "s", "`bytes` of a message")
	fl.IntVarP(&f.RxDepth, "rx-depth", "r", 500, "`number` of receives to post at a time")
	fl.IntVarP(&f.Iters, "iters", "n", 1000, "`number` of exchanges")
	fl.IntVarP(&f.GID, "gid-idx", "g", -1,
		"`row` of this side's GID table; -1: that of a global address, IPv4 if there is one")
	fl.BoolVarP(&f.Events, "events", "e", false, "sleep until something completes instead of polling")
	fl.BoolVarP(&f.Check, "chk", "c", false, "check every byte in the end")
	fl.BoolVar(&asJSON, "json", false, "write JSON")
	if k.HasMTU() {
		fl.IntVarP(&f.MTU, "mtu", "m", 1024, "path MTU in `bytes`")
	}
	if k.HasQPs() {
		fl.IntVarP(&f.NumQP, "num-qp", "q", 16, "`number` of queue pairs")
	}
	return cli.Leaf(c, func(c *cobra.Command, args []string) (err error) {
		f.Size = int(size)
		if device.Peer, err = cli.TakePort(strings.Join(args, ""), &f.Port, c.Flags().Changed("port")); err != nil {
			return err
		}
		return device.With(c, func(dev *verbs.Device) error {
			if !asJSON {
				return pingpong.Run(c.Context(), dev, f, device.Peer, c.OutOrStdout())
			}
			var result pingpong.Result
			f.Result = func(r pingpong.Result) { result = r }
			if err := pingpong.Run(c.Context(), dev, f, device.Peer, c.OutOrStdout()); err != nil {
				return err
			}
			return cli.WriteJSON(c.OutOrStdout(), result, dev.Name())
		})
	})
}
