// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/app/admission"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Serve serves one client, or many until it is interrupted. The listener was created with Options;
// name is that of its device.
func (c *Config) Serve(ctx context.Context, l *cm.Listener, name string, out io.Writer) error {
	defer l.Close()
	fmt.Fprintf(out, "%s: waiting for clients at %v\n", name, l.Addr())
	if !c.Persistent {
		conn, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		l.Close()
		return c.servePeer(ctx, conn, nil, out)
	}
	lines := &lineWriter{w: out}
	var wg sync.WaitGroup
	defer wg.Wait()
	var clients admission.Clients
	for {
		r, err := l.Next(ctx)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		n, here, err := clients.Enter(ctx, cmp.Or(c.limit, admission.Limit))
		if err != nil {
			r.Reject([]byte(err.Error()))
			continue
		}
		wg.Go(func() { // a peer that does not confirm delays no other
			defer n.Leave()
			conn, err := r.Accept(here)
			if err == nil {
				err = c.servePeer(here, conn, n.Active, lines)
			}
			if err != nil && here.Err() == nil {
				fmt.Fprintf(lines, "%v: %v\n", r.PeerAddr(), err)
			}
		})
	}
}

// servePeer answers one client until it ends the connection, and reports the outcome. active, which may be nil, is
// called for each message.
func (c *Config) servePeer(ctx context.Context, conn *cm.Conn, active func(), out io.Writer) error {
	defer conn.Close()
	p := c.newPinger(ctx, conn, out)
	p.active = active
	err := explain(p.answerAll())
	var text bytes.Buffer // written at once, because clients share the output
	fmt.Fprintf(&text, "--- %v ping statistics ---\n", conn.PeerAddr())
	p.stats.print(&text, c.Validate)
	out.Write(text.Bytes())
	if errors.Is(err, io.EOF) || errors.Is(err, cm.ErrDisconnected) || errors.Is(err, context.Canceled) {
		return nil // the client may have been interrupted during a ping
	}
	return err
}

// answerAll answers pings until the connection ends, which is io.EOF.
func (p *pinger) answerAll() error {
	mr, err := p.register(verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer mr.Close()
	p.stats.begin()
	defer p.stats.end()
	want := make([]byte, MaxSize)
	for n := 0; ; n++ {
		if err := p.answerOnce(n, mr, want); err != nil {
			return err
		}
	}
}

// answerOnce reads the client's data and writes it back. As in rping, it writes only up to the
// first zero byte.
func (p *pinger) answerOnce(n int, mr *verbs.MR, want []byte) error {
	source, err := p.receive()
	if err != nil {
		return err
	}
	size := int(source.Size)
	if source.Size == 0 || source.Size > MaxSize {
		return fmt.Errorf("the client has pings of %d bytes: 1 to %d can be answered", source.Size, MaxSize)
	}
	if err := p.conn.Read(p.ctx, mr.SGE(0, size), source.Remote); err != nil {
		return err
	}
	back := 0
	mr.Do(func(b []byte) {
		back = min(len(textOf(b[:size]))+1, size)
		if p.Validate {
			fill(want[:size], n)
			err = compare(b, want[:size], n)
		}
	})
	if err != nil {
		return err
	}
	if p.Verbose {
		p.show("server ping data", mr, size)
	}
	if err := p.send(message{}); err != nil {
		return err
	}
	sink, err := p.receive()
	if err != nil {
		return err
	}
	if uint64(sink.Size) < uint64(back) {
		return fmt.Errorf("the client has sent %d bytes, and takes back %d", back, sink.Size)
	}
	if err := p.conn.Write(p.ctx, mr.SGE(0, back), sink.Remote); err != nil {
		return err
	}
	p.stats.pings++
	p.stats.bytes += int64(size)
	return p.send(message{})
}

// lineWriter lets several goroutines write whole lines to one output.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
