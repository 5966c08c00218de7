// SPDX-License-Identifier: Apache-2.0

package nvme

// fifo is a queue, which keeps its memory. Work requests complete in the order in which they were posted, so that a
// completion can stand for several: the buffers that they hold are in such a queue.
type fifo[T any] struct {
	list []T
	head int // index of the first element that is not popped
}

func (f *fifo[T]) push(v T) {
	if f.head > 0 && len(f.list) == cap(f.list) {
		f.list = f.list[:copy(f.list, f.list[f.head:])]
		f.head = 0
	}
	f.list = append(f.list, v)
}

// pop returns the oldest element. There has to be one.
func (f *fifo[T]) pop() T {
	v := f.list[f.head]
	f.head++
	return v
}
