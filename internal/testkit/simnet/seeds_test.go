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
	seeds := 200
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
	// undisturbed plays a seed until Go has taken the processor from no goroutine in its midst, as it
	// does where a machine has too much to do: then another one may go first.
	undisturbed := func(seed uint64) *simnet.Log {
		for range 100 {
			log := &simnet.Log{Packets: true}
			preempted()
			if failed := simnet.Play(t, seed, log, playOne); len(failed) > 0 {
				t.Fatalf("seed %d: %v", seed, failed)
			}
			if !preempted() {
				return log
			}
		}
		t.Skip("this machine stops the test all the time")
		return nil
	}
	for seed := range uint64(20) {
		a, b := undisturbed(seed), undisturbed(seed)
		if !bytes.Equal(a.Text, b.Text) {
			t.Errorf("seed %d: two runs differ: %s", seed, difference(a.Text, b.Text))
		}
		var pa, pb bytes.Buffer
		if err := a.WritePackets(&pa); err != nil {
			t.Fatal(err)
		}
		if err := b.WritePackets(&pb); err != nil {
			t.Fatal(err)
		}
		as, bs := a.Frames(), b.Frames()
		if len(as) != len(bs) {
			t.Fatalf("seed %d: %d packets and %d", seed, len(as), len(bs))
		}
		for i := range as {
			if !bytes.Equal(as[i], bs[i]) {
				t.Fatalf("seed %d: packet %d differs", seed, i)
			}
		}
		if len(a.Text) == 0 {
			t.Errorf("seed %d: nothing happened", seed)
		}
		runtime.GC()
	}
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
