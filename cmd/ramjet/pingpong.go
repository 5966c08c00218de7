// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// pingpongKind is one of the four programs.
type pingpongKind struct {
	name string
	qp   verbs.QPType
	srq  bool
	size byteSize // default
}

func newPingpongCmd() *cobra.Command {
	g := group("pingpong", "Bounce messages with a peer: another Ramjet, or rdma-core's ibv_*_pingpong",
		newPingpongKindCmd(pingpongKind{"rc", verbs.RC, false, 4096}),
		newPingpongKindCmd(pingpongKind{"uc", verbs.UC, false, 4096}),
		newPingpongKindCmd(pingpongKind{"ud", verbs.UD, false, 1024}),
		newPingpongKindCmd(pingpongKind{"srq", verbs.RC, true, 4096}))
	g.Long = "Without a host a pingpong is the server and waits for a client; with one it is the client. Queue pair\n" +
		"numbers are exchanged over TCP as ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and ibv_srq_pingpong do,\n" +
		"so that each of these can be the other side; give them -g with the row of an IP address in their GID table."
	return g
}

// pingpongFlags are what the command line says.
type pingpongFlags struct {
	dev     deviceFlags
	port    uint16
	size    byteSize
	mtu     int
	rxDepth int
	iters   int
	numQP   int
	gid     int
	events  bool
	check   bool
}

func newPingpongKindCmd(k pingpongKind) *cobra.Command {
	f := &pingpongFlags{size: k.size, numQP: 1}
	c := &cobra.Command{
		Use:   k.name + " [HOST]",
		Short: fmt.Sprintf("What ibv_%s_pingpong does", k.name),
		Example: fmt.Sprintf("  ramjet pingpong %[1]s -d roce:127.0.0.1               # the server\n"+
			"  ramjet pingpong %[1]s -d roce:127.0.0.2 127.0.0.1     # its client", k.name),
		Args: cobra.MaximumNArgs(1),
	}
	f.dev.add(c)
	fl := c.Flags()
	addPortFlag(c, &f.port, 18515, "listen on or connect to TCP `port`", true)
	fl.VarP(&f.size, "size", "s", "`bytes` of a message")
	fl.IntVarP(&f.rxDepth, "rx-depth", "r", 500, "receives to post at a time")
	fl.IntVarP(&f.iters, "iters", "n", 1000, "number of exchanges")
	fl.IntVarP(&f.gid, "gid-idx", "g", 0, "row of the own GID table")
	fl.BoolVarP(&f.events, "events", "e", false, "sleep until something completes instead of polling")
	fl.BoolVarP(&f.check, "chk", "c", false, "check every byte in the end")
	if k.qp != verbs.UD {
		fl.IntVarP(&f.mtu, "mtu", "m", 1024, "path MTU in `bytes`")
	}
	if k.srq {
		fl.IntVarP(&f.numQP, "num-qp", "q", 16, "number of queue pairs")
	}
	return leaf(c, func(c *cobra.Command, args []string) error {
		return f.dev.with(c.ErrOrStderr(), func(dev *verbs.Device) error {
			p, err := newPingpong(k, f, dev)
			if err != nil {
				return err
			}
			host := strings.Join(args, "")
			return p.run(c.Context(), c.OutOrStdout(), host)
		})
	})
}

// run exchanges addresses with the peer, bounces messages, and says how long it took.
func (p *pingpong) run(ctx context.Context, out io.Writer, host string) error {
	client := host != ""
	exchange := func() error { return p.exchangeAsClient(ctx, host) }
	if !client {
		l, err := p.listen(ctx)
		if err != nil {
			return err
		}
		defer l.Close()
		exchange = func() error { return p.exchangeAsServer(ctx, l) }
	}
	for _, ep := range p.local {
		fmt.Fprintf(out, "  local address:  %s\n", addressText(ep))
	}
	if err := exchange(); err != nil {
		return err
	}
	for _, ep := range p.remote {
		fmt.Fprintf(out, "  remote address: %s\n", addressText(ep))
	}
	start := time.Now()
	if err := p.bounce(ctx, client); err != nil {
		return err
	}
	seconds := time.Since(start).Seconds()
	bytes := int64(p.size) * int64(p.iters) * 2
	fmt.Fprintf(out, "%d bytes in %.2f seconds = %.2f Mbit/sec\n", bytes, seconds, float64(bytes)*8/seconds/1e6)
	fmt.Fprintf(out, "%d iters in %.2f seconds = %.2f usec/iter\n", p.iters, seconds, seconds*1e6/float64(p.iters))
	if p.check {
		return p.verify()
	}
	return nil
}

// addressText writes an endpoint as rdma-core's programs do.
func addressText(ep verbs.Endpoint) string {
	return fmt.Sprintf("LID 0x0000, QPN 0x%06x, PSN 0x%06x, GID %s", uint32(ep.QPN), uint32(ep.PSN), gidText(ep.GID))
}
