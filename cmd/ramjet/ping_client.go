// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// ping is the client. An interruption ends it like the last ping does.
func (f *pingFlags) ping(ctx context.Context, dev *verbs.Device, out io.Writer) error {
	conn, err := cm.Dial(ctx, dev, f.address(), f.options()...)
	if err != nil {
		return dialError(err, dev, "`ramjet ping -s` or rping -s")
	}
	defer conn.Close()
	p := f.newPinger(ctx, conn, out)
	err = pingError(p.pingAll())
	if p.stats.pings > 0 {
		fmt.Fprintf(out, "--- %s ping statistics ---\n", f.address())
		p.stats.print(out, f.validate)
	}
	switch {
	case errors.Is(err, context.Canceled) && p.stats.pings > 0:
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s ended the connection after %d pings: see what it says", f.address(), p.stats.pings)
	}
	return err
}

// pingAll pings as often as the flags say.
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
	defer p.conn.Close() // first: the peer writes to sink as long as the connection stands
	p.stats.begin()
	defer p.stats.end()
	for n := 0; p.count == 0 || n < p.count; n++ {
		if err := p.pingOnce(n, source, sink); err != nil {
			return err
		}
	}
	return nil
}

// pingOnce lets the server read the source and write the sink.
func (p *pinger) pingOnce(n int, source, sink *verbs.MR) error {
	size := int(p.size)
	source.Do(func(b []byte) { fillPing(b[:size], n) })
	if p.validate {
		sink.Do(func(b []byte) { clear(b[:size]) })
	}
	start := time.Now()
	for _, mr := range []*verbs.MR{source, sink} {
		if err := p.send(pingMessage{Remote: mr.Remote(), Size: uint32(size)}); err != nil {
			return err
		}
		if _, err := p.receive(); err != nil {
			return err
		}
	}
	p.stats.add(time.Since(start), size)
	var err error
	if p.validate {
		sink.Do(func(got []byte) { err = comparePing(got, source.Bytes()[:size], n) })
	}
	if p.verbose {
		p.show("ping data", sink, size)
	}
	return err
}
