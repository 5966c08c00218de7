// SPDX-License-Identifier: Apache-2.0

package sim

import "math/bits"

// Ring is an all-reduce of the first ranks hosts in a ring (Patarasuk and Yuan, 2009): each sends a rank's share of the
// size to the next, and after that the received data, twice once around. A step begins when a rank has its
// predecessor's data and has sent its own.
func (l *Load) Ring(ranks int) (flows []Flow) {
	share := (l.Size + int64(ranks) - 1) / int64(ranks)
	for step := range 2 * (ranks - 1) {
		for i := range ranks {
			f := Flow{Src: int32(i), Dst: int32((i + 1) % ranks), Size: share, Start: l.Start, Op: l.Op}
			if before := int32(len(flows) - i - ranks); step > 0 {
				f.After = []int32{before + int32(i), before + int32((i+ranks-1)%ranks)}
			}
			flows = append(flows, f)
		}
	}
	return flows
}

// HalvingDoubling is an all-reduce by recursive halving and doubling (Thakur, Rabenseifner and Gropp, 2005) of the
// first ranks hosts, a power of two: each exchanges half of the size with a partner, a quarter with another, and so on,
// and then as much in reverse.
func (l *Load) HalvingDoubling(ranks int) (flows []Flow) {
	steps := bits.Len(uint(ranks)) - 1
	partner := func(step, i int) int {
		if step >= steps {
			step = 2*steps - 1 - step
		}
		return i ^ ranks>>(step+1)
	}
	for step := range 2 * steps {
		half := min(step, 2*steps-1-step) + 1
		for i := range ranks {
			f := Flow{Src: int32(i), Dst: int32(partner(step, i)), Size: max(l.Size>>half, 1), Start: l.Start, Op: l.Op}
			if before := int32(len(flows) - i - ranks); step > 0 {
				f.After = []int32{before + int32(i), before + int32(partner(step-1, i))}
			}
			flows = append(flows, f)
		}
	}
	return flows
}

// Tree is an all-reduce of the first ranks hosts over a binary tree: all data go to host 0, reduced on the way, and
// back.
func (l *Load) Tree(ranks int) (flows []Flow) {
	// the flow from rank i to its parent: the last ranks come first
	up := func(i int) int32 { return int32(ranks - 1 - i) }
	children := func(i int) (list []int) {
		for c := 2*i + 1; c <= min(2*i+2, ranks-1); c++ {
			list = append(list, c)
		}
		return list
	}
	for i := ranks - 1; i > 0; i-- {
		f := Flow{Src: int32(i), Dst: int32((i - 1) / 2), Size: l.Size, Start: l.Start, Op: l.Op}
		for _, c := range children(i) {
			f.After = append(f.After, up(c))
		}
		flows = append(flows, f)
	}
	for i := 1; i < ranks; i++ {
		parent := (i - 1) / 2
		f := Flow{Src: int32(parent), Dst: int32(i), Size: l.Size, Start: l.Start, Op: l.Op}
		if parent > 0 {
			f.After = []int32{int32(ranks - 2 + parent)} // the flow down to the parent
		} else {
			for _, c := range children(0) {
				f.After = append(f.After, up(c))
			}
		}
		flows = append(flows, f)
	}
	return flows
}
