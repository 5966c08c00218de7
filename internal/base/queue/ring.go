// SPDX-License-Identifier: Apache-2.0

package queue

// Ring is a double-ended queue whose elements stay in place until it grows. The zero Ring is empty
// and takes no memory. Elements keep their memory when they are popped, so slices inside them are
// reused.
type Ring[T any] struct {
	slots []T // length a power of two
	head  int
	n     int
}

const firstSlots = 8

// Len returns the number of elements.
func (r *Ring[T]) Len() int { return r.n }

// At returns element i, counted from the front. It is valid until the ring grows.
func (r *Ring[T]) At(i int) *T { return &r.slots[(r.head+i)&(len(r.slots)-1)] }

// Front returns the first element.
func (r *Ring[T]) Front() *T { return r.At(0) }

// PushBack adds an element and returns it with its previous contents.
func (r *Ring[T]) PushBack() *T {
	if r.n == len(r.slots) {
		r.grow()
	}
	r.n++
	return r.At(r.n - 1)
}

// PopFront drops the first element.
func (r *Ring[T]) PopFront() {
	r.head = (r.head + 1) & (len(r.slots) - 1)
	r.n--
}

// PopBack drops the last element.
func (r *Ring[T]) PopBack() { r.n-- }

// Clear drops all elements.
func (r *Ring[T]) Clear() { r.n, r.head = 0, 0 }

func (r *Ring[T]) grow() {
	next := make([]T, max(firstSlots, 2*len(r.slots)))
	for i := range r.n {
		next[i] = *r.At(i)
	}
	r.slots, r.head = next, 0
}
