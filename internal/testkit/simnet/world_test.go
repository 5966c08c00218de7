// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// world is the world of one seed: a network, hosts with a device each, their faults, and the program
// that runs on them.
type world struct {
	*rdmatest.World // nil: the test has none
	net             *simnet.Net
	rand            *rand.Rand // for making the world up, in one goroutine
	iwarp           bool
	hosts           []*simnet.Host
	// fabric is the fabric that the hosts' adapters are at; nil: they are on RoCE or iWARP.
	fabric   *rdmatest.Fabric
	adapters []string // of the hosts
	devs     []*verbs.Device

	lossless bool            // nothing befalls the fabric that loses packets
	calmly   bool            // hosts have no faults, only paths do
	fatal    bool            // operations need not succeed
	ended    map[[2]int]bool // the hosts between which it need not: the lower number first

	over chan struct{} // closed when the program has ended
	calm sync.WaitGroup

	mu    sync.Mutex
	doing []string // the present action of each side, for errors
}

// at notes the present action of a side.
func (w *world) at(side int, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doing[side] = what
}

// was returns the step that a side is at.
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

// limit bounds a scenario in virtual time: nothing waits for longer.
const limit = 10 * time.Minute

// play makes up the world of a seed, and plays its scenario.
func play(rw *rdmatest.World, only, on string) {
	w := &world{World: rw, net: simnet.NetOf(rw), rand: rw.Rand, over: make(chan struct{})}
	sc := scenarios[w.rand.IntN(len(scenarios))]
	for only != "" && sc.name != only || on == "infiniband" && sc.ethernet {
		sc = scenarios[w.rand.IntN(len(scenarios))]
	}
	w.iwarp = !sc.roce && w.rand.IntN(2) == 1
	onFabric := !sc.ethernet && (rw.Seed()%4 == 3 || on == "infiniband")
	w.iwarp = w.iwarp && !onFabric
	w.tell("scenario %s", sc.name)
	if !onFabric {
		w.net.Default = w.newPath()
	}
	hosts := 2
	if sc.most > 0 {
		hosts = 3 + w.rand.IntN(sc.most-2)
	}
	w.doing = make([]string, hosts)
	if onFabric {
		w.startFabric(hosts)
	}
	for i := range hosts {
		h := rw.Host(fmt.Sprint(i))
		h.SetPoll(time.Duration(1+w.rand.IntN(30)) * time.Microsecond)
		w.hosts = append(w.hosts, simnet.HostOf(h))
		w.devs = append(w.devs, w.open(h))
	}
	if onFabric {
		if err := w.fabric.ClearCounters(infiniband.End{}); err != nil {
			rw.Fatal(err)
		}
		w.fabricTrouble()
	} else {
		w.trouble()
	}
	ended := make(chan error, 1)
	go func() { ended <- sc.run(w) }()
	var err error
	select {
	case err = <-ended:
		close(w.over)
	case <-time.After(2*limit - time.Minute):
		w.mu.Lock()
		err = fmt.Errorf("it has not ended: the sides are at %q", w.doing)
		w.mu.Unlock()
		close(w.over)
	}
	w.calm.Wait()
	if onFabric {
		err = errors.Join(err, w.lost())
	}
	if err != nil {
		rw.Error(err)
	}
}

// open opens a host's device.
func (w *world) open(h *rdmatest.Host) *verbs.Device {
	switch {
	case w.fabric != nil:
		return h.InfiniBand(w.fabric, w.adapters[len(w.devs)])
	case w.iwarp:
		return h.IWARP()
	}
	return h.RoCE()
}

// tell adds to the description of the seed.
func (w *world) tell(format string, a ...any) {
	if w.World != nil {
		w.Say(strings.TrimPrefix(format, ", "), a...)
	}
}

// Fault is rdmatest's. Without a world all faults strike.
func (w *world) Fault(format string, a ...any) bool {
	return w.World == nil || w.World.Fault(format, a...)
}

// newPath makes up a path: perfect, or with some of all faults.
func (w *world) newPath() simnet.Path {
	r := w.rand
	p := simnet.Path{Delay: time.Duration(1+r.IntN(50)) * time.Microsecond}
	if r.IntN(8) == 0 {
		p.Delay = time.Duration(1+r.IntN(20)) * time.Millisecond
	}
	if r.IntN(2) == 0 {
		p.Rate = []int64{100e6, 1e9, 10e9, 100e9}[r.IntN(4)]
	}
	w.tell("paths: delay %v, rate %g", p.Delay, float64(p.Rate))
	share := func(chance bool, most float64, what string) float64 {
		if !chance {
			return 0
		}
		if s := r.Float64() * most; w.Fault("%.3f of packets %s", s, what) {
			return s
		}
		return 0
	}
	p.Loss = share(r.IntN(3) > 0, 0.03, "lost")
	p.Duplicate = share(r.IntN(3) == 0, 0.05, "arrive twice")
	p.Jitter = time.Duration(1+r.IntN(200)) * time.Microsecond
	p.Reorder = share(r.IntN(3) == 0, 0.1, fmt.Sprintf("delayed by up to %v", p.Jitter))
	p.Corrupt = share(r.IntN(3) == 0, 0.01, "corrupted")
	return p
}

// trouble makes up the other faults of the hosts, and has them happen while the program runs. Faults
// that pass are shorter than every timeout.
func (w *world) trouble() {
	r := w.rand
	troubles := r.IntN(4)
	for range troubles {
		at := w.someTime(10*time.Microsecond, time.Second)
		long := w.someTime(10*time.Microsecond, 800*time.Millisecond)
		a, b := w.someTwo()
		switch r.IntN(3) {
		case 0:
			if w.Fault("hosts %d and %d parted after %v for %v", a.Index(), b.Index(), at, long) {
				w.passing(at, long, func(on bool) { w.net.Cut(a, b, on) })
			}
		case 1:
			if w.Fault("host %d stopped after %v for %v", a.Index(), at, long) {
				w.passing(at, long, a.Stop)
			}
		case 2:
			if w.Fault("host %d's link down after %v for %v", a.Index(), at, long) {
				w.passing(at, long, func(on bool) { a.SetLink(!on) })
			}
		}
	}
	if w.fatal = r.IntN(4) == 0; !w.fatal {
		w.calmly = troubles == 0
		return
	}
	at := w.someTime(10*time.Microsecond, 100*time.Millisecond)
	a, b := w.someTwo()
	end := w.endHost
	what, do := "", func() {}
	switch r.IntN(3) {
	case 0:
		what = fmt.Sprintf("hosts %d and %d parted for good", a.Index(), b.Index())
		end = func(int) { w.end(a.Index(), b.Index()) }
		do = func() {
			w.net.SetPath(a, b, func(p *simnet.Path) { p.Dead = true })
			w.net.SetPath(b, a, func(p *simnet.Path) { p.Dead = true })
		}
	case 1:
		what, do = fmt.Sprintf("host %d without power", a.Index()), a.PowerOff
	case 2:
		what, do = fmt.Sprintf("host %d's process killed", a.Index()), a.Kill
	}
	if w.fatal = w.Fault("%s after %v", what, at); !w.fatal {
		return
	}
	end(a.Index())
	w.passing(at, 0, func(on bool) {
		if on {
			do()
		}
	})
}

// someTwo returns two different hosts.
func (w *world) someTwo() (a, b *simnet.Host) {
	i := w.rand.IntN(len(w.hosts))
	j := (i + 1 + w.rand.IntN(len(w.hosts)-1)) % len(w.hosts)
	return w.hosts[i], w.hosts[j]
}

// end says that operations between two hosts need not succeed.
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

// mayFail reports whether a fault excuses errors between two hosts.
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

// cqOptions returns the options of a completion queue whose Wait sleeps at once, or polls before.
func (w *world) cqOptions() *verbs.CQOptions {
	return &verbs.CQOptions{Spin: time.Duration(w.rand.IntN(2) - 1), LockedThread: true}
}

// all runs the sides of a program, one for each host. If a host has died, they may fail, but not break
// the model.
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
// not at the same instant for any two of them, as it would be random which goes on first.
func patient(i int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), limit+time.Duration(i)*time.Millisecond)
}

// patience has the timeouts of queue pairs that are connected by number, for faults that pass. A stream may be
// late by all the times that its first segment is sent again, which a lost packet is not.
func (w *world) patience() *verbs.ConnectOptions {
	if w.iwarp || w.fabric != nil {
		return &verbs.ConnectOptions{Timeout: 18}
	}
	return &verbs.ConnectOptions{Timeout: 16}
}

// judge returns err unless a fault excuses it.
func (w *world) judge(err error) error { return excuse(w.fatal, err) }

// excuse returns err unless it may be, and no side broke the model.
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
