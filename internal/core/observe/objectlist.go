// SPDX-License-Identifier: Apache-2.0

package observe

// Member is in one [ObjectList] at most.
type Member interface{ ListIndex() *int }

// ObjectList is a set of objects that can be listed in pages, with changes in between. Its owner's lock covers it.
type ObjectList[T Member] struct{ list []T }

// Add adds an object.
func (r *ObjectList[T]) Add(m T) {
	*m.ListIndex() = len(r.list)
	r.list = append(r.list, m)
}

// Remove removes an object that was added. The last one takes its place.
func (r *ObjectList[T]) Remove(m T) {
	at, last := *m.ListIndex(), len(r.list)-1
	r.list[at] = r.list[last]
	*r.list[at].ListIndex() = at
	var none T
	r.list[last] = none
	r.list = r.list[:last]
}

// Len returns how many objects there are.
func (r *ObjectList[T]) Len() int { return len(r.list) }

// Clear removes all objects.
func (r *ObjectList[T]) Clear() { r.list = nil }

// All returns all objects. The slice is valid until one is added or removed.
func (r *ObjectList[T]) All() []T { return r.list }

// Page returns up to n objects, valid until the lock is released, and the position of the next page; see
// driver.Observer. Pages go from the end to the front: objects that Remove moves go to the front, and
// are not missed.
func (r *ObjectList[T]) Page(n, at int) (page []T, next int) {
	end := min(at, len(r.list))
	next = max(end-n, 0)
	return r.list[next:end], next
}

// FillPage fills in a page with info's result for each object, and returns how many there are and the position of the
// next page; see [ObjectList.Page].
func FillPage[T Member, I any](r *ObjectList[T], page []I, at int, info func(T) I) (n, next int) {
	list, next := r.Page(len(page), at)
	for i, m := range list {
		page[i] = info(m)
	}
	return len(list), next
}
