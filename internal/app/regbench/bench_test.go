// SPDX-License-Identifier: Apache-2.0

package regbench

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func newBench(t *testing.T, kind string) *Bench {
	t.Helper()
	open := func(addr string) (*verbs.Device, error) { return ramjet.Open(kind + addr) }
	dev, _ := loopback.Open(t, open)
	peer, _ := loopback.Open(t, open)
	b, err := New(dev, peer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestMeasure measures small and odd sizes in all ways. Values that do not depend on time have to be right.
func TestMeasure(t *testing.T) {
	for _, kind := range []string{"roce:", "iwarp:"} {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t, kind)
			sizes := []int{1, 4096, 1<<20 + 5, 5 << 20}
			steps := 0
			results, err := b.Measure(t.Context(), Config{Sizes: sizes, Runs: 2, Chunk: 1 << 16},
				func(done, total int, _ *Result) {
					if done != steps || total != 2*len(sizes)*len(Modes) {
						t.Errorf("step %d is %d of %d", steps, done, total)
					}
					steps++
				})
			if err != nil {
				t.Fatal(err)
			}
			if steps != 2*len(sizes)*len(Modes) || len(results) != len(sizes)*len(Modes) {
				t.Fatalf("%d steps, %d results", steps, len(results))
			}
			for _, r := range results {
				if r.Error != "" {
					if !strings.Contains(r.Error, "not supported") && !strings.Contains(r.Error, "may pin") {
						t.Errorf("%s, %d bytes: %s", r.Mode, r.Size, r.Error)
					}
					continue
				}
				m := r.Median
				if len(r.Runs) != 2 || m.FirstByte <= 0 || m.Whole < m.FirstByte || m.Bandwidth <= 0 {
					t.Errorf("%+v", r)
				}
				if runtime.GOOS != "linux" {
					continue
				}
				pages := (r.Size + 4095) &^ 4095
				switch r.Mode {
				case Pinned, Cached:
					if m.Present != r.Size || m.Locked < pages {
						t.Errorf("%s, %d bytes: %d are present, %d locked", r.Mode, r.Size, m.Present, m.Locked)
					}
				case Pipelined, Deferred:
					if m.Locked < pages {
						t.Errorf("%s, %d bytes: %d are locked", r.Mode, r.Size, m.Locked)
					}
				default:
					if m.Locked != 0 {
						t.Errorf("%s, %d bytes: %d are locked", r.Mode, r.Size, m.Locked)
					}
				}
				if (r.Mode == OnDemand || r.Mode == Deferred) && m.Present != 0 {
					t.Errorf("%s, %d bytes: %d are present before the first use", r.Mode, r.Size, m.Present)
				}
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	b := newBench(t, "roce:")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := b.Measure(ctx, Config{Sizes: []int{4096}, Runs: 1, Steady: time.Hour},
		func(int, int, *Result) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestMedian(t *testing.T) {
	runs := []Run{{Register: 5, Present: 1}, {Register: 1, Present: 9}, {Register: 3, Present: 4}}
	if m := median(runs); m.Register != 3 || m.Present != 4 {
		t.Errorf("%+v", m)
	}
	if m := median(runs[:2]); m.Register != 3 || m.Present != 5 {
		t.Errorf("%+v", m)
	}
	if m := median(nil); m != (Run{}) {
		t.Errorf("%+v", m)
	}
}
