// SPDX-License-Identifier: Apache-2.0

package filecopy

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// fewClients makes a server take 8 clients at a time.
func fewClients(s *Server) { s.limit, s.Report = 8, nil }

// TestManySilentClients: silent clients, which have said nothing, asked for something or opened a file, do not keep
// others from copying, and do not end a copy.
func TestManySilentClients(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"mute", "asked", "opened"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, fewClients)
			var silent []*Client
			come := func(n int) {
				for range n {
					c := b.dial()
					silent = append(silent, c)
					switch kind {
					case "asked":
						_, err := c.Stat(b.ctx, "x")
						b.ok(err)
					case "opened":
						b.ok(c.send(b.ctx, open{File: 1, Size: 20 * testSegment,
							Name: fmt.Sprint("silent ", len(silent))}))
						_, err := c.answer(b.ctx, 1)
						b.ok(err)
					}
				}
			}
			path, data := b.source("honest", 10*testSegment)
			come(20)
			c := b.dial()
			var mu sync.Mutex // segments are copied at the same time
			next := time.Now()
			_, err := c.Put(b.ctx, path, "honest", func(int64) {
				mu.Lock()
				defer mu.Unlock()
				if kind == "mute" && time.Now().After(next) {
					come(1)
					next = time.Now().Add(10 * time.Millisecond)
				}
			})
			b.ok(err)
			b.same(path, "honest", data)
			if kind == "opened" { // the first has given way long ago
				_, err = silent[0].answer(b.ctx, 1)
				if err == nil {
					_, err = silent[0].answer(b.ctx, 1)
				}
			} else {
				_, err = silent[0].Stat(b.ctx, "x")
			}
			if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), errIdle.Error()) {
				t.Errorf("the silent client is told: %v", err)
			}
		})
	}
}

// TestSilentClientHoldsLittle: memory for one segment is granted at first.
func TestSilentClientHoldsLittle(t *testing.T) {
	var s *Server
	b := newBench(t, func(it *Server) { s = it })
	c := b.dial()
	b.ok(c.send(b.ctx, open{File: 1, Size: 20 * testSegment, Name: "silent"}))
	for range 2 { // have, grant
		_, err := c.answer(b.ctx, 1)
		b.ok(err)
	}
	if _, err := c.Stat(b.ctx, "x"); err != nil { // the grants are known now
		t.Fatal(err)
	}
	if n := s.granted.Load(); n != 1 {
		t.Errorf("%d segments are granted", n)
	}
	path, _ := b.source("honest", 10*testSegment)
	_, err := b.dial().Put(b.ctx, path, "honest", nil)
	b.ok(err)
	if n := s.granted.Load(); n != 1 {
		t.Errorf("%d segments are granted after a copy", n)
	}
	c.Close()
	for s.granted.Load() != 0 {
		if b.ctx.Err() != nil {
			t.Fatal("the segment of a client that left is kept")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestSegmentsInAll: beyond the limit of all segments a client still copies, one at a time.
func TestSegmentsInAll(t *testing.T) {
	var s *Server
	b := newBench(t, func(it *Server) { s = it })
	s.granted.Store(maxSegments)
	path, data := b.source("file", 5*testSegment+1)
	c := b.dial()
	_, err := c.Put(b.ctx, path, "file", func(int64) {
		if n := s.granted.Load(); n > maxSegments+1 {
			t.Errorf("%d segments are granted", n)
		}
	})
	b.ok(err)
	b.same(path, "file", data)
	if n := s.granted.Load(); n != maxSegments {
		t.Errorf("%d segments are granted after the copy", n)
	}
}
