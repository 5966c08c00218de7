// SPDX-License-Identifier: Apache-2.0

package regcache

import (
	"slices"
	"sort"
)

// index finds entries by address. They do not overlap. The addresses are in a slice of their own,
// where a search touches few cache lines.
type index struct {
	starts []uintptr
	list   []*entry
	recent *entry // the last one found
}

// find returns the entry that has all of a range, or nil.
func (x *index) find(from, to uintptr) *entry {
	if e := x.recent; e != nil && e.from <= from && to <= e.to {
		return e
	}
	i := x.after(from) - 1
	if i < 0 || to > x.list[i].to {
		return nil
	}
	x.recent = x.list[i]
	return x.recent
}

// after returns how many entries begin at or below an address.
func (x *index) after(at uintptr) int {
	low, high := 0, len(x.starts)
	for low < high {
		if mid := int(uint(low+high) / 2); x.starts[mid] <= at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// bounds returns which entries overlap a range, which is not empty: from i to j.
func (x *index) bounds(from, to uintptr) (i, j int) {
	if i = x.after(from); i > 0 && x.list[i-1].to > from {
		i--
	}
	return i, max(i, sort.Search(len(x.starts), func(k int) bool { return x.starts[k] >= to }))
}

// overlapping returns the entries that overlap a range, until the index changes.
func (x *index) overlapping(from, to uintptr) []*entry {
	i, j := x.bounds(from, to)
	return x.list[i:j]
}

// take removes and returns the entries that overlap a range.
func (x *index) take(from, to uintptr) []*entry {
	i, j := x.bounds(from, to)
	taken := slices.Clone(x.list[i:j])
	x.cut(i, j)
	return taken
}

// remove removes an entry.
func (x *index) remove(e *entry) {
	i := x.after(e.from)
	x.cut(i-1, i)
}

func (x *index) cut(i, j int) {
	x.starts, x.list = slices.Delete(x.starts, i, j), slices.Delete(x.list, i, j)
	x.recent = nil
}

// insert adds an entry that overlaps none.
func (x *index) insert(e *entry) {
	i := x.after(e.from)
	x.starts, x.list = slices.Insert(x.starts, i, e.from), slices.Insert(x.list, i, e)
}

// list is a list of entries, each of which is in one list at most.
type list struct{ first, last *entry }

// push puts an entry at the front.
func (l *list) push(e *entry) {
	e.newer, e.older = nil, l.first
	if l.first == nil {
		l.last = e
	} else {
		l.first.newer = e
	}
	l.first = e
}

// remove takes an entry out.
func (l *list) remove(e *entry) {
	if e.newer == nil {
		l.first = e.older
	} else {
		e.newer.older = e.older
	}
	if e.older == nil {
		l.last = e.newer
	} else {
		e.older.newer = e.newer
	}
	e.newer, e.older = nil, nil
}
