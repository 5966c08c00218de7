// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/internal/app/pingpong"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func newPingpongCmd() *cobra.Command {
	g := group("pingpong", "Bounce messages with a peer: another Ramjet, or rdma-core's ibv_*_pingpong")
	for _, k := range pingpong.Kinds {
		g.AddCommand(newPingpongKindCmd(k))
	}
	g.Long = "Without a host a pingpong is the server and waits for a client; with one it is the client. Queue pair\n" +
		"numbers are exchanged over TCP as ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and ibv_srq_pingpong do,\n" +
		"so that each of these can be the other side; give them -g with the row of an IP address in their GID table."
	return g
}

func newPingpongKindCmd(k pingpong.Kind) *cobra.Command {
	var device deviceFlags
	var asJSON bool
	f := pingpong.Config{Kind: k, NumQP: 1}
	size := units.Bytesize(k.Size)
	c := &cobra.Command{
		Use:   k.Name + " [HOST]",
		Short: fmt.Sprintf("Bounce messages as ibv_%s_pingpong does, which may be the peer", k.Name),
		Example: fmt.Sprintf("  ramjet pingpong %[1]s -d roce:127.0.0.1               # the server\n"+
			"  ramjet pingpong %[1]s -d roce:127.0.0.2 127.0.0.1     # its client", k.Name),
		Args: arguments(0, 1),
	}
	device.add(c)
	fl := c.Flags()
	addPortFlag(c, &f.Port, 18515, "listen on or connect to TCP `port`", true)
	fl.VarP(&size, "size", "s", "`bytes` of a message")
	fl.IntVarP(&f.RxDepth, "rx-depth", "r", 500, "`number` of receives to post at a time")
	fl.IntVarP(&f.Iters, "iters", "n", 1000, "`number` of exchanges")
	fl.IntVarP(&f.GID, "gid-idx", "g", -1, "`row` of this side's GID table; -1: that of a global address, IPv4 if there is one")
	fl.BoolVarP(&f.Events, "events", "e", false, "sleep until something completes instead of polling")
	fl.BoolVarP(&f.Check, "chk", "c", false, "check every byte in the end")
	fl.BoolVar(&asJSON, "json", false, "write JSON")
	if k.HasMTU() {
		fl.IntVarP(&f.MTU, "mtu", "m", 1024, "path MTU in `bytes`")
	}
	if k.HasQPs() {
		fl.IntVarP(&f.NumQP, "num-qp", "q", 16, "`number` of queue pairs")
	}
	return leaf(c, func(c *cobra.Command, args []string) (err error) {
		f.Size = int(size)
		if device.peer, err = takePort(strings.Join(args, ""), &f.Port, c.Flags().Changed("port")); err != nil {
			return err
		}
		return device.with(c, func(dev *verbs.Device) error {
			if !asJSON {
				return pingpong.Run(c.Context(), dev, f, device.peer, c.OutOrStdout())
			}
			var result pingpong.Result
			f.Result = func(r pingpong.Result) { result = r }
			if err := pingpong.Run(c.Context(), dev, f, device.peer, c.OutOrStdout()); err != nil {
				return err
			}
			return writeJSON(c.OutOrStdout(), result, dev.Name())
		})
	})
}
