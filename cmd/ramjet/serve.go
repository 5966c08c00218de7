// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/internal/app/filecopy"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// servePort is the port of `ramjet serve`.
const servePort = 7175

func newServeCmd() *cobra.Command {
	var dev deviceFlags
	var port uint16
	var verbose, read, readOnly bool
	c := &cobra.Command{
		Use:   "serve DIR",
		Short: "Receive files from `ramjet cp` into a directory, and let clients fetch them",
		Long: "Whoever can reach the address may write below DIR, and nowhere else: there are no passwords, and only an\n" +
			"iwarps: device encrypts. Clients may replace what is there. They cannot read it, but a client that has the same\n" +
			"file can tell. With --read they may read too; with --read-only they may only read.",
		Example: "  ramjet serve -d roce:192.0.2.7 /srv/incoming",
		Args:    arguments(1, 1),
	}
	dev.add(c)
	addPortFlag(c, &port, servePort, "`port` to listen on, 0: any", true)
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show each file")
	c.Flags().BoolVar(&read, "read", false, "also let clients list and fetch files")
	c.Flags().BoolVar(&readOnly, "read-only", false, "let clients list and fetch files, and write nothing")
	return leaf(c, func(c *cobra.Command, args []string) error {
		root, err := os.OpenRoot(args[0])
		if err != nil {
			return usage.Of(err)
		}
		defer root.Close()
		return dev.with(c, func(d *verbs.Device) error {
			l, err := filecopy.Listen(d, net.JoinHostPort("", strconv.Itoa(int(port))))
			if err != nil {
				return listenError(err)
			}
			defer l.Close()
			out := c.OutOrStdout()
			fmt.Fprintf(out, "%s: serving %s at %v\n", d.Name(), args[0], l.Addr())
			log := serveLog{w: out, verbose: verbose}
			err = (&filecopy.Server{Root: root, Readable: read || readOnly, ReadOnly: readOnly, Report: log.report}).Serve(c.Context(), l)
			if errors.Is(err, context.Canceled) {
				fmt.Fprintf(out, "%s, %s from %s, %d incomplete", units.Plural(log.files, "file"), units.Plural(log.bytes, "byte"),
					units.Plural(log.clients, "connection"), log.failed)
				if log.sent > 0 {
					fmt.Fprintf(out, "; %s, %s sent", units.Plural(log.sent, "file"), units.Plural(log.sentBytes, "byte"))
				}
				fmt.Fprintln(out)
				return nil
			}
			return err
		})
	})
}

// serveLog logs the events of a server, and counts them.
type serveLog struct {
	mu      sync.Mutex
	w       io.Writer
	verbose bool

	files, bytes, clients, failed int64
	sent, sentBytes               int64 // to clients
}

func (l *serveLog) report(e filecopy.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := filecopy.Printable(e.Name)
	switch {
	case e.Name == "" && e.Err == nil:
		l.clients++
		return
	case e.Name == "":
		fmt.Fprintf(l.w, "%v: %v\n", e.Peer, e.Err)
	case e.Err != nil:
		l.failed++
		fmt.Fprintf(l.w, "%v: %s: not complete: %v\n", e.Peer, name, e.Err)
	case e.Sent:
		l.sent++
		l.sentBytes += e.Size
		if l.verbose {
			fmt.Fprintf(l.w, "%v: %s: %s sent, %s of them were there\n", e.Peer, name, units.Plural(e.Size, "byte"), units.Count(e.Kept))
		}
	default:
		l.files++
		l.bytes += e.Size
		if l.verbose {
			fmt.Fprintf(l.w, "%v: %s: %s, %s of them were there\n", e.Peer, name, units.Plural(e.Size, "byte"), units.Count(e.Kept))
		}
	}
}
