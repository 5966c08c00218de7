// SPDX-License-Identifier: Apache-2.0

package link

import (
	"math"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
)

// random is the generator SplitMix64: the numbers of a seed are always the same.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	v := uint64(*r)
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// chance returns true with a probability.
func (r *random) chance(share float64) bool { return float64(r.next()>>11)/(1<<53) < share }

// upTo returns a number of nanoseconds from 0 to most.
func (r *random) upTo(most clock.Time) clock.Time { return clock.Time(r.next() % (uint64(most) + 1)) }

// bitsToError returns how many bits pass until one is wrong, if each is with probability rate.
func (r *random) bitsToError(rate float64) int64 {
	u := float64(r.next()>>11+1) / (1 << 53) // above 0, at most 1
	g := math.Log(u) / math.Log1p(-rate)
	if g > 1<<60 {
		return 1 << 60
	}
	return int64(g)
}
