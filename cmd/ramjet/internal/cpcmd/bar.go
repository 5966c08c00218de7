// SPDX-License-Identifier: Apache-2.0

package cpcmd

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/filecopy"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// copyBar shows the progress of a copy on a terminal; it is nil elsewhere.
type copyBar struct {
	line  *cli.BarLine
	total int64 // bytes
	done  atomic.Int64
	name  atomic.Pointer[string]
	began time.Time

	quit, ended chan struct{}
}

// newCopyBar starts a bar for a number of bytes.
func newCopyBar(w io.Writer, bytes int64) *copyBar {
	line := cli.NewBarLine(w)
	if line == nil || bytes == 0 {
		return nil
	}
	b := &copyBar{line: line, total: bytes, began: time.Now(), quit: make(chan struct{}), ended: make(chan struct{})}
	go b.run()
	return b
}

func (b *copyBar) run() {
	defer close(b.ended)
	tick := time.NewTicker(cli.BarPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.draw()
		case <-b.quit:
			return
		}
	}
}

func (b *copyBar) draw() {
	name, done := "", b.done.Load()
	if n := b.name.Load(); n != nil {
		name = *n
	}
	took := time.Since(b.began)
	b.line.Show(func(width int) string {
		return cli.BarText(width, name, done, b.total, units.Bytes(done)+" of "+units.Bytes(b.total),
			units.Rate(float64(done)/took.Seconds()), cli.TimeLeft(took, done, b.total))
	})
}

// file sets the current file.
func (b *copyBar) file(name string) {
	if b != nil {
		name = filecopy.Printable(name)
		b.name.Store(&name)
	}
}

// add counts bytes.
func (b *copyBar) add(n int64) {
	if b != nil {
		b.done.Add(n)
	}
}

// log returns a writer of lines to w that do not disturb the bar.
func (b *copyBar) log(w io.Writer) io.Writer {
	if b == nil {
		return w
	}
	return barLog{b.line, w}
}

type barLog struct {
	line *cli.BarLine
	w    io.Writer
}

func (l barLog) Write(p []byte) (n int, err error) {
	l.line.Aside(func() { n, err = l.w.Write(p) })
	return n, err
}

// stop removes the bar, before the summary.
func (b *copyBar) stop() {
	if b == nil {
		return
	}
	close(b.quit)
	<-b.ended
	b.line.Aside(func() {})
}
