// SPDX-License-Identifier: Apache-2.0

package rdmatest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Faults are kinds of faults for [World.Draw].
type Faults uint

const (
	Loss        Faults = 1 << iota // of packets
	Duplication                    // of packets
	Reordering                     // of packets
	Corruption                     // of packets, which their CRCs show
	Delay                          // paths that take longer
	Rate                           // paths with a bandwidth
	Partitions                     // two hosts parted for a time
	OneWay                         // the same in one direction
	Flapping                       // a host's link down for a time, again and again
	Stops                          // a process stopped for a time
	NoReceives                     // a receiver without receives for a time
	Refusals                       // a registration that is refused
	Kills                          // a process killed
	PowerLoss                      // a host without power
	Removal                        // a device removed

	// Packets are the faults of single packets, and of paths.
	Packets = Loss | Duplication | Reordering | Corruption | Delay | Rate
	// Passing are the faults that end soon, before a queue pair or a connection manager gives up.
	Passing = Partitions | OneWay | Flapping | Stops | NoReceives
	// Fatal are the faults after which something is gone.
	Fatal = Kills | PowerLoss | Removal
)

// Draw makes up faults of some kinds from the seed, and has them strike while the test runs: faults of packets on each
// path, up to three faults that pass, one refused registration in a quarter of the seeds, and one that is fatal in a
// quarter of the seeds. They strike the hosts among, or all that the world has now, whose devices are open. Faults that
// a host's device cannot have do not strike it. A path keeps its delay and bandwidth if a further call is for faults of
// other kinds.
func (w *World) Draw(f Faults, among ...*Host) {
	if len(among) == 0 {
		w.mu.Lock()
		among = append(among, w.hosts...)
		w.mu.Unlock()
	}
	if len(among) < 2 {
		f &^= Partitions | OneWay
	}
	d := &drawer{World: w, Rand: w.draws, hosts: among}
	for _, a := range among {
		if a.onFabric() {
			d.cable(f, a)
		}
		for _, b := range among {
			if a != b {
				d.path(f, a, b)
			}
		}
	}
	if passing := d.among(f & Passing); len(passing) > 0 {
		for range d.IntN(4) {
			d.passing(passing[d.IntN(len(passing))])
		}
	}
	if f&Refusals != 0 && d.IntN(4) == 0 {
		h, skip := d.host(), d.IntN(12)
		if w.Fault("host %s: region number %d from now on is refused", h, skip+1) {
			h.RefuseRegions(skip, 1)
		}
	}
	if fatal := d.among(f & Fatal); len(fatal) > 0 && d.IntN(4) == 0 {
		d.fatal(fatal[d.IntN(len(fatal))])
	}
}

// longest bounds faults that pass. Three of them, one after another, end before the retries of a queue pair do that
// package cm has connected, which take 2.1 s.
const longest = 500 * time.Millisecond

// drawer makes up faults.
type drawer struct {
	*World
	*rand.Rand
	hosts []*Host
}

// among returns the kinds of a set.
func (d *drawer) among(f Faults) (kinds []Faults) {
	for k := Loss; k <= Removal; k <<= 1 {
		if f&k != 0 {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

func (d *drawer) host() *Host { return d.hosts[d.IntN(len(d.hosts))] }

// two returns two of the hosts, which are two or more.
func (d *drawer) two() (a, b *Host) {
	i := d.IntN(len(d.hosts))
	return d.hosts[i], d.hosts[(i+1+d.IntN(len(d.hosts)-1))%len(d.hosts)]
}

// time returns a time between two. Each order of magnitude is as likely as the others.
func (d *drawer) time(least, most time.Duration) time.Duration {
	return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), d.Float64()))
}

// path makes up the faults of packets from a to b. A delay, and a bandwidth, are no faults that are taken away:
// everything takes some time. A path that has them keeps them if f is of other kinds.
func (d *drawer) path(f Faults, a, b *Host) {
	set := func(chance int, share float64, k Faults, what string, change func(p *Path, share float64)) {
		drawn := d.IntN(chance) == 0
		share *= d.Float64()
		if f&k != 0 && drawn && d.Fault("%s to %s: %.3f of packets %s", a, b, share, what) {
			d.SetPath(a, b, func(p *Path) { change(p, share) })
		}
	}
	delay, jitter := d.time(time.Microsecond, 5*time.Millisecond), time.Duration(1+d.IntN(200))*time.Microsecond
	rate := []int64{0, 100e6, 1e9, 10e9, 100e9}[d.IntN(5)]
	var was, is Path
	d.SetPath(a, b, func(p *Path) {
		was = *p
		switch {
		case f&Delay != 0:
			p.Delay = delay
		case p.Delay == 0 && !a.onFabric(): // whose cables take their time already
			p.Delay = 5 * time.Microsecond
		}
		if f&Rate != 0 {
			p.Rate = rate
		}
		is = *p
	})
	if is != was {
		rate := "no limit of the rate"
		if is.Rate > 0 {
			rate = fmt.Sprintf("rate %g Mbit/s", float64(is.Rate)/1e6)
		}
		d.Say("%s to %s: delay %v, %s", a, b, is.Delay, rate)
	}
	set(2, 0.03, Loss, "lost", func(p *Path, q float64) { p.Loss = q })
	set(3, 0.05, Duplication, "arrive twice", func(p *Path, q float64) { p.Duplicate = q })
	set(3, 0.1, Reordering, "delayed by up to "+jitter.String(),
		func(p *Path, q float64) { p.Reorder, p.Jitter = q, jitter })
	set(3, 0.01, Corruption, "corrupted", func(p *Path, q float64) { p.Corrupt = q })
}

// cable makes up the faults of the cable of a host's adapter, beside the faults of its paths. Packets that are lost
// there are corrupted ones.
func (d *drawer) cable(f Faults, h *Host) {
	delay, long := d.IntN(4) == 0, d.time(time.Microsecond, time.Millisecond)
	if f&Delay != 0 && delay {
		d.Say("host %s: its cable takes %v", h, long)
		h.fabric.SetDelay(h.adapter, long)
	}
	lost, share := d.IntN(2) == 0, d.Float64()*0.03
	if f&(Loss|Corruption) != 0 && lost && d.Fault("host %s: %.3f of packets on its cable corrupted", h, share) {
		h.fabric.SetPacketErrorRate(h.adapter, share)
	}
	nth := 1 + d.IntN(30)
	if f&Loss != 0 && d.IntN(3) == 0 && d.Fault("host %s: packet %d that it sends lost", h, nth) {
		h.fabric.DropPacket(h.adapter, nth)
	}
}

// passing makes up a fault that ends soon.
func (d *drawer) passing(k Faults) {
	at, long := d.time(10*time.Microsecond, time.Second), d.time(10*time.Microsecond, longest)
	h, a, b := d.host(), (*Host)(nil), (*Host)(nil)
	if k&(Partitions|OneWay) != 0 {
		a, b = d.two()
	}
	switch {
	case k == Partitions:
		d.strike(at, long, func(on bool) { d.Partition(a, b, on) }, "%s and %s parted after %v for %v", a, b, at, long)
	case k == OneWay:
		d.strike(at, long, func(on bool) { d.SetPath(a, b, func(p *Path) { p.Cut = on }) },
			"nothing from %s to %s after %v for %v", a, b, at, long)
	case k == Stops:
		d.strike(at, long, h.Stop, "host %s: stopped after %v for %v", h, at, long)
	case k == Flapping:
		times := 1 + d.IntN(3)
		long /= time.Duration(2 * times)
		if d.Fault("host %s: link down after %v for %v, %d times", h, at, long, times) {
			for i := range times {
				d.during(at+time.Duration(2*i)*long, long, func(on bool) { h.SetLink(!on) })
			}
		}
	case k == NoReceives && !h.onStreams():
		d.strike(at, long, h.HoldReceives, "host %s: no receives after %v for %v", h, at, long)
	}
}

// fatal makes up the end of something.
func (d *drawer) fatal(k Faults) {
	h, at := d.host(), d.time(10*time.Microsecond, 100*time.Millisecond)
	what, do := "killed", h.Kill
	switch k {
	case PowerLoss:
		what, do = "without power", h.PowerOff
	case Removal:
		what, do = "its devices removed", h.Remove
	}
	if d.Fault("host %s: %s after %v", h, what, at) {
		d.World.run(nil, d.ctx, func(context.Context) error {
			if d.pause(at) {
				do()
			}
			return nil
		})
	}
}

// strike makes up a fault that something sets for a time.
func (d *drawer) strike(at, long time.Duration, set func(on bool), format string, args ...any) {
	if d.Fault(format, args...) {
		d.during(at, long, set)
	}
}

// during sets something for a time, which ends with the test.
func (w *World) during(at, long time.Duration, set func(on bool)) {
	w.run(nil, w.ctx, func(context.Context) error {
		if w.pause(at) {
			set(true)
			w.pause(long)
			set(false)
		}
		return nil
	})
}

// pause sleeps, and returns false if the test has ended.
func (w *World) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.ctx.Done():
		return false
	}
}
