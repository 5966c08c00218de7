// SPDX-License-Identifier: Apache-2.0

// Package ping is both sides of `ramjet ping`, in the protocol of rdma-core's rping. For each ping
// the server reads the client's data with an RDMA READ, and writes it back with an RDMA WRITE.
package ping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Config configures a side.
type Config struct {
	Address    string        // client: the server's, for output
	Count      int           // client: pings, 0: until interrupted
	Size       int           // client: bytes of a ping, MinSize to MaxSize
	Persistent bool          // server: serve many clients
	Verbose    bool          // show the data of each ping
	Validate   bool          // compare every byte with the sent one
	Summary    func(Summary) // client: receives the summary in place of its text; nil: out does
	Timeout    time.Duration // of the connection's set-up

	limit int // of clients of a persistent server; 0: admission.Limit
}

// Options returns the options of connections: rping's depths and retries.
func (c *Config) Options() []cm.Option {
	const sends, recvs, longest = 16, 2, 64 // longer than any message, to detect others
	return []cm.Option{cm.WithReads(1, 1), cm.WithRetries(7, 7), cm.WithDepth(sends, recvs), cm.WithRecvSize(longest),
		cm.WithTimeout(c.Timeout)}
}

// pinger is one side of a connection.
type pinger struct {
	*Config
	ctx   context.Context
	conn  *cm.Conn
	out   io.Writer
	stats stats

	active func() // called for each message; nil: nothing
}

// newPinger takes over a connection.
func (c *Config) newPinger(ctx context.Context, conn *cm.Conn, out io.Writer) *pinger {
	return &pinger{Config: c, ctx: ctx, conn: conn, out: out, stats: newStats()}
}

// register allocates a buffer for the longest ping.
func (p *pinger) register(access verbs.Access) (*verbs.MR, error) {
	return p.conn.PD().AllocMR(MaxSize, access)
}

// send sends a message.
func (p *pinger) send(m message) error {
	return p.conn.Send(p.ctx, m.append(make([]byte, 0, messageLen)))
}

// silence is how long a side waits for a message before it checks that the peer is alive.
const silence = 3 * time.Second

// receive waits for a message. It returns io.EOF when the peer has ended the connection.
func (p *pinger) receive() (m message, err error) {
	for {
		limit, cancel := context.WithTimeout(p.ctx, silence)
		b, err := p.conn.Recv(limit)
		cancel()
		if err == nil {
			defer b.Release()
			if p.active != nil {
				p.active()
			}
			return m, m.decode(b.Bytes())
		}
		if p.ctx.Err() != nil {
			return m, p.ctx.Err()
		}
		if errors.Is(err, context.DeadlineExceeded) { // any live peer's device acknowledges a WRITE of no bytes
			if _, err = p.conn.Do(p.ctx, &verbs.SendWR{Op: verbs.OpWrite}); err == nil {
				continue
			}
		}
		return m, err
	}
}

// explain reports a vanished peer in the same words, whichever message noticed it.
func explain(err error) error {
	var s *verbs.StatusError
	if errors.As(err, &s) && s.Status == verbs.StatusRetryExceeded {
		return fmt.Errorf("the peer does not answer any more: %w", err)
	}
	return err
}

// show prints the text of a ping.
func (p *pinger) show(title string, mr *verbs.MR, size int) {
	var text []byte
	mr.Do(func(b []byte) { text = bytes.Clone(textOf(b[:size])) })
	fmt.Fprintf(p.out, "%s: %s\n", title, text)
}
