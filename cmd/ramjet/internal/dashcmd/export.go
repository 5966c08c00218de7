// SPDX-License-Identifier: Apache-2.0

package dashcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/export"
	"github.com/ramjet-rdma/ramjet/internal/core/softdev"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
)

// The bounds of values that users may choose.
const (
	mostExportedQPs    = 10_000
	mostExportedSeries = 1_000_000
)

// exportCommand is `ramjet export`.
type exportCommand struct {
	listen  string
	once    bool
	options export.Options
}

// NewExport returns `ramjet export`.
func NewExport() *cobra.Command {
	e := &exportCommand{options: export.Options{Version: softdev.Version()}}
	c := &cobra.Command{
		Use:   "export",
		Args:  cli.NoArgs,
		Short: "Serve the processes with open devices, and the kernel's devices, to Prometheus",
		Long: "Export serves at /metrics what ramjet stat shows: devices, queue pairs together, what was sent, lost and refused,\n" +
			"of every process of this user, for root of all users; and the counters of the kernel's devices. It serves until it\n" +
			"is interrupted.\n\n" +
			"Only this host can connect, unless --listen says otherwise. There is no key: whoever can connect sees the names\n" +
			"and addresses of the processes.",
		Example: "  ramjet export\n  ramjet export --listen 192.0.2.7:9477\n  ramjet export --once",
	}
	c.Flags().StringVar(&e.listen, "listen", "127.0.0.1:9477",
		"serve at this `address`: HOST, HOST:PORT or :PORT, all addresses. Beyond loopback the traffic is not encrypted")
	c.Flags().BoolVar(&e.once, "once", false,
		"write it to standard output, once, and end: for node_exporter's textfile collector")
	c.Flags().IntVar(&e.options.QueuePairs, "queue-pairs", 0,
		"`number` of queue pairs of each device that have series of their own, about 30 each")
	c.Flags().IntVar(&e.options.Series, "series", 20_000,
		"`number` of series of all processes together; each may have an equal share")
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		if err := e.check(); err != nil {
			return err
		}
		if e.once {
			b, err := export.New(e.options).Text(c.Context())
			if err == nil {
				_, err = c.OutOrStdout().Write(b)
			}
			return err
		}
		return e.serve(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
	})
}

// check holds the flags against their bounds.
func (e *exportCommand) check() error {
	if n := e.options.QueuePairs; n < 0 || n > mostExportedQPs {
		return cli.Usagef("--queue-pairs %d: give 0 to %d", n, mostExportedQPs)
	}
	if n := e.options.Series; n < 1 || n > mostExportedSeries {
		return cli.Usagef("--series %d: give 1 to %d", n, mostExportedSeries)
	}
	return nil
}

// serve serves until ctx ends.
func (e *exportCommand) serve(ctx context.Context, out, log io.Writer) error {
	if _, err := statsocket.Read(ctx, 0); errors.Is(err, statsocket.ErrUnsupported) {
		return err
	}
	address, _, err := dashAddress(e.listen)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("--listen %s: %w: choose another port", e.listen, err)
	}
	if err != nil {
		return fmt.Errorf("--listen %s: %w", e.listen, err)
	}
	defer l.Close()
	at := l.Addr().(*net.TCPAddr)
	host := at.String()
	if at.IP.IsUnspecified() {
		host = net.JoinHostPort("localhost", fmt.Sprint(at.Port))
	}
	fmt.Fprintf(out, "http://%s/metrics\n", host)
	if !at.IP.IsLoopback() {
		fmt.Fprintf(log, "ramjet export: other hosts can connect to %v, without a key. The traffic is not encrypted\n",
			at)
	}
	return export.New(e.options).Serve(ctx, l)
}
