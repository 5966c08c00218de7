// SPDX-License-Identifier: Apache-2.0

package pin

import "slices"

// segment is a range of addresses, whole pages, that n regions pin.
type segment struct {
	from, to uintptr
	n        int
}

// ranges counts how many regions pin each page. Its segments are sorted and do not overlap.
type ranges struct {
	list  []segment
	bytes uintptr // of all segments
}

// split makes at a boundary between segments, and returns the index of the first that is not below.
func (r *ranges) split(at uintptr) int {
	i, _ := slices.BinarySearchFunc(r.list, at, func(s segment, at uintptr) int {
		if s.to <= at {
			return -1
		}
		return 1
	})
	if i == len(r.list) || r.list[i].from >= at {
		return i
	}
	left, right := r.list[i], r.list[i]
	left.to, right.from = at, at
	r.list = slices.Replace(r.list, i, i+1, left, right)
	return i + 1
}

// add counts one more region of the pages in a range.
func (r *ranges) add(from, to uintptr) {
	if from == to {
		return
	}
	first := r.split(from)
	end := r.split(to)
	at, part := from, make([]segment, 0, 2*(end-first)+1)
	gap := func(next uintptr) {
		if at < next {
			part = append(part, segment{at, next, 1})
			r.bytes += next - at
		}
	}
	for _, s := range r.list[first:end] {
		gap(s.from)
		s.n++
		part, at = append(part, s), s.to
	}
	gap(to)
	r.list = slices.Replace(r.list, first, end, part...)
	r.merge(first, first+len(part))
}

// remove counts one region less, and calls unused for each range that has none left.
func (r *ranges) remove(from, to uintptr, unused func(from, to uintptr)) {
	if from == to {
		return
	}
	first := r.split(from)
	end := r.split(to)
	kept := r.list[first:first]
	for _, s := range r.list[first:end] {
		if s.n--; s.n > 0 {
			kept = append(kept, s)
			continue
		}
		r.bytes -= s.to - s.from
		unused(s.from, s.to)
	}
	r.list = slices.Delete(r.list, first+len(kept), end)
	r.merge(first, first+len(kept))
}

// merge joins neighbours of one count, of the segments from first to end and the ones beside them.
func (r *ranges) merge(first, end int) {
	i := max(first-1, 0)
	end = min(end+1, len(r.list))
	if i >= end {
		return
	}
	out := i
	for j := i + 1; j < end; j++ {
		if last := &r.list[out]; last.to == r.list[j].from && last.n == r.list[j].n {
			last.to = r.list[j].to
			continue
		}
		out++
		r.list[out] = r.list[j]
	}
	r.list = slices.Delete(r.list, out+1, end)
}
