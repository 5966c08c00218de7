// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// pingFlags are what the command line says.
type pingFlags struct {
	dev        deviceFlags
	server     bool
	client     bool
	persistent bool
	addr       string
	port       uint16
	count      int
	size       byteSize
	verbose    bool
	validate   bool
	timeout    time.Duration
}

func newPingCmd() *cobra.Command {
	f := &pingFlags{size: 64}
	c := &cobra.Command{
		Use:   "ping {-s | -c -a HOST}",
		Short: "Ping a server with READs and WRITEs: another Ramjet, or rdma-core's rping",
		Long: "For each ping the server reads the client's data with an RDMA READ and writes it back with an RDMA WRITE.\n" +
			"Connections are made by the connection manager. The other side may be rping, whose flags these are.",
		Example: "  ramjet ping -s -d roce:127.0.0.1                          # the server\n" +
			"  ramjet ping -c -d roce:127.0.0.2 -a 127.0.0.1 -V -C 10    # its client",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q is no flag: give the server's address with --addr (-a)", args[0])
			}
			return nil
		},
	}
	f.dev.add(c)
	fl := c.Flags()
	fl.BoolVarP(&f.server, "server", "s", false, "wait for a client")
	fl.BoolVarP(&f.client, "client", "c", false, "ping a server")
	fl.BoolVarP(&f.persistent, "persistent", "P", false, "server: serve many clients, until interrupted")
	fl.StringVarP(&f.addr, "addr", "a", "", "client: the server's `address`; server: the address to listen on, which also chooses the device")
	addPortFlag(c, &f.port, 7174, "`port` of the server", false)
	fl.IntVarP(&f.count, "count", "C", 0, "client: `number` of pings, 0: until interrupted")
	fl.VarP(&f.size, "size", "S", fmt.Sprintf("client: `bytes` of a ping, %d to %d", pingMinSize, pingMaxSize))
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "show the data of each ping")
	fl.BoolVarP(&f.validate, "validate", "V", false, "compare every byte with what was sent")
	addTimeoutFlag(c, &f.timeout)
	c.MarkFlagsMutuallyExclusive("server", "client")
	c.MarkFlagsOneRequired("server", "client")
	return leaf(c, func(c *cobra.Command, _ []string) error {
		if err := f.check(c); err != nil {
			return err
		}
		return f.dev.with(c.ErrOrStderr(), func(dev *verbs.Device) error {
			if f.server {
				return f.serve(c.Context(), dev, c.OutOrStdout())
			}
			return f.ping(c.Context(), dev, c.OutOrStdout())
		})
	})
}

// check finds flags that do not go together.
func (f *pingFlags) check(c *cobra.Command) error {
	switch {
	case f.client && f.addr == "":
		return usagef("--client needs the server's address: give it with --addr")
	case f.client && f.persistent:
		return usagef("--persistent is for servers: give --count to clients")
	case f.count < 0:
		return usagef("--count %d: give a number of pings, or 0", f.count)
	case f.size < pingMinSize || f.size > pingMaxSize:
		return usagef("--size %d: give %d to %d bytes", f.size, pingMinSize, pingMaxSize)
	}
	if f.server && f.addr != "" && !c.Flags().Changed("device") {
		f.dev.device = "roce:" + f.addr
	}
	return nil
}

// address is the server's.
func (f *pingFlags) address() string { return net.JoinHostPort(f.addr, strconv.Itoa(int(f.port))) }

// options are those of connections: rping's depths and retries.
func (f *pingFlags) options() []cm.Option {
	const sends, recvs, longest = 16, 2, 64 // longer than any message, to see what else comes
	return []cm.Option{cm.WithReads(1, 1), cm.WithRetries(7, 7), cm.WithDepth(sends, recvs), cm.WithRecvSize(longest), cm.WithTimeout(f.timeout)}
}

// pinger is one side of a connection.
type pinger struct {
	*pingFlags
	ctx   context.Context
	conn  *cm.Conn
	out   io.Writer
	stats pingStats
}

// newPinger takes over a connection.
func (f *pingFlags) newPinger(ctx context.Context, conn *cm.Conn, out io.Writer) *pinger {
	return &pinger{pingFlags: f, ctx: ctx, conn: conn, out: out, stats: newPingStats()}
}

// register makes a buffer for the longest ping.
func (p *pinger) register(access verbs.Access) (*verbs.MR, error) {
	return p.conn.PD().AllocMR(pingMaxSize, access)
}

// send sends a message.
func (p *pinger) send(m pingMessage) error {
	return p.conn.Send(p.ctx, m.append(make([]byte, 0, pingMessageLen)))
}

// pingSilence is how long a side waits for a message before it makes sure that the peer
// still lives.
const pingSilence = 3 * time.Second

// receive waits for a message; io.EOF when the peer has ended the connection.
func (p *pinger) receive() (m pingMessage, err error) {
	for {
		limit, cancel := context.WithTimeout(p.ctx, pingSilence)
		b, err := p.conn.Recv(limit)
		cancel()
		if err == nil {
			defer b.Release()
			return m, m.decode(b.Bytes())
		}
		if p.ctx.Err() != nil {
			return m, p.ctx.Err()
		}
		if errors.Is(err, context.DeadlineExceeded) { // a WRITE of nothing is acknowledged by whoever is there
			if _, err = p.conn.Do(p.ctx, &verbs.SendWR{Op: verbs.Write}); err == nil {
				continue
			}
		}
		return m, err
	}
}

// pingError says of a peer that has vanished that it did, whichever message noticed it.
func pingError(err error) error {
	var s *verbs.StatusError
	if errors.As(err, &s) && s.Status == verbs.RetryExceeded {
		return fmt.Errorf("the peer does not answer any more: %w", err)
	}
	return err
}

// show prints the text of a ping.
func (p *pinger) show(title string, mr *verbs.MR, size int) {
	var text []byte
	mr.Do(func(b []byte) { text = bytes.Clone(pingText(b[:size])) })
	fmt.Fprintf(p.out, "%s: %s\n", title, text)
}
