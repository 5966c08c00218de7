// SPDX-License-Identifier: Apache-2.0

package rdmatest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"

	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
)

var (
	seedsFlag  = flag.Int("rdmatest.seeds", 0, "play `n` seeds instead of what tests ask for")
	firstFlag  = flag.Uint64("rdmatest.first", 0, "the first `seed`")
	seedFlag   = flag.Int64("rdmatest.seed", -1, "play this `seed` only, and keep its trace")
	faultsFlag = flag.String("rdmatest.faults", "",
		"let only drawn faults with these `numbers` strike, such as 1,3; none: no fault")
	jobsFlag = flag.Int("rdmatest.j", 1, "play in `n` processes")
	keepFlag = flag.String("rdmatest.keep", "", "the `directory` for traces; default: a temporary one")
)

// Run plays a test in the worlds of as many seeds, one after another, and fails t at the first that fails. With the
// race detector it plays a tenth of them.
func Run(t *testing.T, seeds int, test func(w *World)) {
	t.Helper()
	if seeds < 1 {
		t.Fatalf("rdmatest: Run plays %d seeds: nothing would be tested", seeds)
	}
	if raceDetector {
		seeds = seeds/10 + 1
	}
	if *seedsFlag > 0 {
		seeds = *seedsFlag
	}
	p := &player{t: t, test: test}
	switch {
	case *seedFlag >= 0:
		p.one(uint64(*seedFlag))
	case *jobsFlag > 1 && os.Getenv(childEnv) == "":
		p.inProcesses(*firstFlag, seeds)
	default:
		if f := p.find(*firstFlag, seeds); f != nil {
			t.Error(p.report(f))
		}
	}
}

// Failure is the result of [Find].
type Failure struct {
	// Seed is the first one that fails.
	Seed uint64
	// Texts describe the failures.
	Texts []string
	// World describes the world of the seed, without the faults that the failure does not need.
	World string
	// Faults are the numbers of the faults that it needs, of Drawn that the seed has.
	Faults []int
	Drawn  int

	steady bool // played again it went the same way
}

// Find plays a test as [Run] does, and returns the first failure; nil: there is none. It is for tests of tests: that
// they find a mistake that was made on purpose.
func Find(t *testing.T, seeds int, test func(w *World)) *Failure {
	t.Helper()
	return (&player{t: t, test: test}).find(0, seeds)
}

// player plays a test.
type player struct {
	t    *testing.T
	test func(*World)
}

// playing is held while a seed is played.
var playing sync.Mutex

// steady has goroutines go on in the same order each time: one at a time, and none stopped in its midst by the
// garbage collector, which runs between seeds instead.
func steady() (restore func()) {
	playing.Lock()
	procs, percent := runtime.GOMAXPROCS(1), debug.SetGCPercent(-1)
	return func() {
		runtime.GOMAXPROCS(procs)
		debug.SetGCPercent(percent)
		playing.Unlock()
	}
}

// outcome is the result of one seed.
type outcome struct {
	failures []string
	world    string
	faults   int
	logs     []string
}

// all lets all drawn faults strike.
func all(int) bool { return true }

// play plays the world of a seed, in a bubble of its own.
func (p *player) play(seed uint64, only func(int) bool, log *simnet.Log) (o outcome) {
	p.t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		dog := watch(seed)
		defer close(dog.stop)
		var w *World
		defer func() {
			e := recover()
			if w == nil {
				if e != nil {
					panic(e)
				}
				return
			}
			if e != nil && len(w.failures) == 0 {
				w.failures = append(w.failures, fmt.Sprintf("%v. Its goroutines:\n%s", e, waiting(w.bubble)))
			}
			o = outcome{w.failures, w.describe(), len(w.faults), w.logs}
		}()
		synctest.Test(t, func(t *testing.T) {
			w = newWorld(t, seed, only, log)
			dog.world.Store(w)
			w.play(p.test)
		})
	})
	return o
}

func newWorld(t *testing.T, seed uint64, only func(int) bool, log *simnet.Log) *World {
	w := &World{TB: t, seed: seed, net: simnet.New(seed, log), only: only, bubble: bubbleOf(),
		Rand: rand.New(rand.NewPCG(seed, 0x72616e64)), draws: rand.New(rand.NewPCG(seed, 0x64726177))}
	w.ctx, w.end = context.WithCancelCause(context.Background())
	return w
}

// one plays one seed, and keeps its trace.
func (p *player) one(seed uint64) {
	only, err := parseFaults(*faultsFlag)
	if err != nil {
		p.t.Fatal(err)
	}
	defer steady()()
	log := &simnet.Log{Packets: true}
	o := p.play(seed, only, log)
	fmt.Printf("seed %d stands for\n%s", seed, o.world)
	for _, l := range o.logs {
		fmt.Println("    log:", l)
	}
	files, err := keep(p.t.Name(), seed, log)
	if err != nil {
		p.t.Error(err)
	}
	fmt.Print("trace: ", files, "\n")
	if len(o.failures) > 0 {
		p.t.Errorf("seed %d: %s", seed, strings.Join(o.failures, "\n"))
	}
}

// parseFaults reads numbers of faults.
func parseFaults(text string) (only func(int) bool, err error) {
	switch text {
	case "":
		return all, nil
	case "none":
		return func(int) bool { return false }, nil
	}
	var list []int
	for s := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-rdmatest.faults: %q is no number of a fault: want some such as 1,3, or none", s)
		}
		list = append(list, n)
	}
	return func(n int) bool { return slices.Contains(list, n) }, nil
}

// find plays seeds until one fails.
func (p *player) find(first uint64, seeds int) *Failure {
	defer steady()()
	for seed := first; seed < first+uint64(seeds); seed++ {
		if os.Getenv(childEnv) != "" {
			fmt.Printf("%s%d\n", mark, seed)
		}
		var log simnet.Log
		o := p.play(seed, all, &log)
		if seed%16 == 15 {
			runtime.GC()
		}
		if len(o.failures) > 0 {
			return p.shrink(seed, o, &log)
		}
	}
	return nil
}

// shrink takes faults of a seed away, as long as it fails.
func (p *player) shrink(seed uint64, o outcome, log *simnet.Log) *Failure {
	f := &Failure{Seed: seed, Texts: o.failures, World: o.world, Drawn: o.faults}
	for n := range o.faults {
		f.Faults = append(f.Faults, n+1)
	}
	var again simnet.Log
	p.play(seed, all, &again)
	f.steady = bytes.Equal(log.Text, again.Text)
	try := func(list []int) bool {
		o := p.play(seed, func(n int) bool { return slices.Contains(list, n) }, nil)
		if len(o.failures) == 0 {
			return false
		}
		f.Texts, f.World, f.Faults = o.failures, o.world, list
		return true
	}
	if len(f.Faults) > 0 && try(nil) {
		return f
	}
	for fewer := true; fewer; runtime.GC() { // a fault may have been needed only beside faults that have gone
		fewer = false
		for i := len(f.Faults) - 1; i >= 0; i-- {
			fewer = try(slices.Delete(slices.Clone(f.Faults), i, i+1)) || fewer
		}
	}
	return f
}

// String returns the failure as text.
func (f *Failure) String() string {
	return fmt.Sprintf("seed %d: %s\n  The seed stands for\n%s  The failure needs %d of %d faults.", f.Seed,
		strings.Join(f.Texts, "\n"), f.World, len(f.Faults), f.Drawn)
}

// report plays a failure once more, keeps its trace, and returns the text that the test prints.
func (p *player) report(f *Failure) string {
	defer steady()()
	log := &simnet.Log{Packets: true}
	o := p.play(f.Seed, func(n int) bool { return slices.Contains(f.Faults, n) }, log)
	text := f.String()
	for _, l := range o.logs {
		text += "\n    log: " + l
	}
	files, err := keep(p.t.Name(), f.Seed, log)
	if err != nil {
		files = err.Error()
	}
	text += "\n  trace: " + files
	again := fmt.Sprintf("go test -run '^%s$' -rdmatest.seed %d", strings.ReplaceAll(p.t.Name(), "/", "$/^"), f.Seed)
	if len(f.Faults) < f.Drawn {
		numbers := strings.Trim(strings.ReplaceAll(fmt.Sprint(f.Faults), " ", ","), "[]")
		if numbers == "" {
			numbers = "none"
		}
		again += " -rdmatest.faults " + numbers
	}
	text += "\n  again: " + again
	switch {
	case !f.steady && raceDetector:
		text += "\n  Played again it went otherwise: with the race detector goroutines go on in random order."
	case !f.steady:
		text += "\n  Played again it went otherwise: something does not follow from the seed, or the machine was busy."
	}
	return text
}

// keep writes the trace to files, and returns their names.
func keep(test string, seed uint64, log *simnet.Log) (files string, err error) {
	dir := *keepFlag
	if dir == "" {
		if dir, err = os.MkdirTemp("", "rdmatest-"); err != nil {
			return "", err
		}
	}
	name := filepath.Join(dir, fmt.Sprintf("%s-seed-%d", strings.ReplaceAll(test, "/", "-"), seed))
	if err := os.WriteFile(name+".txt", log.Text, 0o666); err != nil {
		return "", err
	}
	f, err := os.Create(name + ".pcapng")
	if err == nil {
		err = errors.Join(log.WritePackets(f), f.Close())
	}
	return name + ".txt, " + name + ".pcapng", err
}
