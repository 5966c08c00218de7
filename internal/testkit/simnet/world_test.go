// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// world is what one seed makes up: a network, hosts with a device each, what befalls them, and the
// program that runs on them.
type world struct {
	net   *Net
	rand  *rand.Rand // of whoever makes the world up, in one goroutine
	iwarp bool
	hosts []*Host
	// fabric is what the hosts' adapters are at; nil: they are on RoCE or iWARP.
	fabric   *Fabric
	adapters []string // of the hosts
	devs     []*verbs.Device
	story    string // what the seed stands for, in a line

	lossless bool            // nothing befalls the fabric that loses packets
	calmly   bool            // nothing befalls anybody but what paths do
	fatal    bool            // what was begun need not end well
	ended    map[[2]int]bool // the hosts between which it need not: the lower number first

	over chan struct{} // closed when the program has ended
	calm sync.WaitGroup

	mu    sync.Mutex
	doing []string // what each side is at, for errors
}

// at notes what a side is at.
func (w *world) at(side int, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doing[side] = what
}

// was returns what a side is at.
func (w *world) was(side int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.doing[side]
}

// scenario is a program for devices of several hosts.
type scenario struct {
	name string
	most int  // hosts; 0: there are two, otherwise three or more
	roce bool // iWARP has no such thing
	// ethernet is that InfiniBand has no such thing either, or needs its administrator for it.
	ethernet bool
	run      func(w *world) error
}

var scenarios = []scenario{
	{name: "verbs", run: runVerbs},
	{name: "cm", run: runCM},
	{name: "rnet", run: runRnet},
	{name: "mesh", most: 5, run: runMesh},
	{name: "windows", run: runWindows},
	{name: "groups", most: 5, roce: true, ethernet: true, run: runGroups},
	{name: "churn", most: 5, run: runChurn},
	{name: "transports", roce: true, run: runTransports},
	{name: "rights", run: runRights},
}

// limit bounds a scenario in virtual time: nothing waits for longer, whatever happens.
const limit = 10 * time.Minute

// play runs the world of a seed. It is called in a bubble.
func play(seed uint64, log *Log, only, on string) (story string, err error) {
	w := &world{net: New(seed, log), over: make(chan struct{})}
	defer w.net.Close()
	w.rand = w.net.Rand
	sc := scenarios[w.rand.IntN(len(scenarios))]
	for only != "" && sc.name != only || on == "infiniband" && sc.ethernet {
		sc = scenarios[w.rand.IntN(len(scenarios))]
	}
	w.iwarp = !sc.roce && w.rand.IntN(2) == 1
	onFabric := !sc.ethernet && (seed%4 == 3 || on == "infiniband")
	switch {
	case onFabric:
		w.iwarp = false
		w.story = sc.name + " on infiniband"
	case w.iwarp:
		w.story = sc.name + " on iwarp"
		w.net.Default = w.newPath()
	default:
		w.story = sc.name + " on roce"
		w.net.Default = w.newPath()
	}
	hosts := 2
	if sc.most > 0 {
		hosts = 3 + w.rand.IntN(sc.most-2)
		w.tell(", %d hosts", hosts)
	}
	w.doing = make([]string, hosts)
	if onFabric {
		if err := w.startFabric(seed, hosts); err != nil {
			return w.story, err
		}
		defer w.fabric.Close()
	}
	for range hosts {
		h := w.net.NewHost()
		h.Pause = time.Duration(1+w.rand.IntN(30)) * time.Microsecond
		w.hosts = append(w.hosts, h)
		d, err := w.open(h)
		if err != nil {
			return w.story, err
		}
		w.devs = append(w.devs, d)
	}
	if onFabric {
		w.fabric.AwaitActive()
		if err := w.fabric.ClearCounters(infiniband.End{}); err != nil {
			return w.story, err
		}
		w.fabricTrouble()
	} else {
		w.trouble()
	}
	ended := make(chan error, 1)
	go func() { ended <- sc.run(w) }()
	select {
	case err = <-ended:
		close(w.over)
	case <-time.After(2 * limit):
		w.mu.Lock()
		err = fmt.Errorf("it has not ended: the sides are at %q", w.doing)
		w.mu.Unlock()
		close(w.over)
	}
	w.calm.Wait()
	if onFabric {
		err = errors.Join(err, w.lost())
	}
	for _, d := range w.devs {
		if e := d.Close(); e != nil {
			err = errors.Join(err, e)
		}
	}
	return w.story, err
}

// open opens a host's device.
func (w *world) open(h *Host) (*verbs.Device, error) {
	switch {
	case w.fabric != nil:
		return h.OpenInfiniBand(w.fabric, w.adapters[len(w.devs)])
	case w.iwarp:
		return h.OpenIWARP()
	}
	return h.OpenRoCE(), nil
}

func (w *world) tell(format string, a ...any) { w.story += fmt.Sprintf(format, a...) }

// newPath makes up a path: perfect, or with some of all faults.
func (w *world) newPath() Path {
	r := w.rand
	p := Path{Delay: time.Duration(1+r.IntN(50)) * time.Microsecond}
	if r.IntN(8) == 0 {
		p.Delay = time.Duration(1+r.IntN(20)) * time.Millisecond
	}
	if r.IntN(2) == 0 {
		p.Rate = []int64{100e6, 1e9, 10e9, 100e9}[r.IntN(4)]
	}
	if r.IntN(3) > 0 {
		p.Loss = r.Float64() * 0.03
	}
	if r.IntN(3) == 0 {
		p.Duplicate = r.Float64() * 0.05
	}
	if r.IntN(3) == 0 {
		p.Reorder, p.Jitter = r.Float64()*0.1, time.Duration(1+r.IntN(200))*time.Microsecond
	}
	if r.IntN(3) == 0 {
		p.Corrupt = r.Float64() * 0.01
	}
	w.tell(", delay %v, rate %g, loss %.3f, duplicates %.3f, reordering %.3f by %v, corruption %.3f", p.Delay, float64(p.Rate), p.Loss,
		p.Duplicate, p.Reorder, p.Jitter, p.Corrupt)
	return p
}

// trouble makes up what else befalls the hosts, and has it happen while the program runs. What
// passes is shorter than anybody's patience.
func (w *world) trouble() {
	r := w.rand
	troubles := r.IntN(4)
	for range troubles {
		at := w.someTime(10*time.Microsecond, time.Second)
		long := w.someTime(10*time.Microsecond, 800*time.Millisecond)
		a, b := w.someTwo()
		switch r.IntN(3) {
		case 0:
			w.tell(", hosts %d and %d parted after %v for %v", a.index, b.index, at, long)
			w.passing(at, long, func(on bool) { w.net.Cut(a, b, on) })
		case 1:
			w.tell(", host %d stopped after %v for %v", a.index, at, long)
			w.passing(at, long, a.Stop)
		case 2:
			w.tell(", host %d's link down after %v for %v", a.index, at, long)
			w.passing(at, long, func(on bool) { a.SetLink(!on) })
		}
	}
	if w.fatal = r.IntN(4) == 0; !w.fatal {
		w.calmly = troubles == 0
		return
	}
	at := w.someTime(10*time.Microsecond, 100*time.Millisecond)
	a, b := w.someTwo()
	var do func()
	switch r.IntN(3) {
	case 0:
		w.tell(", hosts %d and %d parted for good after %v", a.index, b.index, at)
		w.end(a.index, b.index)
		do = func() {
			w.net.SetPath(a, b, func(p *Path) { p.Dead = true })
			w.net.SetPath(b, a, func(p *Path) { p.Dead = true })
		}
	case 1:
		w.tell(", host %d without power after %v", a.index, at)
		w.endHost(a.index)
		do = a.PowerOff
	case 2:
		w.tell(", host %d's process killed after %v", a.index, at)
		w.endHost(a.index)
		do = a.Kill
	}
	w.passing(at, 0, func(on bool) {
		if on {
			do()
		}
	})
}

// someTwo returns two different hosts.
func (w *world) someTwo() (a, b *Host) {
	i := w.rand.IntN(len(w.hosts))
	j := (i + 1 + w.rand.IntN(len(w.hosts)-1)) % len(w.hosts)
	return w.hosts[i], w.hosts[j]
}

// end says that what two hosts do with each other need not end well.
func (w *world) end(a, b int) {
	if w.ended == nil {
		w.ended = make(map[[2]int]bool)
	}
	w.ended[[2]int{min(a, b), max(a, b)}] = true
}

// endHost is end with all other hosts.
func (w *world) endHost(h int) {
	for other := range w.hosts {
		if other != h {
			w.end(h, other)
		}
	}
}

// mayFail reports whether a fault excuses what goes wrong between two hosts.
func (w *world) mayFail(a, b int) bool { return w.ended[[2]int{min(a, b), max(a, b)}] }

// someTime returns a time between two, short ones as often as long ones.
func (w *world) someTime(least, most time.Duration) time.Duration {
	d := least
	for d < most && w.rand.IntN(4) > 0 {
		d *= 2
	}
	return min(d, most) + time.Duration(w.rand.IntN(10000))
}

// passing has something happen after a time, and end after another or with the program.
func (w *world) passing(after, long time.Duration, set func(on bool)) {
	w.calm.Go(func() {
		if w.sleep(after) {
			set(true)
			w.sleep(long)
			set(false)
		}
	})
}

// sleep returns false if the program has ended meanwhile.
func (w *world) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-w.over:
		return false
	}
}

// wrong is an error that no fault on the network excuses.
type wrong struct{ error }

func (e wrong) Unwrap() error { return e.error }

func wrongf(format string, a ...any) error { return wrong{fmt.Errorf(format, a...)} }

// cqOptions returns those of a completion queue whose Wait sleeps at once, or polls before.
func (w *world) cqOptions() *verbs.CQOptions {
	return &verbs.CQOptions{Spin: time.Duration(w.rand.IntN(2) - 1), LockedThread: true}
}

// all runs the sides of a program, one for each host. Where somebody has died, they may fail, but not
// do wrong.
func (w *world) all(run func(ctx context.Context, side int) error) error {
	var sides sync.WaitGroup
	errs := make([]error, len(w.hosts))
	for i := range errs {
		sides.Go(func() {
			ctx, cancel := patient(i)
			defer cancel()
			if errs[i] = run(ctx, i); errs[i] != nil {
				errs[i] = fmt.Errorf("side %d, %s: %w", i, w.was(i), errs[i])
			}
		})
	}
	sides.Wait()
	return w.judge(errors.Join(errs...))
}

// patient returns the context of one of several goroutines, which ends when nothing may wait any longer:
// not at the same instant for any two of them, as the one that goes on first would be random.
func patient(i int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), limit+time.Duration(i)*time.Millisecond)
}

// patience is how queue pairs that are connected by number wait for what passes. A stream may be late by all
// the times that its first segment is sent again, which a lost packet is not.
func (w *world) patience() *verbs.ConnectOptions {
	if w.iwarp || w.fabric != nil {
		return &verbs.ConnectOptions{Timeout: 18}
	}
	return &verbs.ConnectOptions{Timeout: 16}
}

// judge returns err unless a fault excuses it.
func (w *world) judge(err error) error { return excuse(w.fatal, err) }

// excuse returns err unless it may be, and nobody did wrong.
func excuse(mayBe bool, err error) error {
	var bad wrong
	if mayBe && !errors.As(err, &bad) {
		return nil
	}
	return err
}

// stamp fills a message with bytes that tell all messages apart.
func stamp(b []byte, who, number int) {
	x := uint32(who)*2654435761 + uint32(number)*40503 + 17
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
}

// stamped reports whether b is such a message.
func stamped(b []byte, who, number int) bool {
	x := uint32(who)*2654435761 + uint32(number)*40503 + 17
	for i := range b {
		x = x*1664525 + 1013904223
		if b[i] != byte(x>>24) {
			return false
		}
	}
	return true
}

// someSize returns a size up to most, short ones as often as long ones.
func someSize(r *rand.Rand, most int) int {
	n := 1
	for n < most && r.IntN(8) > 0 {
		n *= 2
	}
	return r.IntN(min(n, most) + 1)
}
