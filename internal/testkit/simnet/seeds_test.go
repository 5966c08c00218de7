// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"bytes"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/rdmatest"
)

var (
	only = flag.String("scenario", "", "play this scenario only")
	on   = flag.String("on", "", "play on devices of this kind only: infiniband")
)

// TestSeeds plays a world for each seed.
func TestSeeds(t *testing.T) {
	seeds := 100 // ./check plays 20,000
	if raceDetector {
		seeds = 300 // of which a tenth are played
	}
	rdmatest.Run(t, seeds, playOne)
}

func playOne(w *rdmatest.World) { play(w, *only, *on) }

// steady has goroutines go on in the same order each time: one at a time, and none stopped in its
// midst by the garbage collector, which runs between seeds instead.
func steady(t *testing.T) {
	procs, percent := runtime.GOMAXPROCS(1), debug.SetGCPercent(-1)
	t.Cleanup(func() {
		runtime.GOMAXPROCS(procs)
		debug.SetGCPercent(percent)
	})
}

// TestSameSeedSameTrace: all events follow from the seed, to the last byte of each packet and the
// nanosecond at which it leaves.
func TestSameSeedSameTrace(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector has goroutines go on in random order")
	}
	preempted := testrun.Preemptions(t)
	// once plays a seed. disturbed is that Go took the processor from a goroutine in its midst, as it does where a
	// machine has too much to do: then another one may go first.
	once := func(seed uint64) (got trace, disturbed bool) {
		log := &simnet.Log{Packets: true}
		preempted()
		if failed := simnet.Play(t, seed, log, playOne); len(failed) > 0 {
			t.Fatalf("seed %d: %v", seed, failed)
		}
		disturbed = preempted()
		var packets bytes.Buffer
		if err := log.WritePackets(&packets); err != nil {
			t.Fatal(err)
		}
		return trace{log.Text, log.Frames()}, disturbed
	}
	for seed := range uint64(20) {
		for try := 0; ; try++ {
			a, disturbed := once(seed)
			b, disturbedToo := once(seed)
			runtime.GC()
			if len(a.text) == 0 {
				t.Errorf("seed %d: nothing happened", seed)
			}
			what := a.differs(&b)
			if what == "" {
				break
			}
			if !disturbed && !disturbedToo {
				t.Fatalf("seed %d: two runs differ: %s", seed, what)
			}
			if try == 100 {
				t.Skip("this machine stops the test all the time")
			}
		}
	}
}

// trace is what happened in a world.
type trace struct {
	text   []byte
	frames [][]byte
}

// differs returns in what two traces differ; "": in nothing.
func (a *trace) differs(b *trace) string {
	if !bytes.Equal(a.text, b.text) {
		return difference(a.text, b.text)
	}
	if len(a.frames) != len(b.frames) {
		return fmt.Sprintf("%d packets and %d", len(a.frames), len(b.frames))
	}
	for i := range a.frames {
		if !bytes.Equal(a.frames[i], b.frames[i]) {
			return fmt.Sprintf("packet %d", i)
		}
	}
	return ""
}

// difference returns the first line in which two logs differ, and the lines around it.
func difference(a, b []byte) string {
	as, bs := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range min(len(as), len(bs)) {
		if !bytes.Equal(as[i], bs[i]) {
			from := max(0, i-4)
			return fmt.Sprintf("line %d of %d and %d:\n%s\n--\n%s", i+1, len(as), len(bs),
				bytes.Join(as[from:min(i+3, len(as))], []byte("\n")),
				bytes.Join(bs[from:min(i+3, len(bs))], []byte("\n")))
		}
	}
	return fmt.Sprintf("%d lines and %d", len(as), len(bs))
}
