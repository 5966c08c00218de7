// SPDX-License-Identifier: Apache-2.0

package check

// reuse has values that nothing refers to any more. They are used again for others.
type reuse[T any] []*T

// take returns one of them, or a new value. It is as it was given.
func (r *reuse[T]) take() *T {
	last := len(*r) - 1
	if last < 0 {
		return new(T)
	}
	v := (*r)[last]
	*r = (*r)[:last]
	return v
}

// give gives a value.
func (r *reuse[T]) give(v *T) { *r = append(*r, v) }

// ring has the last values that were added.
type ring[T any] struct {
	all  []T // in no order
	next int // of all, the oldest; 0 while there is room
}

// add adds a value to a ring of most, and returns the one that has to go for it, if any has.
func (r *ring[T]) add(v T, most int) (gone T, full bool) {
	if len(r.all) < most {
		r.all = append(r.all, v)
		return gone, false
	}
	gone, r.all[r.next] = r.all[r.next], v
	r.next = (r.next + 1) % most
	return gone, true
}

// newest returns the ith value, from the newest on.
func (r *ring[T]) newest(i int) T { return r.all[(r.next+len(r.all)-1-i)%len(r.all)] }
