// SPDX-License-Identifier: Apache-2.0

package rdmatest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/check"
	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
)

// World is a network of hosts in virtual time, and the test that is played on it. It is a [testing.TB], for
// helpers. A failure is reported when the faults that it does not need have been taken away.
type World struct {
	testing.TB
	// Rand draws the numbers that the test makes up. It belongs to the goroutine of the function that Run has called:
	// give others a generator of their own.
	Rand *rand.Rand

	seed   uint64
	net    *simnet.Net
	bubble string               // the text in the headers of its goroutines in a dump
	only   func(fault int) bool // which of the drawn faults strike
	draws  *rand.Rand           // for Draw

	checker *check.Checker // of all hosts; nil: nothing is checked

	ctx context.Context // ends when the test has ended
	end context.CancelCauseFunc

	mu       sync.Mutex
	hosts    []*Host
	fabrics  []*simnet.Fabric
	tasks    []*Task
	cleanups []func()
	story    []string
	faults   []string
	failures []string
	logs     []string
	skipped  bool
	over     bool
	closing  sync.WaitGroup // devices of processes that were killed
}

// limit bounds a test in virtual time: a goroutine that waits for longer waits for ever.
const limit = 20 * time.Minute

// settle is how long programs have to end, in virtual time, when their test has.
const settle = time.Minute

var (
	errOver   = errors.New("rdmatest: the test is over")
	errKilled = errors.New("rdmatest: the process was killed")
	errOff    = errors.New("rdmatest: the host has no power")
)

// Seed returns the seed that the world follows from.
func (w *World) Seed() uint64 { return w.seed }

// Host adds a host, with a name of its own. It has an address, one link to the network, and a process: see [Host.Go].
func (w *World) Host(name string) *Host {
	w.mu.Lock()
	taken := slices.ContainsFunc(w.hosts, func(h *Host) bool { return h.name == name })
	w.mu.Unlock()
	if taken {
		w.Fatalf("rdmatest: there is a host %q already: each needs a name of its own", name)
	}
	h := &Host{w: w, name: name, sim: w.net.NewHost()}
	h.start()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts = append(w.hosts, h)
	return h
}

// Sleep is [time.Sleep] that ends at an instant at which nothing else happens: the order of two goroutines
// that go on at one instant would be random.
func (w *World) Sleep(d time.Duration) { w.net.Sleep(d) }

// After has f called after d, if the test runs for so long. f must not wait.
func (w *World) After(d time.Duration, f func()) {
	w.net.After(d, func() {
		w.mu.Lock()
		over := w.over
		w.mu.Unlock()
		if !over {
			f()
		}
	})
}

// Context ends when the test has ended.
func (w *World) Context() context.Context { return w.ctx }

// Path is the treatment of packets from one host to another, in one direction. The zero Path is perfect. The streams of
// iWARP and of [Host.Dial] are TCP's, which lose and reorder nothing: there a loss is a delay, and Duplicate, Reorder
// and Corrupt mean nothing.
type Path struct {
	Rate      int64         // bits a second; 0: sending takes no time
	Delay     time.Duration // of everything
	Loss      float64       // the probability that a packet is lost, from 0 to 1
	Duplicate float64       // the probability that a packet arrives twice
	Reorder   float64       // the probability that a packet is delayed by up to Jitter more; needs Jitter
	Jitter    time.Duration
	Corrupt   float64 // the probability that one bit of a packet is changed, which its CRC shows
	Cut       bool    // nothing arrives
}

// SetPath changes the path from one host to another, and not the way back. On InfiniBand packets feel it when they have
// crossed the cables and switches of their fabric, which have faults of their own: see [Fabric]. The packets of the
// subnet's manager do not feel it. A path that cannot be, such as one with a negative delay, fails the test, and
// changes nothing. A rule that a test sets is no drawn fault, and not taken away when a failure is shrunk, unless the
// test asks [World.Fault].
func (w *World) SetPath(from, to *Host, change func(*Path)) {
	var err error
	w.net.SetPath(from.sim, to.sim, func(p *simnet.Path) {
		q := Path{p.Rate, p.Delay, p.Loss, p.Duplicate, p.Reorder, p.Jitter, p.Corrupt, p.Cut}
		change(&q)
		if err = q.check(); err != nil {
			return
		}
		*p = simnet.Path{Rate: q.Rate, Delay: q.Delay, Loss: q.Loss, Duplicate: q.Duplicate, Reorder: q.Reorder,
			Jitter: q.Jitter, Corrupt: q.Corrupt, Cut: q.Cut, Dead: p.Dead}
	})
	if err != nil {
		w.Errorf("rdmatest: the path from %s to %s: %v", from, to, err)
	}
}

// check returns an error if a path is wrong.
func (p Path) check() error {
	for _, c := range []struct {
		name   string
		chance float64
	}{{"Loss", p.Loss}, {"Duplicate", p.Duplicate}, {"Reorder", p.Reorder}, {"Corrupt", p.Corrupt}} {
		if !(c.chance >= 0 && c.chance <= 1) {
			return fmt.Errorf("%s is %v: it is a probability from 0 to 1", c.name, c.chance)
		}
	}
	if p.Rate < 0 || p.Delay < 0 || p.Jitter < 0 {
		return fmt.Errorf("rate %d, delay %v, jitter %v: none of them can be negative", p.Rate, p.Delay, p.Jitter)
	}
	if p.Reorder > 0 && p.Jitter == 0 {
		return fmt.Errorf("with Reorder %v and Jitter 0 packets would keep their order", p.Reorder)
	}
	return nil
}

// Partition parts two hosts in both directions, or joins them again.
func (w *World) Partition(a, b *Host, parted bool) { w.net.Cut(a.sim, b.sim, parted) }

// Fault says that a fault of the test's own making strikes, and reports whether it does: it does not in runs that find
// out whether a failure needs it.
func (w *World) Fault(format string, args ...any) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.faults) + 1
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
	return w.only == nil || w.only(n)
}

// Say adds a line to the report's description of the seed.
func (w *World) Say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

// Task is a program that runs on a host.
type Task struct {
	w    *World
	h    *Host
	done chan struct{}
	err  error
	// failure is the text that the error is reported as; empty: it is excused, or Wait returns it.
	failure string
	waited  bool
}

// Wait waits until the program ends, and returns its error.
func (t *Task) Wait() error {
	t.w.mu.Lock()
	t.waited = true
	t.w.mu.Unlock()
	<-t.done
	return t.err
}

// run runs a program in a goroutine.
func (w *World) run(h *Host, ctx context.Context, f func(context.Context) error) *Task {
	t := &Task{w: w, h: h, done: make(chan struct{})}
	w.mu.Lock()
	w.tasks = append(w.tasks, t)
	w.mu.Unlock()
	go func() {
		defer close(t.done)
		defer w.recovered()
		t.err = f(ctx)
		if t.err != nil && ctx.Err() == nil {
			t.failure = w.failureOf(fmt.Sprintf("host %s: %v", h.name, t.err))
		}
	}()
	return t
}

// recovered makes a panic a failure.
func (w *World) recovered() {
	if p := recover(); p != nil {
		w.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// play plays the test, and closes the world. It is called in a bubble.
func (w *World) play(test func(*World)) {
	defer w.net.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer w.recovered()
		test(w)
	}()
	select {
	case <-done:
	case <-time.After(limit):
		w.Errorf("the test has not ended after %v of virtual time. Its goroutines:\n%s", limit, waiting(w.bubble))
	}
	w.close()
	select {
	case <-done:
	case <-time.After(settle):
	}
}

// close ends the programs, devices and fabrics of the world.
func (w *World) close() {
	w.mu.Lock()
	w.over = true
	cleanups, tasks, hosts := w.cleanups, w.tasks, w.hosts
	w.mu.Unlock()
	for i := len(cleanups) - 1; i >= 0; i-- {
		func() {
			defer w.recovered()
			cleanups[i]()
		}()
	}
	w.end(errOver)
	late := time.NewTimer(settle)
	defer late.Stop()
	var slow []string
	for _, t := range tasks {
		select {
		case <-t.done:
		case <-late.C:
			late.Reset(0)
			if t.h != nil {
				slow = append(slow, t.h.name)
			}
		}
	}
	w.mu.Lock()
	for _, t := range tasks {
		select {
		case <-t.done:
			if t.failure != "" && !t.waited {
				w.failures = append(w.failures, t.failure)
			}
		default:
		}
	}
	w.mu.Unlock()
	if len(slow) > 0 && !w.Failed() {
		w.Errorf("programs of %s have not ended %v after their context. Their goroutines:\n%s",
			strings.Join(slow, ", "), settle, waiting(w.bubble))
	}
	for _, h := range hosts {
		for _, d := range h.takeDevices() {
			if err := d.Close(); err != nil {
				w.Errorf("closing the device of host %s: %v", h.name, err)
			}
		}
		h.sim.CloseSockets()
	}
	w.closing.Wait()
	for _, f := range w.fabrics {
		f.Close()
	}
}

// describe returns the description of the seed's world.
func (w *World) describe() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, s := range w.story {
		fmt.Fprintf(&b, "    %s\n", s)
	}
	for i, f := range w.faults {
		if w.only == nil || w.only(i+1) {
			fmt.Fprintf(&b, "    fault %d: %s\n", i+1, f)
		}
	}
	return b.String()
}

// Cleanup has f called when the test has ended, before devices are closed, last added first.
func (w *World) Cleanup(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cleanups = append(w.cleanups, f)
}

// failureOf returns a failure with the time.
func (w *World) failureOf(text string) string {
	return fmt.Sprintf("after %v: %s", w.net.Elapsed(), strings.TrimSuffix(text, "\n"))
}

// fail notes a failure.
func (w *World) fail(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, w.failureOf(text))
}

func (w *World) Error(args ...any)                 { w.fail(fmt.Sprintln(args...)) }
func (w *World) Errorf(format string, args ...any) { w.fail(fmt.Sprintf(format, args...)) }
func (w *World) Fail()                             { w.fail("failed") }
func (w *World) FailNow()                          { w.fail("failed"); runtime.Goexit() }
func (w *World) Fatal(args ...any)                 { w.fail(fmt.Sprintln(args...)); runtime.Goexit() }
func (w *World) Fatalf(format string, args ...any) {
	w.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// Failed reports whether the test has failed in this world.
func (w *World) Failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.failures) > 0
}

// Log keeps a line, which is printed if the test fails.
func (w *World) Log(args ...any) { w.log(fmt.Sprintln(args...)) }

// Logf keeps a line, which is printed if the test fails.
func (w *World) Logf(format string, args ...any) { w.log(fmt.Sprintf(format, args...)) }

func (w *World) log(text string) {
	text = strings.TrimSuffix(text, "\n")
	w.net.Note("log " + text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs = append(w.logs, fmt.Sprintf("%v %s", w.net.Elapsed(), text))
}

func (w *World) Skip(args ...any)                 { w.Log(args...); w.SkipNow() }
func (w *World) Skipf(format string, args ...any) { w.Logf(format, args...); w.SkipNow() }

// SkipNow ends the test in this world; other seeds are played.
func (w *World) SkipNow() {
	w.mu.Lock()
	w.skipped = true
	w.mu.Unlock()
	runtime.Goexit()
}

// Skipped reports whether the test has ended in this world by SkipNow.
func (w *World) Skipped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.skipped
}
