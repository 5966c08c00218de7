// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// serve is the server: of one client, or of many until it is interrupted.
func (f *pingFlags) serve(ctx context.Context, dev *verbs.Device, out io.Writer) error {
	l, err := cm.Listen(dev, f.address(), f.options()...)
	if err != nil {
		return listenError(err)
	}
	defer l.Close()
	fmt.Fprintf(out, "%s: waiting for clients at %v\n", dev.Name(), l.Addr())
	if !f.persistent {
		conn, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		l.Close()
		return f.servePeer(ctx, conn, out)
	}
	lines := &lineWriter{w: out}
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := l.Accept(ctx)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		wg.Go(func() {
			if err := f.servePeer(ctx, conn, lines); err != nil {
				fmt.Fprintf(lines, "%v: %v\n", conn.PeerAddr(), err)
			}
		})
	}
}

// servePeer answers one client until it ends the connection, and says how it went.
func (f *pingFlags) servePeer(ctx context.Context, conn *cm.Conn, out io.Writer) error {
	defer conn.Close()
	p := f.newPinger(ctx, conn, out)
	err := pingError(p.answerAll())
	var text bytes.Buffer // at once, for many clients share the output
	fmt.Fprintf(&text, "--- %v ping statistics ---\n", conn.PeerAddr())
	p.stats.print(&text, f.validate)
	out.Write(text.Bytes())
	if errors.Is(err, io.EOF) || errors.Is(err, cm.ErrDisconnected) || errors.Is(err, context.Canceled) {
		return nil // the client may have been interrupted in the middle of a ping
	}
	return err
}

// answerAll answers pings until the connection ends; then the error is io.EOF.
func (p *pinger) answerAll() error {
	mr, err := p.register(verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer mr.Close()
	p.stats.begin()
	defer p.stats.end()
	want := make([]byte, pingMaxSize)
	for n := 0; ; n++ {
		if err := p.answerOnce(n, mr, want); err != nil {
			return err
		}
	}
}

// answerOnce reads the client's data and writes it back. Only what comes before the first
// zero byte is written, and that byte, as rping does.
func (p *pinger) answerOnce(n int, mr *verbs.MR, want []byte) error {
	source, err := p.receive()
	if err != nil {
		return err
	}
	size := int(source.Size)
	if source.Size == 0 || source.Size > pingMaxSize {
		return fmt.Errorf("the client has pings of %d bytes: 1 to %d can be answered", source.Size, pingMaxSize)
	}
	if err := p.conn.Read(p.ctx, mr.SGE(0, size), source.Remote); err != nil {
		return err
	}
	back := 0
	mr.Do(func(b []byte) {
		back = min(len(pingText(b[:size]))+1, size)
		if p.validate {
			fillPing(want[:size], n)
			err = comparePing(b, want[:size], n)
		}
	})
	if err != nil {
		return err
	}
	if p.verbose {
		p.show("server ping data", mr, size)
	}
	if err := p.send(pingMessage{}); err != nil {
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
	return p.send(pingMessage{})
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
