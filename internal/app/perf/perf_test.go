// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// peerEnv makes the test binary the second process, with the kind of device that it names.
const peerEnv = "RAMJET_PERF_PEER"

// opener opens devices of a kind, with its options.
func opener(device string) func(netip.Addr) (*verbs.Device, error) {
	kind, options, more := strings.Cut(device, "?")
	if more {
		options = "?" + options
	}
	return func(local netip.Addr) (*verbs.Device, error) { return ramjet.Open(kind + local.String() + options) }
}

func TestMain(m *testing.M) {
	device := os.Getenv(peerEnv)
	if device == "" {
		os.Exit(m.Run())
	}
	if err := RunPeer(context.Background(), LoopbackAddress(), Options{Open: opener(device)}, os.Stdin,
		os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// start starts a second process, which ends with the test, and connects to it; device is their kind, empty: RoCEv2.
func start(t testing.TB, device string) (*Client, error) {
	if device == "" {
		device = "roce:"
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), peerEnv+"="+device)
	p, err := StartPeer(cmd)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("second process: %v", err)
		}
	})
	c, err := Dial(context.Background(), p.Address, LoopbackAddress(), Options{Open: opener(device)})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	return c, nil
}

// dial is start of a test that needs the process.
func dial(t testing.TB, device string) *Client {
	t.Helper()
	c, err := start(t, device)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// perProcess runs the subtests of a test with a second process. After a run that fails, perhaps because the process
// was lost, the next run starts another process.
type perProcess struct {
	t      *testing.T // the test, which the processes end with
	device string
	c      *Client
}

func (r *perProcess) try(ctx context.Context, cfg Config) (got *Result, err error) {
	if r.c == nil {
		if r.c, err = start(r.t, r.device); err != nil {
			return nil, err
		}
	}
	if got, err = r.c.Run(ctx, cfg); err != nil {
		r.c = nil
	}
	return got, err
}

func (r *perProcess) run(t *testing.T, cfg Config) *Result {
	t.Helper()
	got, err := r.try(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A lost process fails the subtest that it is lost in, and no other.
func TestLostPeer(t *testing.T) {
	r := &perProcess{t: t}
	cfg := Config{Op: Send, Mode: Latency, Iters: 10, Size: 64}
	r.run(t, cfg)
	r.c.Close()
	if _, err := r.try(t.Context(), cfg); err == nil {
		t.Fatal("the process is there")
	}
	checkResult(t, r.run(t, cfg))
}

// Every operation, transport and mode between two processes; the data is compared.
func TestEverything(t *testing.T) {
	c := &perProcess{t: t}
	for _, mode := range []Mode{Bandwidth, Latency} {
		for _, op := range []Op{Send, Write, Read, FetchAdd, CompareSwap} {
			for _, tr := range []Transport{RC, UC, UD} {
				for _, events := range []bool{false, true} {
					cfg := Config{Op: op, Mode: mode, Transport: tr, Iters: 70, Events: events, Size: 3000}
					if op.atomic() {
						cfg.Size = 8
					}
					d := cfg.WithDefaults()
					if d.Check() != nil {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/%s/events=%v", mode, op, tr, events), func(t *testing.T) {
						r := c.run(t, cfg)
						checkResult(t, r)
					})
				}
			}
		}
	}
}

func checkResult(t *testing.T, r *Result) {
	t.Helper()
	c := r.Config
	verified := r.Peer.Verified
	if c.Op == Read {
		verified = r.Local.Verified
	}
	if !verified && r.Lost == 0 {
		t.Errorf("the data was not verified: %+v", r)
	}
	want := uint64(c.Iters * c.QPs)
	switch {
	case c.Mode == Latency:
		if l := r.RoundTrip; r.Messages != want || l == nil || l.Trips != int64(want) || l.Min <= 0 || l.Min > l.P50 ||
			l.P50 > l.P99 ||
			l.P99 > l.P999 || l.P999 > l.Max {
			t.Errorf("%+v, round trips %+v", r, r.RoundTrip)
		}
	case c.Both:
		want *= 2
		fallthrough
	case c.Transport == RC || c.Op == Write:
		if r.Messages != want {
			t.Errorf("%d messages, want %d", r.Messages, want)
		}
	case r.Messages+r.Lost < want:
		t.Errorf("%d messages and %d lost, want %d", r.Messages, r.Lost, want)
	}
	if r.Messages > 1 && (r.BytesPerSecond <= 0 || r.MessagesPerSecond <= 0 || r.PeakPerSecond < 0 || r.Elapsed <= 0) {
		t.Errorf("no rate: %+v", r)
	}
}

// WRITEs over iWARP complete before they have arrived, and the other side compares its memory only after that.
func TestWritesArrive(t *testing.T) {
	c := &perProcess{t: t, device: "iwarp:"}
	for name, cfg := range map[string]Config{
		"one":         {Iters: 1, Size: 1 << 20},
		"queue pairs": {Iters: 1, Size: 1 << 20, QPs: 4},
		"events":      {Iters: 1, Size: 1 << 20, Events: true},
		"both ways":   {Iters: 1, Size: 1 << 20, Both: true},
		"short":       {Iters: 20, Size: 3000, TxDepth: 1, Outstanding: 1},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Op, cfg.Mode = Write, Bandwidth
			for range 10 {
				r := c.run(t, cfg)
				checkResult(t, r)
			}
		})
	}
}

// The effects of the other options.
func TestOptions(t *testing.T) {
	c := &perProcess{t: t}
	for name, cfg := range map[string]Config{
		"several queue pairs":   {Op: Write, Mode: Bandwidth, QPs: 5, Iters: 100, Size: 100},
		"receives of many":      {Op: Send, Mode: Bandwidth, QPs: 5, Iters: 300, Size: 100, RxDepth: 20, TxDepth: 16},
		"post list":             {Op: Send, Mode: Bandwidth, PostList: 7, Iters: 100, Size: 64},
		"moderation":            {Op: Send, Mode: Bandwidth, CQMod: 128, TxDepth: 128, Iters: 333, Size: 64},
		"every completion":      {Op: Write, Mode: Bandwidth, CQMod: 1, Iters: 333, Size: 64},
		"inline":                {Op: Write, Mode: Bandwidth, Inline: 64, Iters: 333, Size: 64},
		"not inline":            {Op: Write, Mode: Latency, Inline: -1, Iters: 333, Size: 64},
		"both ways":             {Op: Send, Mode: Bandwidth, Both: true, Iters: 300, Size: 5000},
		"writes both ways":      {Op: Write, Mode: Bandwidth, Both: true, Iters: 300, Size: 5000},
		"reads both ways":       {Op: Read, Mode: Bandwidth, Both: true, Iters: 300, Size: 5000},
		"atomics both ways":     {Op: FetchAdd, Mode: Bandwidth, Both: true, Iters: 300, QPs: 2},
		"both ways with events": {Op: Send, Mode: Bandwidth, Both: true, Iters: 300, Size: 5000, Events: true},
		"small path MTU":        {Op: Read, Mode: Bandwidth, MTU: 256, Iters: 20, Size: 10000},
		"one read at a time":    {Op: Read, Mode: Bandwidth, Outstanding: 1, Iters: 50, Size: 10000},
		"long messages":         {Op: Write, Mode: Bandwidth, Iters: 3, Size: 8 << 20, TxDepth: 2},
		"one byte":              {Op: Write, Mode: Latency, Iters: 300, Size: 1},
		"one message":           {Op: Send, Mode: Bandwidth, Iters: 1, Size: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.run(t, cfg)
			checkResult(t, r)
		})
	}
	for _, mode := range []Mode{Bandwidth, Latency} {
		t.Run("duration/"+string(mode), func(t *testing.T) {
			cfg := Config{Op: Send, Mode: mode, Duration: 20 * time.Millisecond, Size: 64}
			r := c.run(t, cfg)
			if r.Messages == 0 || r.Elapsed < cfg.Duration || !r.Peer.Verified {
				t.Errorf("%+v", r)
			}
		})
	}
}
