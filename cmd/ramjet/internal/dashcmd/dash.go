// SPDX-License-Identifier: Apache-2.0

// Package dashcmd is `ramjet dash` and `ramjet export`: the measurements of this host's devices, over HTTP.
package dashcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/dash"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
)

// NewDash returns `ramjet dash`.
func NewDash() *cobra.Command {
	var listen string
	c := &cobra.Command{
		Use:   "dash",
		Short: "Serve a web page that shows processes with open devices: rates, graphs, last packets",
		Long: "Dash serves a page that shows what ramjet stat does, live: devices, queue pairs, throughput, round trip, loss\n" +
			"and retransmission, and a ladder diagram of the last packets of a queue pair. It prints the URL, and serves\n" +
			"until it is interrupted.\n\n" +
			"Only this host can connect, unless --listen says otherwise. The URL has a key in it: whoever has that sees the\n" +
			"processes of this user, their peers and the headers of their packets, in which there are keys of memory.",
		Example: "  ramjet dash\n  ramjet dash --listen 127.0.0.1:8080\n  ssh -L 8080:127.0.0.1:8080 HOST ramjet dash --listen 127.0.0.1:8080",
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:0",
		"serve at this `address`: HOST, HOST:PORT or :PORT, all addresses. Beyond loopback the traffic is not encrypted")
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		return serveDash(c.Context(), listen, c.OutOrStdout(), c.ErrOrStderr())
	})
}

// serveDash serves the page until ctx ends.
func serveDash(ctx context.Context, listen string, out, log io.Writer) error {
	if _, err := statsocket.Read(ctx, 0); errors.Is(err, statsocket.ErrUnsupported) {
		return err
	}
	address, name, err := dashAddress(listen)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("--listen %s: %w: choose another port, or none for any that is free", listen, err)
	}
	if err != nil {
		return fmt.Errorf("--listen %s: %w", listen, err)
	}
	defer l.Close()
	s := dash.New(l.Addr(), dash.Options{Version: softdev.Version(), Name: name})
	at := l.Addr().(*net.TCPAddr)
	host := at.String()
	switch {
	case name != "":
		host = net.JoinHostPort(name, fmt.Sprint(at.Port))
	case at.IP.IsUnspecified():
		host = net.JoinHostPort("localhost", fmt.Sprint(at.Port))
	}
	fmt.Fprintf(out, "http://%s/#%s\n", host, s.Key())
	if !at.IP.IsLoopback() {
		fmt.Fprintf(log, "ramjet dash: other hosts can connect to %v. The traffic is not encrypted: who can read it has the key, and sees what this page shows\n", at)
	}
	return s.Serve(ctx, l)
}

// dashAddress returns the address to listen at, and the name of the host in it if there is one.
func dashAddress(listen string) (address, name string, err error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(listen, "["), "]"), "0"
		if strings.Contains(host, ":") {
			if _, err := netip.ParseAddr(host); err != nil {
				return "", "", cli.Usagef("--listen %q: give HOST, HOST:PORT or :PORT", listen)
			}
		}
	}
	if host == "" && err != nil {
		return "", "", cli.Usagef("--listen: give HOST, HOST:PORT or :PORT")
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" {
		name = host
	}
	return net.JoinHostPort(host, port), name, nil
}
