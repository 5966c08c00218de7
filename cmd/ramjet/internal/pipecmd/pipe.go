// SPDX-License-Identifier: Apache-2.0

// Package pipecmd is `ramjet pipe`: standard input and output over a connection.
package pipecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/rnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// pipeFlags are the flags of pipe.
type pipeFlags struct {
	dev     cli.DeviceFlags
	listen  bool
	verbose bool
	json    bool
	timeout time.Duration
}

// New returns `ramjet pipe`.
func New() *cobra.Command {
	f := &pipeFlags{}
	c := &cobra.Command{
		Use:   "pipe {HOST PORT | -l [ADDR:]PORT}",
		Short: "Connect standard input and output with a peer's: netcat over RDMA",
		Long: "Connect to a peer, or wait for one. Standard input goes to the peer, and what the peer sends goes to standard output. The end of the input closes\n" +
			"only that direction; the command ends when both are closed. The protocol is that of rsockets, so the other side\n" +
			"may be any program that uses them.",
		Example: "  ramjet pipe -l 7000 >copy                               # one side\n" +
			"  ramjet pipe -d roce:127.0.0.2 127.0.0.1 7000 <original  # the other",
		Args: cli.Arguments(1, 2),
	}
	f.dev.Add(c)
	c.Flags().BoolVarP(&f.listen, "listen", "l", false, "wait for a peer; the address chooses the device too")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "tell of the connection on standard error")
	c.Flags().BoolVar(&f.json, "json", false,
		"at the end write what was sent and received to standard error, as a line of JSON")
	cli.AddTimeoutFlag(c, &f.timeout)
	return cli.Leaf(c, func(c *cobra.Command, args []string) error {
		address, err := f.address(c, args)
		if err != nil {
			return err
		}
		if f.listen {
			f.dev.Local, _, _ = net.SplitHostPort(address)
		} else {
			f.dev.Peer = address
		}
		log := io.Discard
		if f.verbose {
			log = c.ErrOrStderr()
		}
		return f.dev.With(c, func(dev *verbs.Device) error {
			conn, err := f.connect(c.Context(), dev, address, log)
			if err != nil {
				return err
			}
			fmt.Fprintf(log, "connected with %v\n", conn.RemoteAddr())
			signal.Ignore(syscall.SIGPIPE) // a failed write is reported to the peer too
			p := &piped{conn: conn, began: time.Now()}
			err = p.run(c.Context(), c.InOrStdin(), cli.Verbatim(c.OutOrStdout()))
			if f.json {
				err = errors.Join(err, p.writeJSON(c.ErrOrStderr(), dev.Name()))
			}
			return err
		})
	})
}

// address returns the address to listen on or to dial.
func (f *pipeFlags) address(c *cobra.Command, args []string) (string, error) {
	host, port := args[0], args[len(args)-1]
	switch {
	case f.listen && len(args) == 2:
		return "", cli.Usagef("--listen takes one argument: PORT or ADDR:PORT")
	case !f.listen && len(args) == 1:
		h, p := cli.HostPort(host)
		if p == 0 {
			return "", cli.Usagef("give HOST and PORT of the peer, or HOST:PORT, or --listen")
		}
		host, port = h, strconv.Itoa(int(p))
	case f.listen:
		host = ""
		if h, p, err := net.SplitHostPort(port); err == nil {
			host, port = h, p
		}
		if host != "" && !c.Flags().Changed("device") {
			f.dev.Device = kinds.Default().NameAt(host).String()
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", cli.Usagef("%q is not a port: give 1 to 65535", port)
	}
	return net.JoinHostPort(host, port), nil
}

// connect dials, or waits for one peer.
func (f *pipeFlags) connect(ctx context.Context, dev *verbs.Device, address string, log io.Writer) (*rnet.Conn, error) {
	if !f.listen {
		limit, cancel := context.WithTimeout(ctx, f.timeout)
		defer cancel()
		conn, err := rnet.Dial(limit, dev, address)
		switch {
		case err == nil:
			return conn, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			err = fmt.Errorf("%s: %w after %s", address, cm.ErrTimeout, units.Period(f.timeout))
		}
		return nil, cli.DialError(err, dev, "`ramjet pipe -l` or a program on rsockets")
	}
	l, err := rnet.Listen(ctx, dev, address)
	if err != nil {
		return nil, cli.ListenError(err)
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	fmt.Fprintf(log, "waiting at %v\n", l.Addr())
	conn, err := l.AcceptConn()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return conn, err
}

// closeTime limits how long an interrupted pipe waits for the peer to receive written data.
const closeTime = time.Second

// piped is a connection, and the number of bytes that it has carried.
type piped struct {
	conn           *rnet.Conn
	began          time.Time
	sent, received atomic.Int64 // bytes
}

// counted is a writer that counts its bytes.
type counted struct {
	io.Writer
	sum *atomic.Int64 // bytes
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.sum.Add(int64(n))
	return n, err
}

// writeJSON writes the figures of the connection, also if it failed.
func (p *piped) writeJSON(w io.Writer, device string) error {
	return cli.WriteJSONLine(w, struct {
		Address  string        `json:"address"` // of this side
		Peer     string        `json:"peer"`
		Sent     int64         `json:"sent_bytes"`
		Received int64         `json:"received_bytes"`
		Elapsed  time.Duration `json:"elapsed_ns"`
	}{p.conn.LocalAddr().String(), p.conn.RemoteAddr().String(), p.sent.Load(), p.received.Load(), time.Since(p.began)},
		device)
}

// run copies both ways until both are closed, or one fails, or the peer is gone.
func (p *piped) run(ctx context.Context, in io.Reader, out io.Writer) error {
	conn := p.conn
	defer closePipe(ctx, conn)
	sent, received, gone := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	var complete atomic.Bool // all input is written, and the peer may close as soon as it has read it
	go func() {              // may stay behind, in a read from a terminal
		err := copyStream(counted{conn, &p.sent}, in)
		if err == nil {
			complete.Store(true)
			err = conn.CloseWrite()
		}
		sent <- err
	}()
	go func() { received <- copyStream(counted{out, &p.received}, conn) }()
	for sent != nil || received != nil {
		var err error
		select {
		case err = <-sent:
			sent = nil
		case err = <-received:
			received = nil
			if err == nil && sent != nil { // the pipe does not wait for the peer any more
				stop := make(chan struct{})
				defer close(stop)
				go func() { gone <- awaitEnd(conn, stop) }()
			}
		case err = <-gone:
			if !complete.Load() {
				return err
			}
			gone = nil // CloseWrite says whether all has arrived
			continue
		case <-ctx.Done():
			return ctx.Err()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// closePipe closes a connection. It waits for written data to arrive, but only briefly after an
// interruption.
func closePipe(ctx context.Context, conn *rnet.Conn) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		conn.Close()
	}()
	select {
	case <-closed:
		return
	case <-ctx.Done():
	}
	select {
	case <-closed:
	case <-time.After(closeTime):
	}
}

// awaitEnd waits until the peer has closed the connection, or does not answer the probes any more,
// and returns that as an error. It returns nil when stop is closed.
func awaitEnd(conn *rnet.Conn, stop <-chan struct{}) error {
	news := make(chan struct{}, 1)
	conn.Notify(func() {
		select {
		case news <- struct{}{}:
		default:
		}
	})
	for {
		switch r := conn.Arm(); {
		case r&rnet.PeerGone != 0:
			return fmt.Errorf("%v has closed the connection, and takes no more input: %w", conn.RemoteAddr(),
				syscall.EPIPE)
		case r&rnet.Broken != 0:
			_, err := conn.Write([]byte{0}) // returns why it cannot be sent
			return err
		}
		select {
		case <-news:
		case <-stop:
			return nil
		}
	}
}

// copyStream is io.Copy with a larger buffer.
func copyStream(to io.Writer, from io.Reader) error {
	const size = 256 << 10
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, size))
	return err
}
