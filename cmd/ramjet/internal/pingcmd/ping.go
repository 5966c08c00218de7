// SPDX-License-Identifier: Apache-2.0

// Package pingcmd is `ramjet ping`: rping.
package pingcmd

import (
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/ping"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// pingFlags are the flags of ping.
type pingFlags struct {
	dev    cli.DeviceFlags
	server bool
	client bool
	addr   string
	port   uint16
	size   units.Bytesize
	json   bool
	ping.Config
}

// New returns `ramjet ping`.
func New() *cobra.Command {
	f := &pingFlags{size: 64}
	c := &cobra.Command{
		Use:   "ping {-s | -c -a HOST}",
		Short: "Ping a server with READs and WRITEs: another Ramjet, or rdma-core's rping",
		Long: "For each ping the server reads the client's data with an RDMA READ and writes it back with an RDMA WRITE.\n" +
			"The connection manager makes the connections. The flags are rping's, and the other side may be rping.",
		Example: "  ramjet ping -s -d roce:127.0.0.1                          # the server\n" +
			"  ramjet ping -c -d roce:127.0.0.2 -a 127.0.0.1 -V -C 10    # its client",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q is not a flag: give the server's address with --addr (-a)", args[0])
			}
			return nil
		},
	}
	f.dev.Add(c)
	fl := c.Flags()
	fl.BoolVarP(&f.server, "server", "s", false, "wait for a client")
	fl.BoolVarP(&f.client, "client", "c", false, "ping a server")
	fl.BoolVarP(&f.Persistent, "persistent", "P", false, "server: serve many clients, until interrupted")
	fl.StringVarP(&f.addr, "addr", "a", "", "client: the server's `address`, perhaps with :PORT; server: the address to listen on, which also chooses the device")
	cli.AddPortFlag(c, &f.port, 7174, "`port` of the server", false)
	fl.IntVarP(&f.Count, "count", "C", 0, "client: `number` of pings, 0: until interrupted")
	fl.VarP(&f.size, "size", "S", fmt.Sprintf("client: `bytes` of a ping, %d to %d", ping.MinSize, ping.MaxSize))
	fl.BoolVarP(&f.Verbose, "verbose", "v", false, "show the data of each ping")
	fl.BoolVarP(&f.Validate, "validate", "V", false, "compare every byte with what was sent")
	fl.BoolVar(&f.json, "json", false, "client: write the summary as JSON")
	cli.AddTimeoutFlag(c, &f.Timeout)
	c.MarkFlagsMutuallyExclusive("server", "client")
	return cli.Leaf(c, func(c *cobra.Command, _ []string) (err error) {
		if f.addr, err = cli.TakePort(f.addr, &f.port, c.Flags().Changed("port")); err != nil {
			return err
		}
		if err := f.check(c); err != nil {
			return err
		}
		if f.client {
			f.dev.Peer = f.addr
		} else {
			f.dev.Local = f.addr
		}
		return f.dev.With(c, func(dev *verbs.Device) error {
			f.Address, f.Size = f.address(), int(f.size)
			if f.server {
				l, err := cm.Listen(c.Context(), dev, f.Address, f.Options()...)
				if err != nil {
					return cli.ListenError(err)
				}
				return f.Serve(c.Context(), l, dev.Name(), c.OutOrStdout())
			}
			conn, err := cm.Dial(c.Context(), dev, f.Address, f.Options()...)
			if err != nil {
				return cli.DialError(err, dev, "`ramjet ping -s` or rping -s")
			}
			if !f.json {
				return f.Ping(c.Context(), conn, c.OutOrStdout())
			}
			var summary ping.Summary
			f.Summary = func(s ping.Summary) { summary = s }
			if err := f.Ping(c.Context(), conn, c.OutOrStdout()); err != nil {
				return err
			}
			return cli.WriteJSON(c.OutOrStdout(), summary, dev.Name())
		})
	})
}

// check finds flags that cannot be combined.
func (f *pingFlags) check(c *cobra.Command) error {
	switch {
	case !f.client && !f.server:
		return cli.Usagef("give --server (-s) to wait for a client, or --client (-c) to ping a server")
	case f.client && f.addr == "":
		return cli.Usagef("--client needs the server's address: give it with --addr")
	case f.json && (f.server || f.Verbose):
		return cli.Usagef("--json is the summary of a client: leave --server and --verbose out")
	case f.client && f.Persistent:
		return cli.Usagef("--persistent is for servers: give --count to clients")
	case f.Count < 0:
		return cli.Usagef("--count %d: give a number of pings, or 0", f.Count)
	case f.size < ping.MinSize || f.size > ping.MaxSize:
		return cli.Usagef("--size %d: give %d to %d bytes", f.size, ping.MinSize, ping.MaxSize)
	}
	if f.server && f.addr != "" && !c.Flags().Changed("device") {
		f.dev.Device = kinds.Default().NameAt(f.addr).String()
	}
	return nil
}

// address returns the server's address.
func (f *pingFlags) address() string { return net.JoinHostPort(f.addr, strconv.Itoa(int(f.port))) }
