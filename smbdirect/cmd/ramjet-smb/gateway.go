// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/smbdirect"
	"github.com/ramjet-rdma/ramjet/smbdirect/gateway"
)

// gatewayOptions are the flags of ramjet-smb gateway.
type gatewayOptions struct {
	device, listen, server string
	allowFlags             []string
	allow                  func(netip.AddrPort) bool // from the flags
	anyClient              bool
	clients                int
}

func gatewayCommand() *cobra.Command {
	var o gatewayOptions
	c := &cobra.Command{
		Use:   "gateway -d DEVICE --server ADDRESS {--allow PREFIX... | --any-client}",
		Short: "Take SMB Direct from clients and hand it to an SMB server over TCP",
		Long: "Takes SMB Direct from clients and hands it to an SMB server over TCP. READs and WRITEs through the\n" +
			"RDMA channel are carried out by the gateway, which is possible only while messages are not signed.\n\n" +
			"It listens at the device's address only. Say who may connect, by --allow or --any-client: the SMB\n" +
			"server sees the gateway's address instead of the client's.",
		Example: "  ramjet-smb gateway -d roce:192.0.2.9 --server 127.0.0.1 --allow 192.0.2.0/24",
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return o.check() },
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c) },
	}
	deviceFlag(c, &o.device)
	f := c.Flags()
	f.StringVar(&o.server, "server", "", "the SMB server, HOST or HOST:PORT")
	f.StringVar(&o.listen, "port", "", "the port for clients; by default 445, and 5445 over iWARP")
	f.StringSliceVar(&o.allowFlags, "allow", nil, "addresses of clients, such as 192.0.2.7 or 192.0.2.0/24")
	f.BoolVar(&o.anyClient, "any-client", false, "let in any client that reaches the device's address")
	f.IntVar(&o.clients, "clients", smbdirect.DefaultMaxConns, "connections at once")
	if err := c.MarkFlagRequired("server"); err != nil {
		panic(err)
	}
	return c
}

// check returns an error if the flags are wrong.
func (o *gatewayOptions) check() (err error) {
	if o.clients < 1 {
		return fmt.Errorf("--clients is %d: it has to be at least 1", o.clients)
	}
	o.allow, err = o.allowed()
	return err
}

func (o *gatewayOptions) run(c *cobra.Command) error {
	server := o.server
	if _, _, err := net.SplitHostPort(server); err != nil {
		server = net.JoinHostPort(server, "445")
	}
	dev, err := openDevice(o.device)
	if err != nil {
		return err
	}
	defer dev.Close()
	log := slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
	address := ""
	if o.listen != "" {
		address = net.JoinHostPort("", o.listen)
	}
	l, err := smbdirect.Listen(c.Context(), dev, address,
		smbdirect.ListenOptions{MaxConns: o.clients, Allow: o.allow, Log: log})
	if err != nil {
		return usageError{err}
	}
	defer l.Close()
	fmt.Fprintf(c.OutOrStdout(), "listening on %v for %s\n", l.Addr(), server)
	err = gateway.Serve(c.Context(), l, gateway.Options{Log: log, Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server)
	}})
	if c.Context().Err() != nil {
		return nil
	}
	return err
}

// allowed returns the filter of addresses that may connect.
func (o *gatewayOptions) allowed() (func(netip.AddrPort) bool, error) {
	if o.anyClient == (len(o.allowFlags) > 0) {
		return nil, errors.New("say who may connect: --allow ADDRESS or PREFIX, or --any-client")
	}
	if o.anyClient {
		return nil, nil
	}
	var prefixes []netip.Prefix
	for _, s := range o.allowFlags {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			a, e := netip.ParseAddr(s)
			if e != nil {
				return nil, fmt.Errorf("--allow %s: write an address or a prefix, such as 192.0.2.7 or 192.0.2.0/24", s)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		prefixes = append(prefixes, p)
	}
	return func(peer netip.AddrPort) bool {
		at := peer.Addr().Unmap().WithZone("")
		return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(at) })
	}, nil
}
