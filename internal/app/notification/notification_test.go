// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func TestMain(m *testing.M) {
	testrun.Waits()
	os.Exit(m.Run())
}

// pair opens two devices of a kind.
func pair(t *testing.T, kind string) (client, target *verbs.Device) {
	t.Helper()
	open := func(addr string) (*verbs.Device, error) { return ramjet.Open(kind + addr) }
	client, _ = loopback.Open(t, open)
	target, _ = loopback.Open(t, open)
	return client, target
}

// hasty returns c with its defaults, but for the figures' quality.
func (c Config) hasty() Config {
	c = c.WithDefaults()
	c.settle, c.patience, c.observe = time.Millisecond, 30*time.Millisecond, 10*time.Millisecond
	return c
}

// Every way is measured with every number of peers, over each kind of device. That each WRITE was
// learned of from the right peer, the measurement itself checks.
func TestEveryWay(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"roce:", "shm:", "iwarp:", "iwarp+sctp:"} {
		t.Run(strings.TrimSuffix(kind, ":"), func(t *testing.T) {
			t.Parallel()
			client, target := pair(t, kind)
			c := Config{Peers: []int{16, 1, 4}, Iterations: 33}.hasty()
			var told []Result
			steps := map[string]int{}
			results, err := Run(t.Context(), client, target, c, Observer{
				Step:   func(name string, done, total int) { steps[name] = total - done },
				Result: func(r Result) { told = append(told, r) },
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(results) != 9 || !slices.Equal(results, told) {
				t.Fatalf("%d results, %d told", len(results), len(told))
			}
			for i, r := range results {
				if want := []int{1, 4, 16}[i/3]; r.Peers != want || r.Way != Ways[i%3] {
					t.Errorf("result %d is of %d peers, %v", i, r.Peers, r.Way)
				}
				if d := r.Delay; d.Count != 33 || d.Min <= 0 || d.P50 < d.Min || d.P99 < d.P50 || d.Max < d.P99 ||
					d.Mean <= 0 {
					t.Errorf("%d peers, %v: %+v", r.Peers, r.Way, d)
				}
				if (r.Look != nil) != (r.Way != Event) || (r.Scan != nil) != (r.Way == Bytes) {
					t.Errorf("%d peers, %v: look %v, scan %v", r.Peers, r.Way, r.Look, r.Scan)
				}
				for _, l := range []*Look{r.Look, r.Scan} {
					if l != nil && (l.P50 <= 0 || l.P99 < l.P50) {
						t.Errorf("%d peers, %v: %+v", r.Peers, r.Way, *l)
					}
				}
				if r.Busy == nil != (runtime.GOOS == "windows") || r.Busy != nil && *r.Busy < 0 {
					t.Errorf("%d peers, %v: busy %v", r.Peers, r.Way, r.Busy)
				}
			}
			if len(steps) != 6 {
				t.Errorf("steps: %v", steps)
			}
			for name, left := range steps {
				if left != 0 {
					t.Errorf("%s: %d left in the end", name, left)
				}
			}
			for side, n := range map[string]int{"client": objects(t, client), "target": objects(t, target)} {
				if n != 0 {
					t.Errorf("the %s has %d queue pairs left", side, n)
				}
			}
		})
	}
}

// objects returns how many queue pairs a device has.
func objects(t *testing.T, dev *verbs.Device) int {
	t.Helper()
	qps, err := dev.QPStats()
	if err != nil {
		t.Fatal(err)
	}
	return len(qps)
}

// A duration instead of iterations, and bytes without a gap.
func TestDuration(t *testing.T) {
	t.Parallel()
	client, target := pair(t, "roce:")
	c := Config{Peers: []int{3}, Duration: time.Millisecond, Stride: 1}.hasty()
	results, err := Run(t.Context(), client, target, c, Observer{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Delay.Count < rounds { // one in each round at least
			t.Errorf("%v: %d WRITEs", r.Way, r.Delay.Count)
		}
	}
}

// A cancelled measurement ends with the context's cause, while connecting as while measuring, and leaves nothing
// open.
func TestCancel(t *testing.T) {
	t.Parallel()
	stop := errors.New("enough")
	for _, step := range []string{"connecting 4 peers", "measuring 1 peers"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			client, target := pair(t, "roce:")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			c := Config{Peers: []int{1, 4}, Iterations: 5}.hasty()
			results, err := Run(ctx, client, target, c, Observer{Step: func(name string, done, _ int) {
				if name == step && done == 2 {
					cancel(stop)
				}
			}})
			if !errors.Is(err, stop) {
				t.Errorf("%v", err)
			}
			if want := map[bool]int{true: 3}[strings.HasPrefix(step, "connecting")]; len(results) != want {
				t.Errorf("%d results, want %d", len(results), want)
			}
			if n := objects(t, client) + objects(t, target); n != 0 {
				t.Errorf("%d queue pairs left", n)
			}
		})
	}
}

// A target that learns of another peer than the writer, or sees another byte, reports an error.
func TestWrongPeer(t *testing.T) {
	for _, w := range Ways {
		for _, c := range []struct {
			peer  int64
			value uint32
			want  string // empty: nothing is wrong
		}{{0, 7, ""}, {1, 7, "learned of peer 0, but peer 1 wrote"},
			{0, 8, "byte of peer 0 is 7 at the target, not 8"}} {
			t.Run(fmt.Sprintf("%s/%d/%d", w, c.peer, c.value), func(t *testing.T) {
				client, target := pair(t, "roce:")
				g, err := newGroup(client, target, 1, 2)
				if err != nil {
					t.Fatal(err)
				}
				defer g.free()
				if err := g.grow(t.Context(), 2, func(int) {}); err != nil {
					t.Fatal(err)
				}
				g.target.peers = 2
				r := &round{group: g, way: w, delay: newHistogram(), start: time.Now()}
				r.peer.Store(c.peer)
				r.value.Store(c.value)
				ctx, end := context.WithCancelCause(t.Context())
				defer end(nil)
				learned := make(chan error, 1)
				go func() { learned <- r.learn(ctx) }()
				wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, Inline: []byte{7},
					Remote: g.target.mr.Remote()}
				if w != Bytes {
					wr.Op = verbs.OpWriteImm
				}
				if err := g.client.qps[0].PostSend(&wr); err != nil {
					t.Fatal(err)
				}
				if c.want == "" {
					if err := r.until(ctx, func() bool { return r.known.Load() == 1 }); err != nil {
						t.Fatal(err)
					}
					end(errOver)
					c.want = errOver.Error()
				}
				if err := <-learned; err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
			})
		}
	}
}

// A look for a byte goes through all of them, and goes on from where the last one ended.
func TestScan(t *testing.T) {
	const stride, peers = 3, 5
	tg := &target{stride: stride, peers: peers, seen: make([]byte, peers+1)}
	b := make([]byte, stride*(peers+1))
	look := func(want int) {
		t.Helper()
		if tg.scanBytes(b); tg.found != want {
			t.Errorf("found %d, want %d", tg.found, want)
		}
	}
	look(-1)
	b[3*stride]++
	look(3)
	look(-1)
	b[2*stride]++
	b[4*stride]++
	look(4)
	look(2)
	look(-1)
	b[peers*stride]++ // of no peer
	b[1]++
	look(-1)
}

// A round in which the machine did something else does not show in medians.
func TestDelayOf(t *testing.T) {
	var rounds []*hdrhistogram.Histogram
	for _, times := range [][]int64{{10, 20, 30}, {1000, 5000, 9000}, {12, 21, 33}} {
		h := newHistogram()
		for _, v := range times {
			if err := h.RecordValue(v); err != nil {
				t.Fatal(err)
			}
		}
		rounds = append(rounds, h)
	}
	if got, want := delayOf(rounds), (Delay{Count: 9, Min: 10, P50: 21, P99: 33, Max: 9007, Mean: 22}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestCheck(t *testing.T) {
	for want, c := range map[string]Config{
		"number of peers is 0":     {Peers: []int{4, 0}},
		"number of peers is 16385": {Peers: []int{MaxPeers + 1}},
		"stride is -1":             {Stride: -1},
		"stride is 4097":           {Stride: 4097},
		"iterations is -2":         {Iterations: -2},
		"neither":                  {Duration: -1},
		"exclude each other":       {Iterations: 1, Duration: 1},
	} {
		c = c.WithDefaults()
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	c := Config{}.WithDefaults()
	if err := c.Check(); err != nil || len(c.Peers) != 13 || c.Peers[0] != 1 || c.Peers[12] != 4096 {
		t.Errorf("%+v: %v", c, err)
	}
}
