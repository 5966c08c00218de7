// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"math/rand/v2"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Load is a kind of traffic: flows of one size or of sizes that are distributed, by one operation.
type Load struct {
	Op    verbs.SendOp
	UD    bool
	Size  int64 // bytes of a flow, where Sizes is nil
	Sizes *Sizes
	Start Time
}

func (l *Load) flow(r *rand.Rand, src, dst int, at Time) Flow {
	size := l.Size
	if l.Sizes != nil {
		size = l.Sizes.draw(r)
	}
	return Flow{Src: int32(src), Dst: int32(dst), Size: size, Start: at, Op: l.Op, UD: l.UD}
}

// Incast has so many senders, chosen at random if there are more hosts, send to a receiver at once.
func (l *Load) Incast(r *rand.Rand, hosts, senders, receiver int) (flows []Flow) {
	for _, src := range r.Perm(hosts) {
		if src != receiver && len(flows) < senders {
			flows = append(flows, l.flow(r, src, receiver, l.Start))
		}
	}
	return flows
}

// Permutation has each host send to another, and each receive from one.
func (l *Load) Permutation(r *rand.Rand, hosts int) (flows []Flow) {
	to := r.Perm(hosts) // a circle through all hosts
	for i, src := range to {
		flows = append(flows, l.flow(r, src, to[(i+1)%hosts], l.Start))
	}
	return flows
}

// AllToAll has each host send to every other.
func (l *Load) AllToAll(r *rand.Rand, hosts int) (flows []Flow) {
	for src := range hosts {
		for i := 1; i < hosts; i++ {
			flows = append(flows, l.flow(r, src, (src+i)%hosts, l.Start))
		}
	}
	return flows
}

// Poisson has flows between random hosts begin at random, until a time, so many that they take a share of the hosts'
// links of a rate. Payload counts.
func (l *Load) Poisson(r *rand.Rand, hosts int, share, rate float64, until Time) (flows []Flow) {
	mean := float64(l.Size)
	if l.Sizes != nil {
		mean = l.Sizes.Mean()
	}
	gap := 8 * mean / (share * rate * float64(hosts)) * float64(Second)
	for at := float64(l.Start); ; {
		at += gap * r.ExpFloat64()
		if at >= float64(until) {
			return flows
		}
		src := r.IntN(hosts)
		dst := r.IntN(hosts - 1)
		if dst >= src {
			dst++
		}
		flows = append(flows, l.flow(r, src, dst, Time(at)))
	}
}

// PoissonFlows returns about how many flows Poisson returns.
func (l *Load) PoissonFlows(hosts int, share, rate float64, until Time) float64 {
	mean := float64(l.Size)
	if l.Sizes != nil {
		mean = l.Sizes.Mean()
	}
	return (until - l.Start).Seconds() * share * rate * float64(hosts) / 8 / max(mean, 1)
}

// Sizes is a distribution of sizes: between two points of it, sizes are equally probable.
type Sizes struct {
	Name   string
	Text   string
	points []sizePoint
}

// sizePoint is the share of flows that have so many bytes at most.
type sizePoint struct{ bytes, percent float64 }

// Distributions are the published distributions of sizes, with the points that HPCC's simulations have (Li et al.,
// SIGCOMM 2019).
var Distributions = []*Sizes{
	{"websearch", "web search (Alizadeh et al., DCTCP, SIGCOMM 2010)",
		[]sizePoint{{0, 0}, {10e3, 15}, {20e3, 20}, {30e3, 30}, {50e3, 40}, {80e3, 53},
			{200e3, 60}, {1e6, 70}, {2e6, 80}, {5e6, 90}, {10e6, 97}, {30e6, 100}}},
	{"fbhadoop", "Hadoop at Facebook (Roy et al., SIGCOMM 2015)",
		[]sizePoint{{0, 0}, {100, 1}, {200, 2}, {300, 5}, {350, 15}, {400, 20}, {500, 30},
			{600, 40}, {700, 50}, {1000, 60}, {2000, 67}, {7000, 70}, {30e3, 72}, {50e3, 82}, {80e3, 87}, {120e3, 90},
			{300e3, 95}, {1e6, 97.5}, {2e6, 99}, {10e6, 100}}},
	{"alistorage", "storage at Alibaba (2019)",
		[]sizePoint{{0, 0}, {4000, 22.93}, {8000, 69.21}, {16e3, 80.61}, {32e3, 90.47}, {64e3, 93.53},
			{128e3, 96.77}, {256e3, 97.53}, {2e6, 100}}},
}

// Mean returns the mean size in bytes.
func (d *Sizes) Mean() (mean float64) {
	for i, p := range d.points[1:] {
		mean += (p.percent - d.points[i].percent) / 100 * (p.bytes + d.points[i].bytes) / 2
	}
	return mean
}

// draw returns a size, of one byte at least.
func (d *Sizes) draw(r *rand.Rand) int64 {
	percent := 100 * r.Float64()
	for i, p := range d.points[1:] {
		if before := d.points[i]; percent <= p.percent {
			share := (percent - before.percent) / (p.percent - before.percent)
			return max(int64(math.Round(before.bytes+share*(p.bytes-before.bytes))), 1)
		}
	}
	return int64(d.points[len(d.points)-1].bytes)
}
