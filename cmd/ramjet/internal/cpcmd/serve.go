// SPDX-License-Identifier: Apache-2.0

package cpcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/filecopy"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/app/usage"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// servePort is the port of `ramjet serve`.
const servePort = 7175

// NewServe returns `ramjet serve`.
func NewServe() *cobra.Command {
	var dev cli.DeviceFlags
	var port uint16
	var verbose, read, readOnly, asJSON bool
	c := &cobra.Command{
		Use:   "serve DIR",
		Short: "Receive files from `ramjet cp` into a directory, and let clients fetch them",
		Long: "Receive files that `ramjet cp` sends, and write them below DIR.\n\n" +
			"Whoever can reach the address may write below DIR, and nowhere else: there are no passwords, and only an\n" +
			"iwarps: device encrypts. Clients may replace what is there. They cannot read it, but a client that has the same\n" +
			"file can tell. With --read they may read too; with --read-only they may only read.",
		Example: "  ramjet serve -d roce:192.0.2.7 /srv/incoming\n  ramjet serve -d roce:192.0.2.7 --read-only /srv/images",
		Args:    cli.Arguments(1, 1),
	}
	dev.Add(c)
	cli.AddPortFlag(c, &port, servePort, "`port` to listen on, 0: any", true)
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "show each file")
	c.Flags().BoolVar(&read, "read", false, "also let clients list and fetch files")
	c.Flags().BoolVar(&readOnly, "read-only", false, "let clients list and fetch files, and write nothing")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON: a line for each client, each file, and the end")
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		root, err := os.OpenRoot(args[0])
		if err != nil {
			return usage.Of(err)
		}
		defer root.Close()
		return dev.With(c, func(d *verbs.Device) error {
			l, err := filecopy.Listen(c.Context(), d, net.JoinHostPort("", strconv.Itoa(int(port))))
			if err != nil {
				return cli.ListenError(err)
			}
			defer l.Close()
			log := serveLog{w: c.OutOrStdout(), device: d.Name(), verbose: verbose, json: asJSON}
			log.begin(args[0], l.Addr())
			err = (&filecopy.Server{Root: root, Readable: read || readOnly, ReadOnly: readOnly,
				Report: log.report}).Serve(c.Context(), l)
			if errors.Is(err, context.Canceled) {
				log.end()
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
	device  string
	verbose bool
	json    bool

	files, bytes, clients, failed int64
	sent, sentBytes               int64 // to clients
}

// served is a line of JSON: an event of a server.
type served struct {
	Event     string `json:"event"` // serving, connected, received, sent, failed, ended
	Address   string `json:"address,omitempty"`
	Directory string `json:"directory,omitempty"`
	Peer      string `json:"peer,omitempty"`
	*servedFile
	Error string `json:"error,omitempty"`
	*Counts
}

// servedFile is a file that a client has sent or fetched.
type servedFile struct {
	Name string `json:"name"`
	Size int64  `json:"size_bytes"`
	Kept int64  `json:"kept_bytes"` // that the receiver already had
}

// Counts counts the operations of a server from its beginning to its end.
type Counts struct {
	Clients       int64 `json:"connections"`
	Received      int64 `json:"received_files"`
	ReceivedBytes int64 `json:"received_bytes"`
	Sent          int64 `json:"sent_files"`
	SentBytes     int64 `json:"sent_bytes"`
	Failed        int64 `json:"failed"` // files
}

// line writes an event as JSON. Standard output keeps the error of a write.
func (l *serveLog) line(e served) { _ = cli.WriteJSONLine(l.w, e, l.device) }

// begin writes the directory that is served, and the address.
func (l *serveLog) begin(dir string, at netip.AddrPort) {
	if l.json {
		l.line(served{Event: "serving", Address: at.String(), Directory: dir})
		return
	}
	fmt.Fprintf(l.w, "%s: serving %s at %v\n", l.device, dir, at)
}

// end writes a summary.
func (l *serveLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.json {
		l.line(served{Event: "ended", Counts: &Counts{l.clients, l.files, l.bytes, l.sent, l.sentBytes, l.failed}})
		return
	}
	fmt.Fprintf(l.w, "%s, %s from %s, %d incomplete", units.Plural(l.files, "file"), units.Plural(l.bytes, "byte"),
		units.Plural(l.clients, "connection"), l.failed)
	if l.sent > 0 {
		fmt.Fprintf(l.w, "; %s, %s sent", units.Plural(l.sent, "file"), units.Plural(l.sentBytes, "byte"))
	}
	fmt.Fprintln(l.w)
}

// report counts an event, and writes it.
func (l *serveLog) report(e filecopy.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	event := l.count(&e)
	name := filecopy.Printable(e.Name)
	switch {
	case l.json:
		line := served{Event: event, Peer: e.Peer.String()}
		if e.Name != "" {
			line.servedFile = &servedFile{e.Name, e.Size, e.Kept}
		}
		if e.Err != nil {
			line.Error = e.Err.Error()
		}
		l.line(line)
	case event == "failed" && e.Name == "":
		fmt.Fprintf(l.w, "%v: %v\n", e.Peer, e.Err)
	case event == "failed":
		fmt.Fprintf(l.w, "%v: %s: not complete: %v\n", e.Peer, name, e.Err)
	case l.verbose && event == "sent":
		fmt.Fprintf(l.w, "%v: %s: %s sent, %s of them were there\n", e.Peer, name, units.Plural(e.Size, "byte"),
			units.Count(e.Kept))
	case l.verbose && event == "received":
		fmt.Fprintf(l.w, "%v: %s: %s, %s of them were there\n", e.Peer, name, units.Plural(e.Size, "byte"),
			units.Count(e.Kept))
	}
}

// count counts an event, and returns its name.
func (l *serveLog) count(e *filecopy.Event) string {
	switch {
	case e.Err != nil:
		if e.Name != "" {
			l.failed++
		}
		return "failed"
	case e.Name == "":
		l.clients++
		return "connected"
	case e.Sent:
		l.sent++
		l.sentBytes += e.Size
		return "sent"
	}
	l.files++
	l.bytes += e.Size
	return "received"
}
