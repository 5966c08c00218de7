// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Ping runs the client on a connection made with Options, and closes it. An interruption ends it
// like the last ping.
func (c *Config) Ping(ctx context.Context, conn *cm.Conn, out io.Writer) error {
	defer conn.Close()
	p := c.newPinger(ctx, conn, out)
	err := explain(p.pingAll())
	switch {
	case p.stats.pings > 0 && c.Summary != nil:
		c.Summary(p.stats.summary(c))
	case p.stats.pings > 0:
		fmt.Fprintf(out, "--- %s ping statistics ---\n", c.Address)
		p.stats.print(out, c.Validate)
	}
	switch {
	case errors.Is(err, context.Canceled) && p.stats.pings > 0:
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s ended the connection after %d pings: see what it says", c.Address, p.stats.pings)
	}
	return err
}

// pingAll sends the pings.
func (p *pinger) pingAll() error {
	source, err := p.register(verbs.RemoteRead)
	if err != nil {
		return err
	}
	defer source.Close()
	sink, err := p.register(verbs.LocalWrite | verbs.RemoteWrite)
	if err != nil {
		return err
	}
	defer sink.Close()
	defer p.conn.Close() // first: the peer writes to sink while the connection is established
	p.stats.begin()
	defer p.stats.end()
	for n := 0; p.Count == 0 || n < p.Count; n++ {
		if err := p.pingOnce(n, source, sink); err != nil {
			return err
		}
	}
	return nil
}

// pingOnce makes the server read the source and write the sink.
func (p *pinger) pingOnce(n int, source, sink *verbs.MR) error {
	size := p.Size
	source.Do(func(b []byte) { fill(b[:size], n) })
	if p.Validate {
		sink.Do(func(b []byte) { clear(b[:size]) })
	}
	start := time.Now()
	for _, mr := range []*verbs.MR{source, sink} {
		if err := p.send(message{Remote: mr.Remote(), Size: uint32(size)}); err != nil {
			return err
		}
		if _, err := p.receive(); err != nil {
			return err
		}
	}
	p.stats.add(time.Since(start), size)
	var err error
	if p.Validate {
		sink.Do(func(got []byte) { err = compare(got, source.Bytes()[:size], n) })
	}
	if p.Verbose {
		p.show("ping data", sink, size)
	}
	return err
}
