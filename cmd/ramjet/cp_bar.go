// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"golang.org/x/term"
)

// copyBar shows how far a copy is, on a terminal; nil elsewhere.
type copyBar struct {
	w       progress.Writer
	tracker *progress.Tracker
	ended   chan struct{}
}

// newCopyBar starts a bar for a number of bytes.
func newCopyBar(w io.Writer, bytes int64) *copyBar {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || bytes == 0 {
		return nil
	}
	b := &copyBar{w: progress.NewWriter(), tracker: &progress.Tracker{Total: bytes, Units: progress.UnitsBytes, AutoStopDisabled: true}, ended: make(chan struct{})}
	b.w.SetOutputWriter(w)
	b.w.SetUpdateFrequency(100 * time.Millisecond)
	b.w.SetTrackerPosition(progress.PositionRight)
	b.w.SetMessageLength(30)
	b.w.SetTrackerLength(25)
	b.w.SetStyle(progress.StyleBlocks)
	b.w.Style().Visibility.ETA = true
	b.w.Style().Visibility.Speed = true
	b.w.AppendTracker(b.tracker)
	go func() {
		defer close(b.ended)
		b.w.Render()
	}()
	return b
}

// file says which file is on its way.
func (b *copyBar) file(name string) {
	if b != nil {
		b.tracker.UpdateMessage(name)
	}
}

// add counts bytes.
func (b *copyBar) add(n int64) {
	if b != nil {
		b.tracker.Increment(n)
	}
}

// log returns a writer of lines that do not disturb the bar.
func (b *copyBar) log(w io.Writer) io.Writer {
	if b == nil {
		return w
	}
	return barLog{b}
}

type barLog struct{ *copyBar }

func (l barLog) Write(p []byte) (int, error) {
	l.w.Log("%s", strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// stop shows the last state, and waits until it has been written.
func (b *copyBar) stop() {
	if b == nil {
		return
	}
	if b.tracker.Value() < b.tracker.Total {
		b.tracker.MarkAsErrored()
	} else {
		b.tracker.MarkAsDone()
	}
	b.w.Stop()
	<-b.ended
}
