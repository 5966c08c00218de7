// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"strings"
	"sync"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// output keeps the output of a world's programs.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// TestSubscribers: each subscriber gets all lines, which a ring has room for, and gets them whole.
func TestSubscribers(t *testing.T) {
	rdmatest.Run(t, 30, play)
}

// TestNumberFirst: a publisher that writes the number of a line before the line announces a line that is not there yet.
// The test finds that as soon as subscribers, without the checksum, believe it.
func TestNumberFirst(t *testing.T) {
	right, whole := put, checksum
	defer func() { put, checksum = right, whole }()
	checksum = func([]byte) uint32 { return 0 }
	put = func(ctx context.Context, conn *cm.Conn, slot verbs.SGE, to verbs.Remote) error {
		line := slot
		line.Addr, line.Length, slot.Length = slot.Addr+header, slot.Length-header, header
		if err := right(ctx, conn, slot, to); err != nil {
			return err
		}
		return right(ctx, conn, line, to.At(header))
	}
	f := rdmatest.Find(t, 1000, play)
	if f == nil || !strings.Contains(f.Texts[0], "subscribers have") {
		t.Fatalf("it is not found: %v", f)
	}
	t.Log(f)
}

// play has a publisher write lines to subscribers.
func play(w *rdmatest.World) {
	log.SetOutput(io.Discard)
	said := &output{}
	out = said
	lines := 1 + w.Rand.IntN(60)
	var text strings.Builder
	for i := range lines {
		fmt.Fprintln(&text, "line", i, strings.Repeat("x", i))
	}
	in = strings.NewReader(text.String())
	open := []func(*rdmatest.Host) *verbs.Device{(*rdmatest.Host).RoCE, (*rdmatest.Host).IWARP}[w.Rand.IntN(2)]
	publisher := w.Host("publisher")
	dev, number := open(publisher), 1+w.Rand.IntN(3)
	published := publisher.Go(func(ctx context.Context) error { return publish(ctx, dev, number) })
	var subscribers []*rdmatest.Task
	for i := range number {
		h := w.Host(fmt.Sprint("subscriber", i))
		dev := open(h)
		subscribers = append(subscribers,
			h.Go(func(ctx context.Context) error { return subscribe(ctx, dev, publisher.Addr().String()) }))
	}
	w.Draw(rdmatest.Packets | rdmatest.Passing)
	for _, s := range append(subscribers, published) {
		if err := s.Wait(); err != nil {
			w.Fatal(err)
		}
	}
	seen := make(map[string]int)
	for line := range strings.Lines(said.text.String()) {
		if strings.HasPrefix(line, "line ") {
			if !strings.Contains(text.String(), line) {
				w.Fatalf("nobody has published %q", line)
			}
			seen[line]++
		}
	}
	for line := range strings.Lines(text.String()) {
		if seen[line] != number {
			w.Fatalf("%d of %d subscribers have %q", seen[line], number, line)
		}
	}
}
